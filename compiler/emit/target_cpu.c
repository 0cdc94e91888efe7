/* The CPU as a target: C11 with the inline kernels of runtime/kernels/cpu. 16-bit floats lie in
   memory only; kernels compute in float. */
#include "call.h"
#include "nest_loops.h"

static bool is_wide(DType t) {
  return t == DT_f64;
}

/* f32: ours where libm does not vectorise; f64: libm; integers: ours. */
static const char *cpu_function(const char *name, DType dtype) {
  static const struct {
    const char *name, *f32, *f64, *integer;
  } table[] = {
      {"exp", "ddp_expf", "exp", NULL},
      {"expm1", "ddp_expm1f", "expm1", NULL},
      {"log", "ddp_logf", "log", NULL},
      {"log1p", "ddp_log1pf", "log1p", NULL},
      {"sin", "ddp_sinf", "sin", NULL},
      {"cos", "ddp_cosf", "cos", NULL},
      {"tanh", "ddp_tanhf", "tanh", NULL},
      {"erf", "ddp_erff", "erf", NULL},
      {"sqrt", "sqrtf", "sqrt", NULL},
      {"fabs", "fabsf", "fabs", "ddp_fabs_i64"},
      {"floor", "floorf", "floor", "ddp_floor_i64"},
      {"ceil", "ceilf", "ceil", "ddp_ceil_i64"},
      {"rint", "rintf", "rint", "ddp_rint_i64"},
      {"pow", "powf", "pow", "ddp_pow_i64"},
      {"floordiv", "ddp_floordivf", "ddp_floordiv", "ddp_floordiv_i64"},
      {"pymod", "ddp_pymodf", "ddp_pymod", "ddp_pymod_i64"},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (!strcmp(table[i].name, name))
      return dtype_category(dtype) != 'f' ? table[i].integer
             : is_wide(dtype)             ? table[i].f64
                                          : table[i].f32;
  return NULL;
}

static const char *cpu_compute_type(DType t) {
  if (t == DT_bool) return "bool";
  if (t == DT_u8) return "int32_t";
  if (dtype_category(t) == 'f') return is_wide(t) ? "double" : "float";
  return dtype_ctype(t);
}

static const char *cpu_load(DType t) {
  return t == DT_bf16 ? "ddp_load_bf16" : t == DT_f16 ? "ddp_load_f16" : "";
}
static const char *cpu_store(DType t) {
  return t == DT_bf16 ? "ddp_store_bf16" : t == DT_f16 ? "ddp_store_f16" : "";
}
static const char *cpu_round(DType t) {
  return t == DT_bf16 ? "ddp_round_bf16" : "ddp_round_f16";
}

static const char *cpu_draw(Arena *a, int64_t site, bool data) {
  return arena_printf(a, "ddp_draw(step->seed, step->%s, 0x%llxu, step->%s)",
                      data ? "epoch" : "update", (unsigned long long)site, data ? "row" : "sample");
}

const Target target_cpu = {
    .name = "cpu",
    .file_ext = "c",
    .kernel_qualifier = "static",
    .helper_qualifier = "static inline",
    .restrict_word = "restrict",
    .simd = true,
    .kernels = "cpu",
    .function_head = "static",
    .calls_head = "DDP_CALLS\nstatic",
    .chunk_head = "DDP_CALLS\nstatic",
    .copy = "memcpy",
    .clear = "memset",
    .calls = calls_cpu,
    .function = cpu_function,
    .storage_type = dtype_ctype,
    .compute_type = cpu_compute_type,
    .load = cpu_load,
    .store = cpu_store,
    .round = cpu_round,
    .draw_type = "DdpDraw",
    .draw = cpu_draw,
    .draw_turn = "ddp_draw_turn",
    .nest = nest_loops_functions,
};
