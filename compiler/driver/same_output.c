/* In: two output folders. Out: what differs, in the reader's words: which file, which tensor, which element
   or which key. */
#include "same_output.h"
#include "text.h"
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

typedef struct Pair { /* one file in both folders */
  Arena *arena;
  const char *name;
  Lines *out;
} Pair;

typedef struct Bytes {
  unsigned char *at;
  size_t n;
} Bytes;

#define differ(p, ...)                                                                             \
  vec_push((p)->arena, (p)->out,                                                                   \
           arena_printf((p)->arena, "%s: %s", (p)->name, arena_printf((p)->arena, __VA_ARGS__)))

/* Whole file; NULL: it cannot be read. */
static unsigned char *slurp(const char *path, size_t *n) {
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  struct stat st;
  unsigned char *at = NULL;
  if (fstat(fileno(f), &st) == 0 && S_ISREG(st.st_mode) && (at = malloc((size_t)st.st_size + 1))) {
    *n = fread(at, 1, (size_t)st.st_size, f);
    at[*n] = 0;
  }
  fclose(f);
  return at;
}

/* ---------- safetensors ---------- */

static json_t *header_of(const Bytes *b, size_t *data) {
  uint64_t n = 0;
  if (b->n < 8) return NULL;
  memcpy(&n, b->at, 8);
  if (n > b->n - 8) return NULL;
  *data = 8 + (size_t)n;
  return json_loadb((const char *)b->at + 8, (size_t)n, 0, NULL);
}

static double number_at(const unsigned char *at, bool wide) {
  float f;
  double d;
  memcpy(&f, at, sizeof f);
  if (wide) memcpy(&d, at, sizeof d);
  return wide ? d : (double)f;
}

/* Where two tensors begin to differ, and how. */
static const char *first_element(Arena *a, const char *dtype, const unsigned char *x,
                                 const unsigned char *y, size_t n) {
  size_t i = 0;
  bool wide = !strcmp(dtype, "F64");
  size_t width = wide ? 8 : 4;
  while (i < n && x[i] == y[i]) i++;
  if ((!wide && strcmp(dtype, "F32") != 0) || n % width) return arena_printf(a, "byte %zu", i);
  return arena_printf(a, "element %zu (%.*g, %.*g)", i / width, wide ? 17 : 9,
                      number_at(x + i / width * width, wide), wide ? 17 : 9,
                      number_at(y + i / width * width, wide));
}

static void compare_tensors(const Pair *p, const Bytes *x, const Bytes *y) {
  size_t at = 0, other = 0;
  int tensors = 0, different = 0;
  json_t *header = header_of(x, &at), *second = header_of(y, &other);
  const char *first = NULL, *name;
  json_t *entry;
  if (!header || !second || at != other || memcmp(x->at, y->at, at) != 0 || x->n != y->n) {
    differ(p, "other tensors or metadata");
    json_decref(header);
    json_decref(second);
    return;
  }
  json_object_foreach(header, name, entry) {
    json_t *offsets = json_object_get(entry, "data_offsets");
    size_t begin = (size_t)json_integer_value(json_array_get(offsets, 0));
    size_t end = (size_t)json_integer_value(json_array_get(offsets, 1));
    if (!offsets || begin > end || end > x->n - at) continue;
    tensors++;
    if (!memcmp(x->at + at + begin, y->at + at + begin, end - begin)) continue;
    if (!different++) {
      const char *dtype = json_string_value(json_object_get(entry, "dtype"));
      first = arena_printf(p->arena, "%s from %s on", name,
                           first_element(p->arena, dtype ? dtype : "", x->at + at + begin,
                                         y->at + at + begin, end - begin));
    }
  }
  differ(p, "%d of %d tensors differ, %s", different, tensors, first ? first : "in their padding");
  json_decref(header);
  json_decref(second);
}

/* ---------- JSON ---------- */

/* Times and rates of this machine, and settings that the two runs do not share. */
static bool is_of_the_run(const char *key) {
  static const char *const exact[] = {"save_steps", "communication_wait", "best_model_checkpoint",
                                      "memory_bytes"};
  static const char *const ends[] = {"_runtime", "_per_second", "_ms"};
  for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
    if (!strcmp(key, exact[i])) return true;
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    size_t n = strlen(key), k = strlen(ends[i]);
    if (n > k && !strcmp(key + n - k, ends[i])) return true;
  }
  return false;
}

static void compare_json(const Pair *p, const char *path, json_t *x, json_t *y);

static void compare_objects(const Pair *p, const char *path, json_t *x, json_t *y) {
  const char *key;
  json_t *value;
  json_object_foreach(x, key, value) {
    if (!is_of_the_run(key))
      compare_json(p, arena_printf(p->arena, "%s.%s", path, key), value, json_object_get(y, key));
  }
  json_object_foreach(y, key, value) {
    if (!is_of_the_run(key) && !json_object_get(x, key))
      compare_json(p, arena_printf(p->arena, "%s.%s", path, key), NULL, value);
  }
}

static void compare_json(const Pair *p, const char *path, json_t *x, json_t *y) {
  if (json_is_object(x) && json_is_object(y)) {
    compare_objects(p, path, x, y);
  } else if (json_is_array(x) && json_is_array(y) && json_array_size(x) == json_array_size(y)) {
    for (size_t i = 0; i < json_array_size(x); i++)
      compare_json(p, arena_printf(p->arena, "%s[%zu]", path, i), json_array_get(x, i),
                   json_array_get(y, i));
  } else if (!json_equal(x, y)) {
    char *a = x ? json_dumps(x, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    char *b = y ? json_dumps(y, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    differ(p, "%s is %.60s and %.60s", *path ? path + 1 : "it", a ? a : "absent", b ? b : "absent");
    free(a);
    free(b);
  }
}

static void compare_states(const Pair *p, const Bytes *x, const Bytes *y) {
  json_t *a = json_loadb((char *)x->at, x->n, JSON_ALLOW_NUL, NULL);
  json_t *b = json_loadb((char *)y->at, y->n, JSON_ALLOW_NUL, NULL);
  if (a && b)
    compare_json(p, "", a, b);
  else
    differ(p, "no JSON in the %s run", a ? "second" : "first");
  json_decref(a);
  json_decref(b);
}

/* ---------- the log ---------- */

static json_int_t step_of(const json_t *lines, size_t i) {
  return json_integer_value(json_object_get(json_array_get(lines, i), "step"));
}

/* A run that was killed had told of updates behind its last checkpoint; the next one makes them again. What
   it told of the checkpoint's own update may have come before or behind the save. */
static void forget_behind(json_t *lines, json_int_t step) {
  size_t n = json_array_size(lines);
  while (n > 0 && step_of(lines, n - 1) > step) json_array_remove(lines, --n);
}

static void tell(json_t *lines, json_t *line, const char *key) {
  json_int_t step = json_integer_value(json_object_get(line, "step"));
  size_t n = json_array_size(lines);
  while (n > 0 && step_of(lines, n - 1) == step) {
    if (json_object_get(json_array_get(lines, --n), key)) json_array_remove(lines, n);
  }
  json_array_append(lines, line);
}

/* Lines that tell of an update: losses and evaluations, not the first line and the summary. */
static json_t *updates_of(const Bytes *b) {
  json_t *all = json_array();
  char *save = NULL;
  for (char *line = strtok_r((char *)b->at, "\n", &save); line;
       line = strtok_r(NULL, "\n", &save)) {
    json_t *j = json_loads(line, 0, NULL), *step = json_object_get(j, "step");
    const char *key = json_object_get(j, "loss") ? "loss" : "eval_loss";
    if (step && !json_object_get(j, "train_runtime") && json_object_get(j, key)) tell(all, j, key);
    if (json_object_get(j, "max_steps")) forget_behind(all, json_integer_value(step));
    json_decref(j);
  }
  return all;
}

static void compare_logs(const Pair *p, const Bytes *x, const Bytes *y) {
  json_t *a = updates_of(x), *b = updates_of(y);
  if (json_array_size(a) != json_array_size(b))
    differ(p, "%zu and %zu lines of updates", json_array_size(a), json_array_size(b));
  else
    compare_json(p, "", a, b);
  json_decref(a);
  json_decref(b);
}

/* ---------- files ---------- */

static bool ends_in(const char *name, const char *end) {
  size_t n = strlen(name), k = strlen(end);
  return n >= k && !strcmp(name + n - k, end);
}

static void compare_file(Arena *a, const char *x, const char *y, const char *name, Lines *out) {
  const Pair p = {a, name, out};
  Bytes b[2] = {0};
  b[0].at = slurp(arena_printf(a, "%s/%s", x, name), &b[0].n);
  b[1].at = slurp(arena_printf(a, "%s/%s", y, name), &b[1].n);
  if (!b[0].at || !b[1].at)
    differ(&p, "not in the %s run", b[0].at ? "second" : "first");
  else if (ends_in(name, ".jsonl"))
    compare_logs(&p, &b[0], &b[1]);
  else if (ends_in(name, ".json"))
    compare_states(&p, &b[0], &b[1]);
  else if ((b[0].n != b[1].n || memcmp(b[0].at, b[1].at, b[0].n)) && ends_in(name, ".safetensors"))
    compare_tensors(&p, &b[0], &b[1]);
  else if (b[0].n != b[1].n || memcmp(b[0].at, b[1].at, b[0].n))
    differ(&p, "other bytes");
  free(b[0].at);
  free(b[1].at);
}

/* Names of the files of a folder that are in no list yet. */
static void add_files(Arena *a, const char *root, const char *folder, Lines *names) {
  DIR *d = opendir(arena_printf(a, "%s/%s", root, folder));
  for (struct dirent *e; d && (e = readdir(d));) {
    /* The manifest holds what the others say (sizes, checksums) and how the run was started. */
    bool known = e->d_name[0] == '.' || !strcmp(e->d_name, "manifest.json");
    const char *name = arena_printf(a, "%s/%s", folder, e->d_name);
    for (uint32_t i = 0; i < names->len && !known; i++) known = !strcmp(names->at[i], name);
    if (!known) vec_push(a, names, name);
  }
  if (d) closedir(d);
}

int outputs_compare(Arena *a, const char *x, const char *y, long long last_update, Lines *out) {
  Lines names = {0};
  const char *checkpoint = arena_printf(a, "checkpoint-%lld", last_update);
  vec_push(a, &names, "model.safetensors");
  vec_push(a, &names, "log.jsonl");
  add_files(a, x, checkpoint, &names);
  add_files(a, y, checkpoint, &names);
  for (uint32_t i = 0; i < names.len; i++) compare_file(a, x, y, names.at[i], out);
  return (int)names.len;
}
