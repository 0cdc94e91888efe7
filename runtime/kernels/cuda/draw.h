/* Draws of a device. A launch says where in the program it draws; seed, update and epoch, which change from
   step to step, are read in device memory, so that a captured launch draws anew each time. */
#ifndef DDP_KERNELS_CUDA_DRAW_H
#define DDP_KERNELS_CUDA_DRAW_H
#include "math.h"
#include "../random.h"

enum { DDP_SITE_TURNS = 4 }; /* loops inside of each other */
typedef struct DdpSite {
  uint64_t site;
  const int64_t *sample; /* position of each sample of this micro-batch; device memory */
  bool data;             /* a draw of the data: one for each epoch */
  int32_t turns;
  int64_t turn[DDP_SITE_TURNS]; /* from the outermost loop */
} DdpSite;

static inline DdpSite ddp_site(uint64_t site, const int64_t *sample, bool data) {
  const DdpSite s = {site, sample, data, 0, {0, 0, 0, 0}};
  return s;
}
/* The same site in one turn of a loop. */
static inline DdpSite ddp_site_turn(DdpSite s, int64_t turn) {
  s.turn[s.turns++] = turn;
  return s;
}
/* What ddp_draw and ddp_draw_turn give on the CPU. */
DDP_INLINE DdpDraw ddp_draw_here(const DdpScalars *scalars, const DdpSite &s) {
  DdpDraw d = ddp_draw(scalars->seed, s.data ? scalars->epoch : scalars->update, s.site, s.sample);
  for (int32_t i = 0; i < s.turns; i++) d = ddp_draw_turn(d, s.turn[i]);
  return d;
}

#endif
