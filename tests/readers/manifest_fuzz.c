/* The reader of a checkpoint's manifest on any bytes, as they are and with a checksum that fits them: a manifest
   whose files can be looked at, or an error. */
#include "fuzz.h"
#include "manifest.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

const FuzzSeed fuzz_seeds[] = {
    FUZZ_SEED(
        "{\"job\": \"j.ddp\", \"compiler\": \"ddpc\", \"format\": 1, \"update\": 20, \"total\": "
        "40, \"epoch\": 1, "
        "\"window\": 3, \"world\": 2, \"batch\": 16, \"accumulation\": 1, \"samples\": 500, "
        "\"updates_per_epoch\": 17, \"complete_state\": 1, \"spec_hash\": \"0123456789abcdef\", "
        "\"plan_hash\": \"0123456789abcdef\", \"data_hash\": \"0123456789abcdef\", "
        "\"settings\": {\"learning_rate\": \"0.1\", \"seed\": \"42\"}, \"files\": "
        "[{\"name\": \"model.safetensors\", \"bytes\": 3, \"xxh128\": "
        "\"06b05ab6733a618578af5f94892f3950\"}]}"),
    FUZZ_SEED("{\"format\": 2}"),
    FUZZ_SEED("[]"),
    {NULL, 0}};

/* A folder with one file, and a manifest whose contents are in memory. */
static char folder[] = "/tmp/ddp-manifest-XXXXXX", manifest[64], file[64];
static int fd, good;

static void clean(void) {
  printf("%d manifests were whole\n", good);
  unlink(manifest);
  unlink(file);
  rmdir(folder);
}

static void prepare(void) {
  char memory[40];
  if (!mkdtemp(folder)) abort();
  snprintf(manifest, sizeof manifest, "%s/manifest.json", folder);
  snprintf(file, sizeof file, "%s/model.safetensors", folder);
  atexit(clean);
  fd = memfd_create("manifest", MFD_CLOEXEC);
  snprintf(memory, sizeof memory, "/proc/self/fd/%d", fd);
  FILE *f = fopen(file, "wb");
  if (fd < 0 || symlink(memory, manifest) || !f || fputs("abc", f) < 0 || fclose(f)) abort();
}

static void put(const void *data, size_t n) {
  if (ftruncate(fd, 0) || pwrite(fd, data, n, 0) != (ssize_t)n) abort();
}

static void read_it(void) {
  DdpManifest m;
  DdpError *e = ddp_checkpoint_verify(folder, true, &m);
  if (!e) {
    good++;
    size_t n = strlen(m.job) + strlen(m.compiler);
    for (int i = 0; i < m.n_settings; i++)
      n += strlen(m.settings[i].key) + strlen(m.settings[i].value);
    for (int i = 0; i < m.n_files; i++) n += strlen(m.files[i].name);
    if (n > 1 << 20) abort();
    ddp_manifest_free(&m);
  }
  ddp_error_free(e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static int ready;
  if (!ready++) prepare();
  put(data, n);
  read_it();
  json_t *root = json_loadb((const char *)data, n, 0, NULL);
  char *text = json_is_object(root) ? json_dumps(root, JSON_COMPACT) : NULL;
  if (text) {
    XXH128_hash_t h = XXH3_128bits(text, strlen(text));
    char sum[36];
    snprintf(sum, sizeof sum, "%016llx%016llx", (unsigned long long)h.high64,
             (unsigned long long)h.low64);
    json_object_set_new(root, "checksum", json_string(sum));
    free(text);
    if (!(text = json_dumps(root, JSON_INDENT(2)))) abort();
    put(text, strlen(text));
    read_it();
  }
  free(text);
  json_decref(root);
  return 0;
}
