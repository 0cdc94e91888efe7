/* Errors: of a call, of a device that is not there, of a kernel that failed (which stay), of tests. */
#include "sim.h"

namespace cudasim {
std::mutex &big = *new std::mutex;
static thread_local cudaError_t last;
static cudaError_t fault;

cudaError_t enter(const char *name) {
  if (knobs().driver < 12000) return cudaErrorInsufficientDriver;
  if (knobs().devices == 0) return cudaErrorNoDevice;
  if (cudaError_t e = injected(name)) return e;
  return fault;
}
/* "Not ready" is remembered as well, as by the vendor: who asks must clear it. */
cudaError_t leave(cudaError_t e) {
  if (e) last = e;
  return e;
}
void set_fault(cudaError_t e) {
  if (!fault) fault = e;
}
} // namespace cudasim

using namespace cudasim;
static const struct {
  cudaError_t error;
  const char *name, *text;
} table[] = {
#define CUDA(name, number, text) {name, #name, text},
#include "cuda_errors.def"
#undef CUDA
};
extern "C" {
cudaError_t cudaGetLastError(void) {
  cudaError_t e = last ? last : fault;
  last = cudaSuccess;
  return e;
}
cudaError_t cudaPeekAtLastError(void) {
  return last ? last : fault;
}
const char *cudaGetErrorString(cudaError_t error) {
  for (auto &row : table)
    if (row.error == error) return row.text;
  return "unrecognized error code";
}
const char *cudaGetErrorName(cudaError_t error) {
  for (auto &row : table)
    if (row.error == error) return row.name;
  return "unrecognized error code";
}
}
