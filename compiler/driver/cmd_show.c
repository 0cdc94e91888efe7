/* `ddpc show JOB`: what a job says once everything is resolved: values with where they come from, or the
   leaves of its model. */
#include "diag.h"
#include "keys.h"
#include "command.h"

/* The values of params, as the resolved text has them: lines `param NAME = VALUE` at its head. */
static void add_params(Text *out, const Job *job) {
  const char *c = job->spec;
  while (c && *c && strncmp(c, "train {", 7) != 0) {
    size_t n = strcspn(c, "\n");
    if (!strncmp(c, "param ", 6)) {
      text_add_n(out, c, n);
      text_add(out, "\n");
    }
    c += n + (c[n] == '\n');
  }
}

static const AstFile *imported(const Job *job, const AstFile *from, const char *alias) {
  for (uint32_t i = 0; i < from->decls.len; i++) {
    const Decl *d = from->decls.at[i];
    if (d->kind != DECL_import || !d->name.text || strcmp(d->name.text, alias) != 0) continue;
    const char *name = d->file;
    while (!strncmp(name, "./", 2) || !strncmp(name, "../", 3)) name = strchr(name, '/') + 1;
    for (uint32_t k = 0; k < job->files.len; k++) {
      size_t n = strlen(job->files.at[k]->path), m = strlen(name);
      if (n >= m && !strcmp(job->files.at[k]->path + n - m, name)) return job->files.at[k];
    }
  }
  return NULL;
}

/* Lines of the chain of `extends` that set the key: the first one counts. */
static void add_chain(Text *out, const Job *job, const char *block, const char *key) {
  const AstFile *file = job->files.len ? job->files.at[0] : NULL;
  int found = 0;
  for (int depth = 0; file && depth < 64; depth++) {
    const Decl *train = NULL;
    for (uint32_t i = 0; i < file->decls.len; i++) {
      const Decl *d = file->decls.at[i];
      bool right = d->kind == (strcmp(block, "train") ? DECL_runtime : DECL_train);
      if (right && !train) train = d;
    }
    if (!train) break;
    for (uint32_t i = 0; i < train->settings.len; i++) {
      const Setting *s = &train->settings.at[i];
      if (!s->key || strcmp(s->key, key) != 0) continue;
      Place p = source_place(s->key_span.file, s->key_span.begin);
      text_addf(out, "%s%s:%u", found++ ? ", over " : "", p.path, p.line);
    }
    file = train->extends.len ? imported(job, file, train->extends.at[0].text) : NULL;
  }
}

static void origin(Text *out, const Job *job, const KeyRow *row, const JobSetting *s) {
  Text chain = {0};
  add_chain(&chain, job, row->block, row->name);
  if (s->origin == FROM_default)
    text_add(out, "default");
  else if (s->origin == FROM_define)
    text_addf(out, "-D%s%s", chain.len ? ", over " : "", chain.len ? chain.at : "");
  else
    text_add(out, chain.len ? chain.at : "the job");
  if (s->is_final) text_add(out, "; final");
  if (s->fixed_by) text_addf(out, "; fixed: %s", s->fixed_by);
  text_free(&chain);
}

static int show_resolved(Run *r, const Job *job) {
  bool as_json = run_switch(r, OPT_json);
  json_t *list = json_array();
  Text out = {0};
  text_addf(&out, "# %s, spec hash %016llx\n", job->path, (unsigned long long)job->spec_hash);
  add_params(&out, job);
  for (uint32_t i = 0; i < job->settings.len; i++) {
    const JobSetting *s = &job->settings.at[i];
    const KeyRow *row = key_find(s->key);
    if (!row || row->class == 'X') continue;
    Text from = {0};
    origin(&from, job, row, s);
    text_addf(&out, "%s.%s = %s  # %s\n", row->block, s->key, s->value, from.at);
    json_t *j = json_object();
    json_object_set_new(j, "block", run_json_text(row->block));
    json_object_set_new(j, "key", run_json_text(s->key));
    json_object_set_new(j, "value", run_json_text(s->value));
    json_object_set_new(j, "from", run_json_text(from.at));
    json_object_set_new(j, "run_time", json_boolean(!s->fixed && !s->is_final));
    json_array_append_new(list, j);
    text_free(&from);
  }
  int code = DONE;
  if (as_json) {
    json_t *j = json_object();
    json_object_set_new(j, "job", run_json_text(job->path));
    json_object_set_new(
        j, "spec_hash",
        json_string(arena_printf(r->arena, "%016llx", (unsigned long long)job->spec_hash)));
    json_object_set(j, "settings", list);
    code = run_write_json(NULL, j);
  } else {
    code = run_write(NULL, &out);
  }
  json_decref(list);
  text_free(&out);
  return code;
}

/* How a leaf gets its first value; a later step may overwrite an earlier one. */
static const char *first_value(Arena *a, const Job *job, int32_t leaf) {
  const char *s = "";
  for (uint32_t i = 0; i < job->init.len; i++) {
    const InitStep *step = &job->init.at[i];
    if (step->leaf != leaf) continue;
    bool part = step->elements < type_elements_at(job->leaves.at[leaf].type, 1);
    if (part)
      s = arena_printf(a, "%s, then %g in %lld places", s, step->a, (long long)step->elements);
    else if (step->kind == INIT_fill)
      s = arena_printf(a, "%g", step->a);
    else if (step->kind == INIT_orthogonal || step->kind == INIT_bernoulli)
      s = arena_printf(a, "%s(%g)", init_kind_name(step->kind), step->a);
    else
      s = arena_printf(a, "%s(%g, %g)", init_kind_name(step->kind), step->a, step->b);
  }
  return s;
}

static int show_leaves(Run *r, const Job *job) {
  json_t *list = json_array();
  Text out = {0};
  for (uint32_t i = 0; i < job->leaves.len; i++) {
    const Leaf *l = &job->leaves.at[i];
    Text type = {0};
    type_print(&type, l->type);
    const char *value = l->tied_to >= 0
                            ? arena_printf(r->arena, "is %s", job->leaves.at[l->tied_to].name)
                            : first_value(r->arena, job, (int32_t)i);
    text_addf(&out, "%-40s %-18s %-10s %-24s %s\n", l->name, type.at, plan_group_name(job, l),
              value, run_place(r->arena, l->at));
    json_t *j = json_object();
    json_object_set_new(j, "name", run_json_text(l->name));
    json_object_set_new(j, "type", run_json_text(type.at));
    json_object_set_new(j, "group", run_json_text(plan_group_name(job, l)));
    json_object_set_new(j, "initial", run_json_text(value));
    json_object_set_new(j, "place", run_json_place(l->at));
    json_array_append_new(list, j);
    text_free(&type);
  }
  bool as_json = run_switch(r, OPT_json);
  int code = as_json ? run_write_json(NULL, list) : run_write(NULL, &out);
  if (!as_json) json_decref(list);
  text_free(&out);
  return code;
}

int cmd_show(Run *r) {
  const char *path = run_file(r);
  if (!path) return WRONG_USE;
  Job *job = run_analyse(r, path, false);
  int code = run_flush(job ? DONE : WRONG_JOB);
  if (code || !job) return code;
  return run_switch(r, OPT_leaves) ? show_leaves(r, job) : show_resolved(r, job);
}
