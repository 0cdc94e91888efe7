/* NCCL as a backend, one rank: from opening to closing over the stand-in; and with the library of NVIDIA, on a machine
   without a driver, as far as it goes: found, a name for the communicator, its own words for what is missing. Several ranks
   are in e2e.nccl. argument: stand_in, real. */
#include "on_gpu.h"
#include "clock.h"
#include "comm.h"
#include "nccl_library.h"
#include <string.h>

/* A world of one keeps its keys itself. */
static struct {
  char key[64], data[256];
  size_t size;
} kept[8];
static int n_kept;

DdpError *ddp_store_set(DdpStore *s, const char *key, const void *data, size_t size) {
  (void)s;
  assert_true(n_kept < 8 && size <= sizeof kept->data);
  snprintf(kept[n_kept].key, sizeof kept->key, "%s", key);
  memcpy(kept[n_kept].data, data, size);
  kept[n_kept++].size = size;
  return NULL;
}

DdpError *ddp_store_get(DdpStore *s, const char *key, double deadline, void **out, size_t *size) {
  (void)s;
  (void)deadline;
  for (int i = 0; i < n_kept; i++) {
    if (strcmp(kept[i].key, key) != 0) continue;
    *out = malloc(kept[i].size + 1);
    memcpy(*out, kept[i].data, kept[i].size);
    *size = kept[i].size;
    return NULL;
  }
  return ddp_error(DDP_TIMEOUT, "%s", key);
}

static DdpError *open_alone(DdpComm **c) {
  n_kept = 0;
  const DdpCommOptions o = {
      .world = 1, .prefix = "nccl", .deadline = ddp_clock() + 10, .timeout = 10};
  return ddp_backend_nccl.open(c, &o);
}

static void test_missing(void **state) {
  (void)state;
  const char *why = NULL, *library = getenv("DDP_NCCL_LIBRARY");
  char own[4096] = "";
  if (library) snprintf(own, sizeof own, "%s", library);
  setenv("DDP_NCCL_LIBRARY", "/nowhere/libnccl.so.2", 1);
  assert_false(ddp_backend_nccl.probe(&why));
  assert_non_null(strstr(why, "NCCL is needed and cannot be opened: /nowhere/libnccl.so.2"));
  setenv("DDP_NCCL_LIBRARY", "libm.so.6", 1);
  assert_false(ddp_backend_nccl.probe(&why));
  assert_non_null(strstr(why, "NCCL has no ncclGetVersion"));
  if (library)
    setenv("DDP_NCCL_LIBRARY", own, 1);
  else
    unsetenv("DDP_NCCL_LIBRARY");
}

/* Memory that sums in place, all wire types, and a barrier. */
static void test_stand_in(void **state) {
  (void)state;
  DdpComm *c;
  DdpWork *w;
  void *memory, *wire;
  const float ones[4] = {1, 2, 3, 4};
  float got[4];
  bool done = false;
  gpu_open(NULL);
  wire = GPU->stream(DDP_STREAM_wire);
  CHECK_OK(open_alone(&c));
  CHECK_OK(ddp_backend_nccl.alloc(c, 100000, &memory));
  gpu_download(got, memory, sizeof got);
  assert_true(got[0] == 0 && got[3] == 0);
  CHECK_OK(GPU->to_device(memory, ones, sizeof ones, wire));
  CHECK_OK(ddp_backend_nccl.all_reduce(c, memory, 4, DDP_f32, "bucket 0", wire, &w));
  assert_null(w);
  CHECK_OK(ddp_backend_nccl.all_reduce(c, memory, 8, DDP_bf16, "bucket 1", wire, &w));
  CHECK_OK(ddp_backend_nccl.broadcast(c, memory, 16, 0, "buffers", wire, &w));
  CHECK_OK(ddp_backend_nccl.poll(w, &done));
  CHECK_OK(ddp_backend_nccl.wait(w));
  CHECK_OK(ddp_backend_nccl.barrier(c, "the end"));
  gpu_download(got, memory, sizeof got);
  assert_memory_equal(got, ones, sizeof ones);
  CHECK_OK(ddp_backend_nccl.async_error(c));
  ddp_backend_nccl.abort(c); /* another rank has failed */
  CHECK_ERROR(ddp_backend_nccl.all_reduce(c, memory, 4, DDP_f32, "bucket 2", wire, &w), DDP_PEER,
              "bucket 2 was given up");
  CHECK_ERROR(ddp_backend_nccl.barrier(c, "the end"), DDP_PEER, "the end was given up");
  ddp_backend_nccl.close(c);
  gpu_close(NULL);
}

static void test_real(void **state) {
  (void)state;
  const NcclContext *lib;
  const char *why;
  DdpComm *c = NULL;
  ncclUniqueId id;
  setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  assert_true(ddp_backend_nccl.probe(&why));
  CHECK_OK(nccl_context(&lib));
  assert_true(lib->version >= 21900);
  assert_int_equal(lib->nccl.ncclGetUniqueId(&id), ncclSuccess);
  CHECK_ERROR(open_alone(&c), DDP_FAILED, "opening NCCL: NCCL says \"unhandled cuda error");
  assert_null(c);
}

int main(int argc, char **argv) {
  const struct CMUnitTest stand_in[] = {cmocka_unit_test(test_missing),
                                        cmocka_unit_test(test_stand_in)};
  const struct CMUnitTest real[] = {cmocka_unit_test(test_missing), cmocka_unit_test(test_real)};
  bool is_real = argc > 1 && strcmp(argv[1], "real") == 0;
  if (is_real && access("/dev/nvidiactl", F_OK) == 0) return 77; /* it would find a driver */
  return is_real ? cmocka_run_group_tests(real, NULL, NULL)
                 : cmocka_run_group_tests(stand_in, NULL, NULL);
}
