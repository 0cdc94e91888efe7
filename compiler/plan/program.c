/* One graph to one program: prepare, fuse, schedule, lay out. */
#include "fuse.h"

void plan_program(Program *p, Arena *a, const Graph *g, const ProgramOptions *options) {
  bool fuse = !options->no_fuse;
  Prepared prepared = plan_prepare(a, g, fuse);
  Fuser f = {.arena = a,
             .g = prepared.g,
             .fuse = fuse,
             .batch_max = options->batch_max,
             .least_rows = options->least_rows};
  uint32_t n = f.g->values.len;
  f.memory = ARENA_ARRAY(a, bool, n);
  f.keep = ARENA_ARRAY(a, bool, n);
  f.base = ARENA_ARRAY(a, Val, n);
  f.output = ARENA_ARRAY(a, Output *, n);
  f.item_of = ARENA_ARRAY(a, int32_t, n);
  f.seen = ARENA_ARRAY(a, uint32_t, n);
  f.readers = ARENA_ARRAY(a, ItemList, n);
  f.apart = ARENA_ARRAY(a, uint32_t, n);
  f.pulled = ARENA_ARRAY(a, bool, n);
  fuse_decide(&f, &prepared, options);
  fuse_group(&f);
  p->seen = ARENA_ARRAY(a, uint32_t, n + 1);
  plan_schedule(p, &f, options);
  plan_lay_out(p, a);
  if (options->chunk) plan_chunk(p, a, options->chunk);
  for (uint32_t i = 0; i < p->kernels.len; i++)
    if (p->kernels.at[i].nest) p->kernels.at[i].key = plan_nest_key(p, &p->kernels.at[i]);
}
