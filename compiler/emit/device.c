/* Around the kernels of a device: what their text includes, and what the runtime finds in it. */
#include "device.h"
#include "program.h"
#include "tables.h"
#include "kernels/scratch.h"
#include <stdlib.h>
#include <string.h>

void emit_scratch_known(Emit *e, const char *bytes, int64_t number) {
  if (number > e->call_scratch) e->call_scratch = number;
  for (uint32_t i = 0; i < e->scratch.len; i++)
    if (!strcmp(e->scratch.at[i], bytes)) return;
  vec_push(e->arena, &e->scratch, bytes);
}

void emit_scratch(Emit *e, const char *bytes) {
  e->scratch_open = true;
  emit_scratch_known(e, bytes, 0);
}

PlanDevice device_needs(const Emit *e) {
  int64_t most = ddp_arena_scratch;
  if (e->nest_scratch > most) most = e->nest_scratch;
  if (e->call_scratch > most) most = e->call_scratch;
  return (PlanDevice){.known = true,
                      .scratch = most,
                      .scratch_open = e->scratch_open,
                      .products = e->products.len > 0};
}

static void write_scratch(const Emit *e, Text *out) {
  text_add(out, "/* Bytes that kernels use, one after the other; the runtime's own among them */\n"
                "static constexpr int64_t scratch = ddp_most({\n    ddp_arena_scratch");
  for (uint32_t i = 0; i < e->scratch.len; i++) text_addf(out, ",\n    %s", e->scratch.at[i]);
  if (e->nest_scratch) text_addf(out, ",\n    %lld", (long long)e->nest_scratch);
  text_add(out, "});\n");
  if (!e->scratch_open)
    text_addf(out, "static_assert(scratch == %lld, \"what the plan counts\");\n",
              (long long)device_needs(e).scratch);
  text_add(out, "\n");
}

bool device_tf32(const Emit *e) {
  return job_setting_is(e->plan->job, "tf32", "true");
}

void device_write_products(const Emit *e, Text *out) {
  for (uint32_t i = 0; i < e->products.len; i++) {
    const Product *p = &e->products.at[i];
    text_addf(out, "/* %s */\nstatic DdpGemm %s = {.name = \"%s\",\n    %s};\n", p->shape, p->name,
              p->first, p->init);
  }
  if (e->products.len) text_add(out, "\n");
}

void device_write_header(Emit *e, Text *out) {
  emit_title(e, out);
  text_add(
      out,
      "   What runs on the GPU. forward_backward() launches the kernels above it one after the\n"
      "   other on step->stream, from the first layer to the gradient of the last; nothing waits.\n"
      "   The first micro-batch of an update writes the gradients, the others add to them;\n"
      "   ddp_grad_ready() marks where one is complete, so that its bucket may leave on the "
      "wire's\n"
      "   stream, and DDP_RAN() where a trace looks at the clock. What changes from step to step "
      "is\n"
      "   read in device memory, so that the launches can be captured and replayed.\n"
      "   B is the number of samples of a micro-batch; all other sizes are constants. */\n");
  if (device_tf32(e)) text_add(out, "#define DDP_TF32 1 /* tf32 = true */\n");
  text_add(out, "#include \"ddp/settings.h\"\n");
  static const char *const headers[] = {"ddp_cuda", "math",  "draw",     "nest",
                                        "memory",   "arena", "optimizer"};
  for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
    text_addf(out, "#include \"kernels/cuda/%s.h\"\n", headers[i]);
  emit_includes(e, out);
  text_add(out, "\n/* Numbers of the tensors */\n");
  tables_write_numbers(e, out);
  text_add(out, "\n");
}

void device_declare(Emit *e, Text *out) {
  const Plan *plan = e->plan;
  emit_section(out, "what the .cu defines");
  text_add(out, "extern const DdpTarget target;\nvoid forward_backward(DdpStep *step);\n");
  if (plan->counts.kernels.len)
    text_add(out, "void window_counts(const DdpStep *step, double *counts);\n");
  if (plan->eval.kernels.len) text_add(out, "void evaluate(DdpStep *step);\n");
  if (plan->predict.g) text_add(out, "void predict(DdpStep *step);\n");
  for (uint32_t i = 0; i < plan->job->optimizers.len; i++)
    text_addf(out, "void %s(const DdpSegment *s);\n", optimizer_function(e, (int32_t)i));
  text_add(out, "\n");
}

/* The newest architecture's intermediate code runs on those to come, unless it is meant for that one
   alone ("sm_90a"). */
static int newest_ptx(const JobTarget *t) {
  const char *newest = t->archs.at[t->archs.len - 1];
  char *end;
  long number = strtol(newest + 3, &end, 10);
  return *end ? 0 : (int)number;
}

void device_write_target(Emit *e, Text *out) {
  const JobTarget *t = &e->plan->job->target;
  text_add(out, "/* What the binary has code for */\nstatic const int sm[] = {");
  for (uint32_t i = 0; i < t->archs.len; i++)
    text_addf(out, "%d, ", (int)strtol(t->archs.at[i] + 3, NULL, 10));
  text_add(out, "0};\n\n");
  write_scratch(e, out);
  text_addf(out,
            "extern \"C\" {\n"
            "extern const DdpTarget target;\n"
            "const DdpTarget target = {\n"
            "    .name = \"%s\",\n"
            "    .device = &ddp_device_cuda,\n"
            "    .backend = &ddp_backend_nccl,\n"
            "    .sm = sm,\n"
            "    .ptx = %d,\n"
            "    .scratch = scratch,\n"
            "    .products = %s,\n"
            "    .arena = ddp_arena_kernels,\n"
            "    .init = NULL,\n"
            "};\n"
            "}\n",
            e->target->name, newest_ptx(t), e->products.len ? "true" : "false");
}
