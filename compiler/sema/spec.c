/* The resolved text of a job and its hash. In: the checked job. Out: Job.spec, for `--spec`: params and
   all settings with where they come from, then the files; Job.spec_hash over what identity.c
   makes of the job, so that layout and spelling do not change it, and over C headers with operators and
   the sources beside them as they are written. */
#include "identity.h"

/* Headers with operators, and the sources beside them, as they are written. */
static void add_natives(Analysis *a, Text *t, const char *before, const char *after) {
  for (uint32_t i = 0; i < a->job->natives.len; i++) {
    const NativeHeader *n = &a->job->natives.at[i];
    const char *const beside[] = {NULL, n->c_file, n->cu_file};
    for (int k = 0; k < 3; k++) {
      if (k && !beside[k]) continue;
      uint32_t source = k ? source_read(beside[k]) : n->source;
      if (!source) continue; /* gone since the job was read: the C compiler will say so */
      const char *dot = k ? strrchr(beside[k], '.') : ".h";
      size_t stem = strlen(n->include) - 2;
      text_addf(t, "%s%.*s%s%s", before, (int)stem, n->include, dot, after);
      text_add_n(t, source_get(source)->text, source_get(source)->length);
    }
  }
}

static uint64_t spec_hash(Analysis *a) {
  Text t = {0};
  identity_print(a, &t);
  add_natives(a, &t, "file ", "\n");
  uint64_t hash = text_hash(t.at ? t.at : "", t.len, 0);
  text_free(&t);
  return hash;
}

const char *job_shown_path(const Job *job, const char *path) {
  size_t n = strlen(job->directory);
  if (n && job->directory[n - 1] == '/') n--;
  if (n && !strncmp(path, job->directory, n) && path[n] == '/') return path + n + 1;
  return path;
}

static void add_origin(const Job *job, Text *t, const SettingSlot *slot) {
  if (slot->origin == FROM_default) {
    text_add(t, "  # default");
  } else if (slot->origin == FROM_define) {
    text_add(t, "  # -D");
  } else {
    Place p = source_place(slot->key_at.file, slot->key_at.begin);
    text_addf(t, "  # %s:%u", job_shown_path(job, p.path), p.line);
  }
}

static void add_settings(Analysis *a, Text *t, const char *block) {
  text_addf(t, "%s {\n", block);
  for (int i = 0; i < setting_rows(); i++) {
    const SettingRow *row = setting_row(i);
    if (strcmp(row->block, block) != 0 || row->class == 'X') continue;
    const SettingValue *v = settings_get(a->settings, i);
    bool word = row->type == SETTING_word;
    text_addf(t, "  %s%s = %s", a->settings->slots[i].is_final ? "final " : "", row->key,
              word ? setting_text(a->arena, row, v) : setting_show(a->arena, v));
    add_origin(a->job, t, &a->settings->slots[i]);
    text_add(t, "\n");
  }
  text_add(t, "}\n");
}

static void add_params(Analysis *a, Text *t) {
  for (uint32_t i = 0; i < a->root->names.len; i++) {
    const FileName *n = &a->root->names.at[i];
    if (n->decl->kind != DECL_param || n->state != NAME_done) continue;
    text_addf(t, "param %s = ", n->name);
    datum_print(t, n->value);
    for (int k = 0; k < a->options->n_defines; k++) {
      if (strcmp(a->options->defines[k].name, n->name) != 0) continue;
      text_add(t, "  # -D");
      break;
    }
    text_add(t, "\n");
  }
}

void spec_make(Analysis *a) {
  Job *job = a->job;
  job->spec_hash = spec_hash(a);
  Text t = {0};
  text_addf(&t, "# job %s, spec hash %016llx\n", job_shown_path(job, job->path),
            (unsigned long long)job->spec_hash);
  add_params(a, &t);
  add_settings(a, &t, "train");
  add_settings(a, &t, "runtime");
  for (uint32_t i = 0; i < job->files.len; i++) {
    const AstFile *file = job->files.at[i];
    if (!strncmp(file->path, "std/", 4)) continue; /* part of the compiler */
    const Source *source = source_get(file->source);
    text_addf(&t, "\n# ---------- %s ----------\n", job_shown_path(job, file->path));
    text_add_n(&t, source->text, source->length);
  }
  add_natives(a, &t, "\n# ---------- ", " ----------\n");
  job->spec = arena_strndup(a->arena, t.at, t.len);
  text_free(&t);
}
