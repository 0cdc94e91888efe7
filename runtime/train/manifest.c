/* manifest.json. In: what a run is, files that are written. Out: a JSON object whose last member
   is a checksum of the others, so that a flipped bit in it is seen as well; or, reading, the
   same values and what is wrong. */
#include "manifest.h"
#include "file.h"
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

static const char name_of_file[] = "manifest.json", name_of_sum[] = "checksum";

#define NUMBER(name)                                                                               \
  { #name, offsetof(DdpManifest, name) }
typedef struct Member {
  const char *name;
  size_t offset;
} Member;
static const Member numbers[] = {NUMBER(format),        NUMBER(update),
                                 NUMBER(total),         NUMBER(planned),
                                 NUMBER(epoch),         NUMBER(place),
                                 NUMBER(world),         NUMBER(batch),
                                 NUMBER(accumulation),  NUMBER(accumulation_set),
                                 NUMBER(samples),       NUMBER(updates_per_epoch),
                                 NUMBER(complete_state)};
static const Member hashes[] = {NUMBER(spec_hash), NUMBER(plan_hash), NUMBER(data_hash)};
static const Member texts[] = {NUMBER(job), NUMBER(compiler)};
#define COUNT(list) (sizeof(list) / sizeof *(list))

static DdpError *no_memory(void) {
  return ddp_error(DDP_MEMORY, "out of memory");
}

static void checksum_text(char out[36], XXH128_hash_t h) {
  snprintf(out, 36, "%016" PRIx64 "%016" PRIx64, (uint64_t)h.high64, (uint64_t)h.low64);
}

/* ---------- files ---------- */

static DdpError *read_again(FILE *f, const char *path, DdpManifestFile *out) {
  enum { PIECE = 1 << 20 };
  char *piece = malloc(PIECE);
  XXH3_state_t *state = XXH3_createState();
  DdpError *error = piece && state ? NULL : no_memory();
  if (!error) XXH3_128bits_reset(state);
  while (!error) {
    size_t n = fread(piece, 1, PIECE, f);
    if (n == 0) break;
    XXH3_128bits_update(state, piece, n);
    out->bytes += (int64_t)n;
  }
  if (!error && ferror(f)) {
    error = ddp_error(DDP_DATA, "cannot read '%s': %s", path, strerror(errno));
  }
  if (!error) checksum_text(out->xxh128, XXH3_128bits_digest(state));
  XXH3_freeState(state);
  free(piece);
  return error;
}

static DdpError *file_sum(const char *path, DdpManifestFile *out) {
  FILE *f = fopen(path, "rbe");
  if (!f) return ddp_error(DDP_DATA, "cannot read '%s': %s", path, strerror(errno));
  DdpError *error = read_again(f, path, out);
  fclose(f);
  return error;
}

DdpError *ddp_manifest_add(DdpManifest *m, const char *folder, const char *name) {
  char *path = ddp_file_join(folder, name);
  if (!path) return no_memory();
  if (m->n_files == DDP_CHECKPOINT_FILES) {
    free(path);
    return ddp_error(DDP_FAILED, "more files in a checkpoint than its manifest can hold");
  }
  DdpManifestFile *f = &m->files[m->n_files];
  *f = (DdpManifestFile){.bytes = 0};
  snprintf(f->name, sizeof f->name, "%s", name);
  DdpError *error = file_sum(path, f);
  if (!error) m->n_files++;
  free(path);
  return error;
}

/* ---------- writing ---------- */

static int put_files(json_t *root, const DdpManifest *m) {
  json_t *list = json_array();
  int failed = json_object_set_new(root, "files", list);
  for (int i = 0; i < m->n_files; i++) {
    json_t *f = json_object();
    failed |= json_object_set_new(f, "name", json_string(m->files[i].name));
    failed |= json_object_set_new(f, "bytes", json_integer(m->files[i].bytes));
    failed |= json_object_set_new(f, "xxh128", json_string(m->files[i].xxh128));
    failed |= json_array_append_new(list, f);
  }
  return failed;
}

/* Of all members but the checksum itself, in their order and without blanks. */
static DdpError *sum_of(json_t *root, char out[36]) {
  char *text = json_dumps(root, JSON_COMPACT);
  if (!text) return no_memory();
  checksum_text(out, XXH3_128bits(text, strlen(text)));
  free(text);
  return NULL;
}

static DdpError *compose(json_t *root, const DdpManifest *m) {
  int failed = 0;
  char text[36];
  for (size_t i = 0; i < COUNT(texts); i++) {
    const char *v = *(const char *const *)(const void *)((const char *)m + texts[i].offset);
    failed |= json_object_set_new(root, texts[i].name, json_string(v ? v : ""));
  }
  for (size_t i = 0; i < COUNT(numbers); i++) {
    int64_t v = *(const int64_t *)(const void *)((const char *)m + numbers[i].offset);
    failed |= json_object_set_new(root, numbers[i].name, json_integer(v));
  }
  for (size_t i = 0; i < COUNT(hashes); i++) {
    snprintf(text, sizeof text, "%016" PRIx64,
             *(const uint64_t *)(const void *)((const char *)m + hashes[i].offset));
    failed |= json_object_set_new(root, hashes[i].name, json_string(text));
  }
  json_t *settings = json_object();
  failed |= json_object_set_new(root, "settings", settings);
  for (int i = 0; i < m->n_settings; i++) {
    json_t *v = json_string(m->settings[i].value);
    failed |= json_object_set_new(settings, m->settings[i].key, v);
  }
  failed |= put_files(root, m);
  if (failed) return no_memory();
  DDP_TRY(sum_of(root, text));
  return json_object_set_new(root, name_of_sum, json_string(text)) ? no_memory() : NULL;
}

DdpError *ddp_manifest_write(const DdpManifest *m, const char *folder) {
  json_t *root = json_object();
  char *path = ddp_file_join(folder, name_of_file), *text = NULL;
  DdpFile *f = NULL;
  DdpError *error = root && path ? compose(root, m) : no_memory();
  if (!error && !(text = json_dumps(root, JSON_INDENT(2)))) error = no_memory();
  if (!error) error = ddp_file_create(&f, path);
  if (!error) error = ddp_file_write(f, text, strlen(text));
  if (!error) error = ddp_file_write(f, "\n", 1);
  error = ddp_file_end(f, error);
  json_decref(root);
  free(path);
  free(text);
  return error;
}

/* ---------- reading ---------- */

static bool read_members(DdpManifest *m, const json_t *root) {
  for (size_t i = 0; i < COUNT(numbers); i++) {
    const json_t *v = json_object_get(root, numbers[i].name);
    if (!json_is_integer(v) || json_integer_value(v) < 0) return false;
    *(int64_t *)(void *)((char *)m + numbers[i].offset) = json_integer_value(v);
  }
  for (size_t i = 0; i < COUNT(hashes); i++) {
    const char *v = json_string_value(json_object_get(root, hashes[i].name));
    if (!v || strlen(v) != 16) return false;
    *(uint64_t *)(void *)((char *)m + hashes[i].offset) = strtoull(v, NULL, 16);
  }
  for (size_t i = 0; i < COUNT(texts); i++) {
    const char *v = json_string_value(json_object_get(root, texts[i].name));
    if (!v) return false;
    *(const char **)(void *)((char *)m + texts[i].offset) = v;
  }
  return true;
}

static bool read_settings(DdpManifest *m, json_t *settings) {
  const char *key;
  json_t *v;
  if (!json_is_object(settings)) return false;
  m->settings = calloc(json_object_size(settings) + 1, sizeof *m->settings);
  if (!m->settings) return false;
  json_object_foreach(settings, key, v) {
    if (!json_is_string(v)) return false;
    m->settings[m->n_settings++] = (DdpManifestSetting){key, json_string_value(v)};
  }
  return true;
}

static bool read_files(DdpManifest *m, const json_t *files) {
  size_t n = json_array_size(files);
  if (n == 0 || n > DDP_CHECKPOINT_FILES) return false;
  for (size_t i = 0; i < n; i++) {
    const json_t *v = json_array_get(files, i), *bytes = json_object_get(v, "bytes");
    const char *name = json_string_value(json_object_get(v, "name"));
    const char *sum = json_string_value(json_object_get(v, "xxh128"));
    DdpManifestFile *f = &m->files[i];
    if (!name || !sum || !json_is_integer(bytes) || strlen(sum) != 32) return false;
    if (!*name || strlen(name) >= sizeof f->name || strchr(name, '/') || *name == '.') return false;
    *f = (DdpManifestFile){.bytes = json_integer_value(bytes)};
    memcpy(f->name, name, strlen(name) + 1);
    memcpy(f->xxh128, sum, 33);
  }
  m->n_files = (int)n;
  return true;
}

static DdpError *damaged(const char *path, const char *what) {
  return ddp_error(DDP_DATA, "'%s' is damaged: %s", path, what);
}

static DdpError *read_root(DdpManifest *m, json_t *root, const char *path) {
  const json_t *format = json_object_get(root, "format");
  const char *written = json_string_value(json_object_get(root, name_of_sum));
  char sum[36], kept[36] = "";
  if (!json_is_object(root)) return damaged(path, "it is no JSON object");
  if (json_is_integer(format) && json_integer_value(format) > DDP_CHECKPOINT_FORMAT) {
    return ddp_error(DDP_DATA,
                     "'%s' has format %lld, this program knows up to %d: a newer ddpc wrote it; "
                     "compile the job with that one",
                     path, (long long)json_integer_value(format), DDP_CHECKPOINT_FORMAT);
  }
  if (written) snprintf(kept, sizeof kept, "%s", written);
  json_object_del(root, name_of_sum);
  DDP_TRY(sum_of(root, sum));
  if (strcmp(kept, sum) != 0) return damaged(path, "its checksum is another one");
  if (!read_members(m, root)) return damaged(path, "a member is missing");
  if (!read_settings(m, json_object_get(root, "settings"))) return damaged(path, "the settings");
  if (!read_files(m, json_object_get(root, "files"))) return damaged(path, "the list of files");
  return NULL;
}

static DdpError *cannot_open(const char *folder, const char *path) {
  struct stat st;
  int number = errno;
  if (stat(folder, &st) != 0)
    return ddp_error(DDP_DATA, "there is no checkpoint '%s': %s", folder, strerror(errno));
  if (!S_ISDIR(st.st_mode))
    return ddp_error(DDP_DATA, "'%s' is a file; a checkpoint is a folder checkpoint-N", folder);
  if (number == ENOENT)
    return ddp_error(DDP_DATA, "'%s' has no %s: it was not written to its end", folder,
                     name_of_file);
  return ddp_error(DDP_DATA, "cannot read '%s': %s", path, strerror(number));
}

DdpError *ddp_manifest_read(DdpManifest *m, const char *folder) {
  json_error_t where;
  *m = (DdpManifest){.format = 0};
  char *path = ddp_file_join(folder, name_of_file);
  FILE *f = path ? fopen(path, "rbe") : NULL;
  if (!f) {
    DdpError *error = path ? cannot_open(folder, path) : no_memory();
    free(path);
    return error;
  }
  json_t *root = json_loadf(f, JSON_REJECT_DUPLICATES, &where);
  DdpError *error = root ? read_root(m, root, path) : damaged(path, where.text);
  m->text = root;
  fclose(f);
  free(path);
  return error;
}

void ddp_manifest_free(DdpManifest *m) {
  json_decref(m->text);
  free(m->settings);
  *m = (DdpManifest){.format = 0};
}

/* ---------- verifying ---------- */

static DdpError *verify_file(const char *folder, const DdpManifestFile *want, bool whole) {
  struct stat st;
  DdpManifestFile found = {.bytes = 0};
  char *path = ddp_file_join(folder, want->name);
  if (!path) return no_memory();
  DdpError *error = NULL;
  if (stat(path, &st) != 0) {
    error = errno == ENOENT ? ddp_error(DDP_DATA, "'%s' is missing", path)
                            : ddp_error(DDP_DATA, "cannot read '%s': %s", path, strerror(errno));
  } else if (!S_ISREG(st.st_mode) || (int64_t)st.st_size != want->bytes) {
    error = ddp_error(DDP_DATA, "'%s' is damaged: it has %lld bytes, %lld were written", path,
                      (long long)st.st_size, (long long)want->bytes);
  } else if (whole) {
    error = file_sum(path, &found);
    if (!error && strcmp(found.xxh128, want->xxh128) != 0) {
      error =
          ddp_error(DDP_DATA, "'%s' is damaged: other bytes than were written (checksum)", path);
    }
  }
  free(path);
  return error;
}

DdpError *ddp_checkpoint_verify(const char *folder, bool whole, DdpManifest *out) {
  DdpManifest m;
  DdpError *error = ddp_manifest_read(&m, folder);
  for (int i = 0; i < m.n_files && !error; i++) error = verify_file(folder, &m.files[i], whole);
  if (error || !out)
    ddp_manifest_free(&m);
  else
    *out = m;
  return error;
}
