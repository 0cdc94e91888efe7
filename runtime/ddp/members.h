/* Who shares a host with whom; internal to group.c. Ranks are sorted; a host's lowest rank leads
   it. */
#ifndef DDP_DDP_MEMBERS_H
#define DDP_DDP_MEMBERS_H
#include "rendezvous.h"

typedef struct DdpMembers {
  int rank, world;
  int n_hosts, widest; /* hosts, ranks of the largest one */
  int *host;           /* [world]: host of each rank */
  int *local;          /* [world]: its number within the host */
  int *ranks;          /* [n_hosts * widest]: rank by host and number, -1: none */
} DdpMembers;

DdpError *ddp_members_find(DdpMembers *m, int rank, int world, const DdpPeer *peers);
int ddp_members_count(const DdpMembers *m, int host);
int ddp_members_rank(const DdpMembers *m, int host, int local);
void ddp_members_free(DdpMembers *m);
#endif
