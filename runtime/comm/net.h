/* Stream sockets whose every step has a deadline (seconds of ddp_clock). Sockets are close-on-exec
   and never raise SIGPIPE. Functions that return an int give -1 and errno; ETIMEDOUT is the
   deadline, ECONNRESET also stands for an orderly end of the stream in the middle of a message. */
#ifndef DDP_COMM_NET_H
#define DDP_COMM_NET_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DDP_NET_NAME = 64 }; /* bytes of a numeric address as text */

struct addrinfo;
/* Addresses of a name or of "[::1]", for freeaddrinfo; flags of getaddrinfo. NULL: errno, of which
   ddp_net_reason makes words. */
struct addrinfo *ddp_net_resolve(const char *host, int port, int flags, double deadline);
const char *ddp_net_reason(int number);
/* Numeric addresses by which other hosts may reach this one, of the interfaces that
   GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME allows. Returns how many. */
int ddp_net_own_addresses(char out[][DDP_NET_NAME], int limit);
/* Tries all addresses of the host once, each for a second at most. */
int ddp_net_dial(const char *host, int port, double deadline);
/* host NULL: every interface. port 0: any; *got receives the real one. */
int ddp_net_listen(const char *host, int port, int *got);
/* "name, pid N" of the process that listens on a port of this host; false: it cannot be seen. */
bool ddp_net_port_owner(int port, char *out, size_t size);
/* Names of the abstract namespace: they vanish with the process. */
int ddp_net_dial_unix(const char *name);
int ddp_net_listen_unix(const char *name);
int ddp_net_accept(int listener, double deadline);
bool ddp_net_wait(int fd, short events, double deadline);
int ddp_net_send(int fd, const void *data, size_t bytes, double deadline);
int ddp_net_recv(int fd, void *data, size_t bytes, double deadline);
/* One descriptor with one byte of payload over a unix socket. */
int ddp_net_send_fd(int socket, int fd);
int ddp_net_recv_fd(int socket, double deadline);
/* Uid of the process at the other end of a unix socket, -1 if unknown. */
long ddp_net_peer_uid(int socket);
/* Numeric address of either end; "" for unix sockets. */
void ddp_net_local_name(int fd, char out[DDP_NET_NAME]);
void ddp_net_peer_name(int fd, char out[DDP_NET_NAME]);
/* What was sent is not acknowledged for a second, and has been sent again at least `again` times (0: something is
   sent all the time anyway): the other host is gone, or the network to it is cut. A process that is only
   stopped still has a kernel that acknowledges. */
bool ddp_net_cut(int fd, int again);
bool ddp_net_is_loopback(const char *address);
/* A host that vanishes while nothing is said is noticed within half a minute. */
void ddp_net_keep_alive(int fd);
/* Waits until the peer's kernel has all we sent, or the deadline. */
void ddp_net_drain(int fd, double deadline);
uint64_t ddp_net_nonce(void);
#endif
