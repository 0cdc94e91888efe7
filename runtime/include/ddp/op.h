/* Annotations of operators in C headers, for `import c "x.h" as x` of a job. To gcc, g++, clang and nvcc
   they are nothing; ddpc reads the header with DDP_SCAN defined. One operator:

     DDP_OP(scale(x: [..., N], by: float = 2.0) -> [..., N])
     DDP_BODY(x * by)
     DDP_GRAD(x = scale(g, by))
     void scale_f32(DDP_OUT float *y, const float *x, DDP_SIZE(numel(x)) int64_t n, float by);

   DDP_OP    the head of a `def` of the language: names, types, sizes, defaults, one result.
   DDP_BODY  what the operator means: an expression over the formals, or ("x.ddp", name) for the `def`
             of that name in a file beside the header. Checked, differentiated, compared with.
   DDP_GRAD  gradients of inputs: expressions over the formals, `y` (the result) and `g` (its
             gradient); `none` where no gradient flows. What is not named comes from the body.
   The parameters of the C function, inputs and attributes in the order of DDP_OP:
   DDP_OUT        the result: all of its elements are written, none is read
   DDP_IN(x)      the input x, dense and row-major; may be left out if the parameter is called x
   DDP_ATTR(a)    the attribute a, known while compiling; may be left out likewise
   DDP_SIZE(e)    an int64_t: an expression over sizes and formals; may be left out if the parameter is
                  called like a size, in any case of letters. */
#ifndef DDP_OP_H
#define DDP_OP_H
#include <stdbool.h>
#include <stdint.h>

#ifdef DDP_SCAN
#define DDP_NOTE_(...) __attribute__((annotate(__VA_ARGS__)))
#else
#define DDP_NOTE_(...)
#endif

#define DDP_OP(...)   DDP_NOTE_("ddp.op")
#define DDP_BODY(...) DDP_NOTE_("ddp.body")
#define DDP_GRAD(...) DDP_NOTE_("ddp.grad")
#define DDP_OUT       DDP_NOTE_("ddp.out")
#define DDP_IN(...)   DDP_NOTE_("ddp.in")
#define DDP_ATTR(...) DDP_NOTE_("ddp.attr")
#define DDP_SIZE(...) DDP_NOTE_("ddp.size")
#endif
