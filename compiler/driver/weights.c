/* In: the `load` lines of a checked job. Out: what does not fit, read from the headers of the files with
   the runtime's reader: one diagnostic for each kind of difference, with a table of the tensors. */
#include "weights.h"
#include "diag.h"
#include "safetensors.h"
#include <stdlib.h>
#include <sys/stat.h>

enum { MOST_ROWS = 10 };

typedef struct Differences { /* of one kind */
  Text rows[MOST_ROWS];
  int n;
} Differences;

static void add_row(Differences *d, const char *name, const char *spec, const char *file) {
  if (d->n++ >= MOST_ROWS) return;
  text_addf(&d->rows[d->n - 1], "%s: in the spec %s, in the file %s", name, spec, file);
}

static const char *entry_type(Arena *a, const DdpSafeEntry *e) {
  Text t = {0};
  text_addf(&t, "%s [", e->dtype);
  for (int32_t i = 0; i < e->rank; i++)
    text_addf(&t, "%s%lld", i ? ", " : "", (long long)e->shape[i]);
  text_add(&t, "]");
  const char *kept = arena_strndup(a, t.at, t.len);
  text_free(&t);
  return kept;
}

static const char *leaf_type(Arena *a, const Leaf *leaf) {
  int64_t shape[DDP_MAX_RANK];
  for (int i = 0; i < leaf->type.rank; i++) shape[i] = leaf->type.dim[i].fixed;
  DdpSafeEntry e = {.dtype = ddp_safetensors_dtype((DdpDType)leaf->type.dtype), /* same dtype.def */
                    .rank = leaf->type.rank,
                    .shape = shape};
  return entry_type(a, &e);
}

static void report(DiagCode code, const JobLoad *load, Differences *d, const char *what) {
  if (d->n) {
    diag_report(code, load->at, "`%s`: %d tensor%s %s", load->file, d->n, d->n == 1 ? "" : "s",
                what);
    for (int i = 0; i < d->n && i < MOST_ROWS; i++) diag_note((Span){0}, "%s", d->rows[i].at);
    if (d->n > MOST_ROWS) diag_note((Span){0}, "and %d more", d->n - MOST_ROWS);
    if (code != DIAG_E0810) diag_help("`load ... except PATHS` takes tensors away");
  }
  for (int i = 0; i < d->n && i < MOST_ROWS; i++) text_free(&d->rows[i]);
}

static bool is_known(const JobLoad *load, const DdpSafeNames *names, const char *name) {
  for (uint32_t k = 0; k < load->items.len; k++)
    if (ddp_safetensors_is(names, load->items.at[k].name, name)) return true;
  for (uint32_t k = 0; k < load->others.len; k++)
    if (ddp_safetensors_is(names, load->others.at[k], name)) return true;
  return false;
}

/* What stands before the names of a load in the names of the model. */
static size_t path_length(const Job *job, const JobLoad *load) {
  if (!load->items.len) return 0;
  return strlen(job->leaves.at[load->items.at[0].leaf].name) - strlen(load->items.at[0].name);
}

/* As the program does when it starts: by its own name, or by that of a leaf tied to it. */
static int find(const Job *job, const JobLoad *load, const DdpSafeFile *f,
                const DdpSafeNames *names, const JobLoadItem *item) {
  size_t n = path_length(job, load);
  const char *path = job->leaves.at[item->leaf].name;
  int i = ddp_safetensors_find_as(f, names, item->name);
  for (uint32_t k = 0; i < 0 && k < job->leaves.len; k++) {
    const Leaf *leaf = &job->leaves.at[k];
    bool here = strlen(leaf->name) > n && !strncmp(leaf->name, path, n);
    if (here && leaf->tied_to == item->leaf) i = ddp_safetensors_find_as(f, names, leaf->name + n);
  }
  return i;
}

static bool leaf_fits(const Leaf *leaf, const DdpSafeFile *f, int i) {
  int64_t shape[DDP_MAX_RANK];
  for (int k = 0; k < leaf->type.rank; k++) shape[k] = leaf->type.dim[k].fixed;
  return ddp_safetensors_fits(f, i, (DdpDType)leaf->type.dtype, leaf->type.rank, shape);
}

static DdpSafeNames names_of(Arena *a, const Job *job, const JobLoad *load, const DdpSafeFile *f) {
  const char **names = ARENA_ARRAY(a, const char *, load->items.len + 1);
  size_t n = path_length(job, load);
  const char *path = n ? arena_strndup(a, job->leaves.at[load->items.at[0].leaf].name, n - 1) : "";
  for (uint32_t k = 0; k < load->items.len; k++) names[k] = load->items.at[k].name;
  return ddp_safetensors_names(f, names, (int)load->items.len, path);
}

static void compare(Arena *a, const Job *job, const JobLoad *load, const DdpSafeFile *f) {
  Differences lacking = {0}, surplus = {0}, misshapen = {0};
  DdpSafeNames names = names_of(a, job, load, f);
  for (uint32_t k = 0; k < load->items.len; k++) {
    const JobLoadItem *item = &load->items.at[k];
    const Leaf *leaf = &job->leaves.at[item->leaf];
    const char *spec = leaf_type(a, leaf);
    int i = find(job, load, f, &names, item);
    if (i < 0) {
      add_row(&lacking, item->name, spec, "nothing");
      continue;
    }
    DdpSafeEntry e = ddp_safetensors_entry(f, i);
    if (!leaf_fits(leaf, f, i)) add_row(&misshapen, item->name, spec, entry_type(a, &e));
  }
  for (int i = 0; i < ddp_safetensors_count(f); i++) {
    DdpSafeEntry e = ddp_safetensors_entry(f, i);
    if (is_known(load, &names, e.name) || ddp_safetensors_beside(f, &names, i)) continue;
    add_row(&surplus, e.name, "nothing", entry_type(a, &e));
  }
  report(DIAG_E0808, load, &lacking, "of the model are not in the file");
  report(DIAG_E0809, load, &surplus, "of the file have no place in the model");
  report(DIAG_E0810, load, &misshapen, "have another type or shape in the file");
}

bool weights_check(Arena *arena, const Job *job) {
  unsigned before = diag_errors();
  for (uint32_t i = 0; i < job->loads.len; i++) {
    const JobLoad *load = &job->loads.at[i];
    const char *path = load->file[0] == '/' || !*job->directory
                           ? load->file
                           : arena_printf(arena, "%s%s", job->directory, load->file);
    struct stat st;
    if (stat(path, &st) != 0) continue;
    DdpSafeFile *f;
    DdpError *error = ddp_safetensors_open(&f, path);
    if (error) {
      diag_report(DIAG_E0811, load->at, "%s", error->message);
      ddp_error_free(error);
      continue;
    }
    compare(arena, job, load, f);
    ddp_safetensors_close(f);
  }
  return diag_errors() == before;
}
