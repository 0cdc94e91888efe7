/* Rotary position embedding: the two halves of each head are turned by an angle that grows with the
   position and falls with the index. x is [batch, time, heads, dim] with an even dim. */
#ifndef STD_NATIVE_ROPE_H
#define STD_NATIVE_ROPE_H
#include <ddp/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A turn is undone by the turn to the other side. */
DDP_OP(rope(x: [B, T, H, D], pos: int32[T], base: float = 10000.0) -> [B, T, H, D])
DDP_BODY("rope.ddp", rope)
DDP_GRAD(x = rope_back(g, pos, base))
void ddp_rope_f32(DDP_OUT float *y, const float *x, const int32_t *pos, int64_t b, int64_t t,
                  int64_t h, int64_t d, float base);

DDP_OP(rope_back(g: [B, T, H, D], pos: int32[T], base: float = 10000.0) -> [B, T, H, D])
DDP_BODY("rope.ddp", rope_back)
DDP_GRAD(g = rope(g, pos, base))
void ddp_rope_back_f32(DDP_OUT float *d_x, const float *g, const int32_t *pos, int64_t b,
                       int64_t t, int64_t h, int64_t d, float base);

#ifdef __cplusplus
}
#endif
#endif
