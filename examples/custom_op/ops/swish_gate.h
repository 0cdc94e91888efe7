/* Swish gate: y = b * a * sigmoid(beta * a), for any shape. */
#ifndef OPS_SWISH_GATE_H
#define OPS_SWISH_GATE_H
#include <ddp/op.h>

/* The gradient of `a` is the function below, that of `b` an expression; that of `beta` is
   differentiated from the body. */
DDP_OP(swish_gate(a: [..., N], b: [..., N], beta: []) -> [..., N])
DDP_BODY(b * a * sigmoid(beta * a))
DDP_GRAD(a = swish_gate_back(g, a, b, beta), b = g * a * sigmoid(beta * a))
void swish_gate_f32(DDP_OUT float *y, const float *a, const float *b, const float *beta,
                    DDP_SIZE(numel(a)) int64_t count);

/* g times the derivative by a: with s = sigmoid(beta * a), g * b * s * (1 + beta * a * (1 - s)) */
DDP_OP(swish_gate_back(g: [..., N], a: [..., N], b: [..., N], beta: []) -> [..., N])
DDP_BODY(g * b * sigmoid(beta * a) * (1 + beta * a * (1 - sigmoid(beta * a))))
void swish_gate_back_f32(DDP_OUT float *d_a, const float *g, const float *a, const float *b,
                         const float *beta, DDP_SIZE(numel(a)) int64_t count);
#endif
