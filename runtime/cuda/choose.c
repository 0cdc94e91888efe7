/* In: the target of the job and the place of this rank on its host. Out: the number of its device, or one
   line that says what is missing. Nothing has been read or allocated by then. */
#include "choose.h"
#include "failure.h"
#include <cuda_runtime_api.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static const char cpu_hint[] = "or build for CPUs (ddpc without --target)";

static DdpError *driver(void) {
  int has = 0;
  DDP_TRY(cuda_status(cudaDriverGetVersion(&has), "ask for NVIDIA's driver"));
  if (!has)
    return ddp_error(DDP_FAILED,
                     "this program trains on NVIDIA GPUs and this machine has no NVIDIA driver "
                     "(libcuda.so.1): install it, in a container pass the GPUs on (--gpus all), %s",
                     cpu_hint);
  if (has / 1000 < CUDART_VERSION / 1000)
    return ddp_error(DDP_FAILED,
                     "NVIDIA's driver is for CUDA %d.%d and this program needs %d.0 or later: "
                     "update the driver, build with an older CUDA toolkit, %s",
                     has / 1000, has % 1000 / 10, CUDART_VERSION / 1000, cpu_hint);
  return NULL;
}

/* " (CUDA_VISIBLE_DEVICES=0,1)", or nothing. */
static const char *visible(void) {
  static char text[160];
  const char *value = getenv("CUDA_VISIBLE_DEVICES");
  text[0] = 0;
  if (value) snprintf(text, sizeof text, " (CUDA_VISIBLE_DEVICES=%.120s)", value);
  return text;
}

static DdpError *count_devices(int *out) {
  *out = 0;
  cudaError_t error = cudaGetDeviceCount(out);
  if (error == cudaErrorNoDevice || (error == cudaSuccess && *out == 0)) {
    (void)cudaGetLastError();
    return ddp_error(DDP_FAILED,
                     "NVIDIA's driver shows this program no GPU%s: see nvidia-smi -L, in a "
                     "container pass the GPUs on (--gpus all), %s",
                     visible(), cpu_hint);
  }
  return cuda_status(error, "ask for the number of GPUs");
}

/* What a child says: a number, or the text of an error. */
typedef struct Answer {
  int count;
  char error[1020];
} Answer;

static void answer(int fd) {
  Answer a = {0};
  DdpError *e = driver();
  if (!e) e = count_devices(&a.count);
  if (e) snprintf(a.error, sizeof a.error, "%s", e->message);
  _exit(write(fd, &a, sizeof a) == (ssize_t)sizeof a ? 0 : 1);
}

DdpError *cuda_count(int *out) {
  Answer a = {.error = "the process that was to count the GPUs ended without an answer"};
  int ends[2];
  if (pipe2(ends, O_CLOEXEC))
    return ddp_error(DDP_FAILED, "cannot make a pipe: %s", strerror(errno));
  pid_t child = fork();
  if (child == 0) answer(ends[1]);
  close(ends[1]);
  if (child > 0) {
    Answer got;
    ssize_t n; /* a pipe takes and gives as little as an answer in one piece */
    do n = read(ends[0], &got, sizeof got);
    while (n < 0 && errno == EINTR);
    if (n == (ssize_t)sizeof got) a = got;
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) continue;
  }
  close(ends[0]);
  *out = a.count;
  return *a.error ? ddp_error(DDP_FAILED, "%s", a.error) : NULL;
}

/* A launcher may show every rank its own GPU and no other. Whether it did is seen by a name on this host
   that one rank can have; it lives as long as the process. */
static DdpError *only_one(int local_world) {
  struct cudaDeviceProp properties;
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  DDP_TRY(cuda_status(cudaGetDeviceProperties(&properties, 0), "ask for the GPU's identity"));
  char *p = name.sun_path + 1; /* an abstract name: no file */
  int n = snprintf(p, sizeof name.sun_path - 1, "ddpc-gpu-");
  const unsigned char *uuid = (const unsigned char *)&properties.uuid;
  for (size_t i = 0; i < sizeof properties.uuid; i++)
    n += snprintf(p + n, sizeof name.sun_path - 1 - (size_t)n, "%02x", uuid[i]);
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
  if (fd >= 0 && bind(fd, (const struct sockaddr *)&name, bytes) == 0) return NULL;
  if (fd >= 0) close(fd);
  return ddp_error(DDP_USAGE,
                   "%d ranks on this host and 1 GPU visible%s, which another rank has already "
                   "taken: a rank trains on a GPU of its own; start 1 rank, or show more GPUs",
                   local_world, visible());
}

static DdpError *place(int count, int local_rank, int local_world, int *out) {
  int ranks = local_world > local_rank ? local_world : local_rank + 1;
  *out = local_rank;
  if (ranks <= count) return NULL;
  *out = 0;
  if (count == 1) return only_one(ranks);
  return ddp_error(DDP_USAGE,
                   "%d ranks on this host and %d GPUs visible%s: a rank trains on a GPU of its "
                   "own; start %d ranks, or show more GPUs",
                   ranks, count, visible(), count);
}

DdpError *cuda_capability(int device, int *out) {
  int major = 0, minor = 0;
  DDP_TRY(cuda_status(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
                      "ask for the GPU's compute capability"));
  DDP_TRY(cuda_status(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
                      "ask for the GPU's compute capability"));
  *out = 10 * major + minor;
  return NULL;
}

bool cuda_runs(int sm, int has) {
  return sm / 10 == has / 10 && sm <= has;
}

static DdpError *has_code(const DdpTarget *target, int device) {
  char list[128] = "";
  int has = 0, n = 0;
  DDP_TRY(cuda_capability(device, &has));
  for (const int *sm = target->sm; *sm; sm++) {
    if (cuda_runs(*sm, has)) return NULL;
    if (n < (int)sizeof list)
      n += snprintf(list + n, sizeof list - (size_t)n, "%ssm_%d", n ? ", " : "", *sm);
  }
  if (target->ptx && target->ptx <= has) return NULL; /* the driver compiles it when it is loaded */
  return ddp_error(DDP_FAILED,
                   "this program was built for %s and GPU %d is sm_%d: build it again with "
                   "--target cuda:sm_%d",
                   list, device, has, has);
}

DdpError *cuda_choose(const DdpTarget *target, int local_rank, int local_world, int *out) {
  int count = 0;
  DDP_TRY(driver());
  DDP_TRY(count_devices(&count));
  DDP_TRY(place(count, local_rank, local_world, out));
  return has_code(target, *out);
}
