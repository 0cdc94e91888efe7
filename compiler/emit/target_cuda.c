/* GPUs of NVIDIA as a target: C++ for nvcc with the inline kernels of runtime/kernels/cuda, which the
   emulator (tests/cudasim) compiles as well. 16-bit floats lie in memory only; kernels compute in
   float. */
#include "call.h"
#include "nest_cuda.h"

static const char *cuda_function(const char *name, DType dtype) {
  return target_cpu.function(name, dtype); /* kernels/cuda/math.h has the same names */
}

static const char *cuda_storage_type(DType t) {
  return t == DT_bf16 ? "bf16" : t == DT_f16 ? "f16" : dtype_ctype(t); /* ddp_cuda.h */
}
static const char *cuda_compute_type(DType t) {
  return target_cpu.compute_type(t);
}
static const char *cuda_load(DType t) {
  return target_cpu.load(t);
}
static const char *cuda_store(DType t) {
  return target_cpu.store(t);
}
static const char *cuda_round(DType t) {
  return target_cpu.round(t);
}

static const char *cuda_draw(Arena *a, int64_t site, bool data) {
  return arena_printf(a, "ddp_site(0x%llxu, step->%s, %s)", (unsigned long long)site,
                      data ? "row" : "sample", data ? "true" : "false");
}

const Target target_cuda = {
    .name = "cuda",
    .file_ext = "cu",
    .kernel_qualifier = "static __global__",
    .helper_qualifier = "static __device__ __forceinline__",
    .restrict_word = "__restrict__",
    .kernels = "cuda",
    .function_head = "extern \"C\"",
    .calls_head = "extern \"C\"",
    .chunk_head = "static",
    .host = &target_cpu,
    .enqueues = true,
    .casts = true,
    .copy = "ddp_copy",
    .clear = "ddp_clear",
    .calls = calls_cuda,
    .epilogues = &epilogues_cuda,
    .function = cuda_function,
    .storage_type = cuda_storage_type,
    .compute_type = cuda_compute_type,
    .load = cuda_load,
    .store = cuda_store,
    .round = cuda_round,
    .draw_type = "DdpSite",
    .draw = cuda_draw,
    .draw_turn = "ddp_site_turn",
    .scalars_in_memory = true,
    .nest = nest_cuda_functions,
};
