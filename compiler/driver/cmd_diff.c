/* `ddpc diff a.ddp b.ddp`: what differs in meaning. Exit status as diff(1): 0 the same, 1 different, 2
   trouble. */
#include "compare.h"
#include "diag.h"
#include "pipeline.h"

enum { SAME = 0, DIFFERENT = 1, TROUBLE = 2, SECTIONS = 6 };

static bool load(Run *r, const char *path, Side *side) {
  Job *job = run_analyse(r, path, false);
  if (job) compare_note_graphs(r->arena, side, job);
  side->plan = job ? pipeline_run(job, NULL, NULL) : NULL;
  bool good = side->plan && !diag_errors();
  run_flush(DONE);
  diag_reset();
  return good;
}

static void print_section(Text *out, const Section *s) {
  if (!s->list.len) return;
  text_addf(out, "%s\n", s->name);
  for (uint32_t i = 0; i < s->list.len; i++) {
    const Difference *d = &s->list.at[i];
    if (d->a && d->b)
      text_addf(out, "  ~ %s: %s -> %s", d->what, d->a, d->b);
    else
      text_addf(out, "  %c %s: %s", d->a ? '-' : '+', d->what, d->a ? d->a : d->b);
    text_addf(out, "%s%s%s\n", *d->note ? "  (" : "", d->note, *d->note ? ")" : "");
  }
}

static json_t *section_json(const Section *s) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < s->list.len; i++) {
    const Difference *d = &s->list.at[i];
    json_t *j = json_object();
    json_object_set_new(j, "what", run_json_text(d->what));
    json_object_set_new(j, "a", run_json_text(d->a));
    json_object_set_new(j, "b", run_json_text(d->b));
    json_object_set_new(j, "note", *d->note ? run_json_text(d->note) : json_null());
    json_array_append_new(list, j);
  }
  return list;
}

static int print_json(const char *const *paths, const Section *sections, bool same, bool loads,
                      bool same_binary, const Section *checkpoint) {
  json_t *j = json_object();
  json_object_set_new(j, "a", run_json_text(paths[0]));
  json_object_set_new(j, "b", run_json_text(paths[1]));
  json_object_set_new(j, "same", json_boolean(same));
  json_object_set_new(j, "same_binary", json_boolean(same_binary));
  for (int i = 0; i < SECTIONS; i++)
    json_object_set_new(j, sections[i].name, section_json(&sections[i]));
  json_object_set_new(j, "checkpoint_loads", json_boolean(loads));
  json_object_set_new(j, "checkpoint", section_json(checkpoint));
  return run_write_json(NULL, j);
}

static int print_text(Arena *a, const Side *sides, const Section *sections, bool same,
                      bool same_binary, const Section *checkpoint) {
  Text out = {0};
  for (int i = 0; i < SECTIONS; i++) print_section(&out, &sections[i]);
  if (same) {
    bool text = sides[0].job->spec_hash == sides[1].job->spec_hash;
    text_addf(&out, "the same job%s\n", text ? "" : "; only names of definitions differ");
  } else {
    text_addf(&out, "binary: %s\n",
              same_binary ? "the same one runs both" : "each needs its own (recompile)");
    text_addf(&out, "a checkpoint of %s loads into %s: %s\n", sides[0].job->path,
              sides[1].job->path, checkpoint->list.len ? "no" : "yes");
    for (uint32_t i = 0; i < checkpoint->list.len; i++) {
      const Difference *d = &checkpoint->list.at[i];
      const char *line = arena_printf(a, "  %s: in the checkpoint %s, in the spec %s\n", d->what,
                                      d->a ? d->a : "-", d->b ? d->b : "-");
      text_add(&out, line);
    }
  }
  int code = run_write(NULL, &out);
  text_free(&out);
  return code;
}

int cmd_diff(Run *r) {
  if (r->options.names.len != 2) {
    fprintf(stderr, "ddpc: diff compares two jobs\nhelp: ddpc diff a.ddp b.ddp\n");
    return TROUBLE;
  }
  Side sides[2] = {{0}, {0}};
  bool good = load(r, r->options.names.at[0], &sides[0]);
  if (!load(r, r->options.names.at[1], &sides[1]) || !good) return TROUBLE;
  static void (*const compare[SECTIONS])(Arena *, const Side *, const Side *, Section *) = {
      compare_settings, compare_leaves,    compare_groups,
      compare_data,     compare_objective, compare_memory};
  static const char *const names[SECTIONS] = {"settings", "parameters", "optimizer",
                                              "data",     "objective",  "memory"};
  Section sections[SECTIONS] = {0}, checkpoint = {.name = "checkpoint"};
  bool same = true, only_settings = true;
  for (int i = 0; i < SECTIONS; i++) {
    sections[i].name = names[i];
    compare[i](r->arena, &sides[0], &sides[1], &sections[i]);
    if (sections[i].list.len) same = false;
    if (i && sections[i].list.len) only_settings = false;
  }
  compare_checkpoint(r->arena, &sides[0], &sides[1], &checkpoint);
  bool binary = only_settings && compare_same_binary(&sides[0], &sides[1]);
  int code = run_switch(r, OPT_json)
                 ? print_json(r->options.names.at, sections, same, !checkpoint.list.len, binary,
                              &checkpoint)
                 : print_text(r->arena, sides, sections, same, binary, &checkpoint);
  return code ? TROUBLE : same ? SAME : DIFFERENT;
}
