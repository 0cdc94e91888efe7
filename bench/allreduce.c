/* All-reduces of one range of gradients between local ranks, timed. For bench/overlap: for each line on
   rank 0's input a number of them is made, and rank 0 prints their times in microseconds on one line; the
   time of one is that of the slower rank. Arguments: BYTES, then those of the launcher. */
#include "clock.h"
#include "group.h"
#include "log.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct Bench {
  DdpGroup *group;
  int rank, world;
  float *data;
  int64_t n;
} Bench;

static DdpError *once(Bench *b, double *seconds) {
  DdpGroupWork *work;
  for (int64_t i = 0; i < b->n; i++) b->data[i] = (float)(i % 1000) * 0.25f + (float)b->rank;
  DDP_TRY(ddp_group_barrier(b->group, "the next all-reduce"));
  double start = ddp_clock(), took, all[64];
  DDP_TRY(ddp_group_all_reduce_start(b->group, b->data, b->n, DDP_f32, "bucket", &work));
  DDP_TRY(ddp_group_wait(b->group, work));
  took = ddp_clock() - start;
  const float want =
      0.25f * (float)((b->n - 1) % 1000 * b->world) + (float)(b->world * (b->world - 1)) / 2;
  if (b->data[b->n - 1] != want)
    return ddp_error(DDP_FAILED, "a sum of %g, not %g", (double)b->data[b->n - 1], (double)want);
  DDP_TRY(ddp_group_all_gather(b->group, &took, all, (int64_t)sizeof took, "times"));
  *seconds = 0;
  for (int r = 0; r < b->world; r++) *seconds = all[r] > *seconds ? all[r] : *seconds;
  return NULL;
}

static DdpError *rounds(Bench *b) {
  for (;;) {
    int count = 0;
    char line[32];
    if (b->rank == 0 && fgets(line, sizeof line, stdin)) count = atoi(line);
    DDP_TRY(ddp_group_broadcast(b->group, &count, (int64_t)sizeof count, 0, "the number"));
    if (count <= 0) return NULL;
    for (int i = 0; i < count; i++) {
      double seconds = 0;
      DDP_TRY(once(b, &seconds));
      if (b->rank == 0) printf("%s%.2f", i ? " " : "", seconds * 1e6);
    }
    if (b->rank == 0) puts("");
    fflush(stdout);
  }
}

int main(int argc, char **argv) {
  DdpLaunch launch;
  int parent;
  Bench b = {.n = argc > 1 ? atoll(argv[1]) / (int64_t)sizeof(float) : 0};
  DdpError *e = ddp_launch(&argc, argv, &launch, &parent);
  if (!e && parent >= 0) return parent;
  if (!e && (b.n < 1 || launch.world < 2 || launch.world > 64))
    e = ddp_error(DDP_USAGE, "usage: ddp_allreduce BYTES --nproc-per-node 2");
  const DdpGroupOptions options = {.timeout = 3600, .program_text = ""};
  if (!e) e = ddp_group_open(&b.group, &launch, &options);
  if (!e) {
    b.rank = ddp_group_rank(b.group);
    b.world = ddp_group_world(b.group);
    e = ddp_group_alloc(b.group, (size_t)b.n * sizeof(float), (void **)&b.data);
  }
  if (!e && b.rank == 0) printf("%s\n", ddp_group_path(b.group));
  fflush(stdout);
  if (!e) e = rounds(&b);
  if (!e) {
    ddp_group_close(b.group);
    return 0;
  }
  if (b.group) ddp_group_abort(b.group, e);
  ddp_log(DDP_LOG_error, "%s", e->message);
  fflush(NULL);
  _exit((int)e->klass);
}
