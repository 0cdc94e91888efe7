/* In: every rank's host id. Out: hosts, and the number of each rank within its host. */
#include "members.h"
#include <stdlib.h>
#include <string.h>

DdpError *ddp_members_find(DdpMembers *m, int rank, int world, const DdpPeer *peers) {
  size_t n = (size_t)world;
  *m = (DdpMembers){.rank = rank, .world = world};
  m->host = calloc(n, sizeof *m->host);
  m->local = calloc(n, sizeof *m->local);
  int *count = calloc(n, sizeof *count), *first = calloc(n, sizeof *first);
  if (m->host && m->local && count && first) {
    for (int r = 0; r < world; r++) {
      int h = 0;
      while (h < m->n_hosts && strcmp(peers[first[h]].host_id, peers[r].host_id) != 0) h++;
      if (h == m->n_hosts) first[m->n_hosts++] = r;
      m->host[r] = h;
      m->local[r] = count[h]++;
      if (count[h] > m->widest) m->widest = count[h];
    }
    m->ranks = malloc((size_t)m->n_hosts * (size_t)m->widest * sizeof *m->ranks);
  }
  free(count);
  free(first);
  if (!m->ranks) {
    ddp_members_free(m);
    return ddp_error(DDP_MEMORY, "no memory for a table of %d ranks", world);
  }
  for (int i = 0; i < m->n_hosts * m->widest; i++) m->ranks[i] = -1;
  for (int r = 0; r < world; r++) m->ranks[m->host[r] * m->widest + m->local[r]] = r;
  return NULL;
}

int ddp_members_count(const DdpMembers *m, int host) {
  int n = 0;
  while (n < m->widest && ddp_members_rank(m, host, n) >= 0) n++;
  return n;
}

int ddp_members_rank(const DdpMembers *m, int host, int local) {
  return m->ranks[host * m->widest + local];
}

void ddp_members_free(DdpMembers *m) {
  free(m->host);
  free(m->local);
  free(m->ranks);
  *m = (DdpMembers){0};
}
