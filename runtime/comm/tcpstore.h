/* Client of PyTorch's TCPStore (torch >= 2.2): the four requests that the rendezvous needs. Keys
   get PyTorch's leading "/". Every call ends by its deadline. */
#ifndef DDP_COMM_TCPSTORE_H
#define DDP_COMM_TCPSTORE_H
#include <stddef.h>

/* Connects and proves with one CHECK that a store answers: *present says whether the key is there.
   -1: errno; EPROTO: something else listens there. Otherwise the descriptor. */
int ddp_tcpstore_open(const char *host, int port, const char *key, int *present, double deadline);
/* 1 present, 0 absent, -1 errno. */
int ddp_tcpstore_check(int fd, const char *key, double deadline);
int ddp_tcpstore_set(int fd, const char *key, const char *value, double deadline);
/* Text of an existing key (check first: older stores close the connection on a missing one).
   0, or -1 with errno; EMSGSIZE: does not fit. */
int ddp_tcpstore_get(int fd, const char *key, char *out, size_t size, double deadline);
#endif
