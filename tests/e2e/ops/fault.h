/* The identity, which breaks in the way that the environment names, at its FAULT_CALL-th call on rank
   FAULT_RANK: for the tests of what a crash leaves. */
#ifndef FAULT_H
#define FAULT_H
#include <ddp/op.h>

DDP_OP(fault(x: [..., N]) -> [..., N])
DDP_BODY(x * 1)
DDP_GRAD(x = g)
void fault_f32(DDP_OUT float *y, const float *x, DDP_SIZE(numel(x)) int64_t n);
#endif
