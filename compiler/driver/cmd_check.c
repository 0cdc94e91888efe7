/* `ddpc check FILE...`: all mistakes of all files, for people or as JSON. */
#include "diag.h"
#include "pipeline.h"
#include "command.h"

static json_t *range(json_t *into, Span at) {
  static const char *const keys[] = {"path", "line", "column", "end"};
  if (!at.file) {
    for (int i = 0; i < 4; i++) json_object_set_new(into, keys[i], json_null());
    return into;
  }
  Place p = source_place(at.file, at.begin);
  Place q = source_place(at.file, at.end > at.begin ? at.end : at.begin);
  json_object_set_new(into, "path", run_json_text(p.path));
  json_object_set_new(into, "line", json_integer(p.line));
  json_object_set_new(into, "column", json_integer(p.column));
  json_t *end = json_object();
  json_object_set_new(end, "line", json_integer(q.line));
  json_object_set_new(end, "column", json_integer(q.column));
  json_object_set_new(into, "end", end);
  return into;
}

typedef struct Found {
  json_t *list;
  int64_t errors, warnings;
} Found;

static void add(void *self, const DiagView *d) {
  Found *found = self;
  bool warning = diag_name(d->code)[0] == 'W';
  *(warning ? &found->warnings : &found->errors) += 1;
  json_t *j = json_object();
  json_object_set_new(j, "code", json_string(diag_name(d->code)));
  json_object_set_new(j, "severity", json_string(warning ? "warning" : "error"));
  range(j, d->at);
  json_object_set_new(j, "message", run_json_text(d->text));
  json_t *notes = json_array(), *help = json_array();
  for (uint32_t i = 0; i < d->n_notes; i++) {
    const DiagNote *n = &d->notes[i];
    if (!strcmp(n->label, "help")) {
      json_array_append_new(help, run_json_text(n->text));
      continue;
    }
    json_t *note = range(json_object(), n->at);
    json_object_set_new(note, "message", run_json_text(n->text));
    json_array_append_new(notes, note);
  }
  json_object_set_new(j, "notes", notes);
  json_object_set_new(j, "help", help);
  json_array_append_new(found->list, j);
}

int cmd_check(Run *r) {
  if (!r->options.names.len) {
    fprintf(stderr, "ddpc: which job?\nhelp: `ddpc --help` lists commands and options\n");
    return WRONG_USE;
  }
  bool as_json = run_switch(r, OPT_json);
  Found found = {.list = json_array()};
  json_t *files = json_array();
  int code = DONE;
  for (uint32_t i = 0; i < r->options.names.len; i++) {
    const char *path = r->options.names.at[i];
    Job *job = run_analyse(r, path, true);
    /* Fragments and libraries have no graph to go on with, and what is not supported yet no whole one. */
    if (job && job->train && job->eval && !diag_errors() && !diag_later()) pipeline_check(job);
    json_array_append_new(files, run_json_text(path));
    if (as_json) diag_visit(add, &found);
    if (diag_errors()) code = WRONG_JOB;
    if (!as_json) run_flush(DONE);
    diag_reset();
  }
  if (as_json) {
    json_t *all = json_object();
    json_object_set(all, "files", files);
    json_object_set_new(all, "errors", json_integer(found.errors));
    json_object_set_new(all, "warnings", json_integer(found.warnings));
    json_object_set(all, "diagnostics", found.list);
    int written = run_write_json(NULL, all);
    if (written) code = written;
  }
  json_decref(files);
  json_decref(found.list);
  return code;
}
