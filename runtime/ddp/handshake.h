/* Comparing what must be equal on all ranks before anything relies on it: backends abort or return
   wrong numbers when sizes differ. */
#ifndef DDP_DDP_HANDSHAKE_H
#define DDP_DDP_HANDSHAKE_H
#include "group.h"
#include <stdint.h>

/* Collective: an error on every rank when a rank's value differs from rank 0's; `what` names it. */
DdpError *ddp_handshake(DdpGroup *g, const char *what, uint64_t value);
#endif
