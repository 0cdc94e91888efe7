/* Loop nests as kernels of a GPU. */
#include "nest_cuda.h"
#include "nest_loops.h"

static void write_serial(Emit *e, const Program *p, const Kernel *k, KernelCalls *calls) {
  Text body = {0};
  KernelCall call = {.grid = "1", .block = "1"};
  nest_loops(e, p, k, &call, &body);
  const char *head =
      arena_printf(e->arena, "%s void __launch_bounds__(1)", e->target->kernel_qualifier);
  kernel_share(e, p, k, "", head, body.at ? body.at : "", &call);
  text_free(&body);
  vec_push(e->arena, calls, call);
}

void nest_cuda_functions(Emit *e, const Program *p, const Kernel *k, KernelCalls *calls) {
  write_serial(e, p, k, calls);
}
