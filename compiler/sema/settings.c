/* Collects the settings of a job. In: the `train` and `runtime` blocks (with `extends`) and -D. Out:
   one slot per key of settings.def. Unknown, renamed, refused and doubled keys are reported here;
   values are checked by setting_value.c when they are first asked for. */
#include "settings.h"
#include "diag.h"
#include "die.h"
#include "parse.h"
#include "text.h"

static const SettingRow rows[] = {
#define SETTING(block, name, type, nullable, initial, values, class, state, doc)                   \
  {#block, #name, SETTING_##type, nullable, initial, values, #class[0], #state[0] == 'l', doc},
#include "settings.def"
};

static const struct OldName {
  const char *key, *now;
  enum { OLD_same, OLD_word, OLD_drop } how;
  const char *text;
} old_names[] = {
#define OLDNAME(old, now, how, text) {#old, #now, OLD_##how, text},
#include "oldnames.def"
};

const SettingRow *setting_row(int i) {
  return &rows[i];
}
int setting_rows(void) {
  return (int)(sizeof(rows) / sizeof(*rows));
}

int setting_find(const char *block, const char *key) {
  for (int i = 0; i < setting_rows(); i++) {
    if (!strcmp(rows[i].key, key) && (!block || !strcmp(rows[i].block, block))) return i;
  }
  return -1;
}

Settings *settings_new(Arena *arena, Program *program) {
  Settings *s = ARENA_NEW(arena, Settings);
  s->arena = arena;
  s->program = program;
  s->slots = ARENA_ARRAY(arena, SettingSlot, setting_rows());
  for (int i = 0; i < setting_rows(); i++) s->slots[i].row = &rows[i];
  return s;
}

SettingSlot *settings_slot(Settings *s, const char *key) {
  int i = setting_find(NULL, key);
  check(i >= 0, "no key %s in settings.def", key);
  return &s->slots[i];
}

const SettingValue *settings_value(Settings *s, const char *key) {
  return settings_get(s, setting_find(NULL, key));
}

/* ---------- keys that are not keys ---------- */

static const char *source_text(Arena *a, Span at) {
  const Source *source = source_get(at.file);
  return arena_strndup(a, source->text + at.begin, at.end - at.begin);
}

static void report_old(Settings *s, const char *block, const struct OldName *old,
                       const Setting *line) {
  const char *value = source_text(s->arena, line->value->span);
  int now = setting_find(NULL, old->now);
  bool off = line->value->kind == EXPR_bool && !line->value->as.b;
  if (old->how == OLD_drop || (old->how == OLD_word && off)) {
    diag_report(DIAG_E0706, line->key_span, "`%s` is no key of 5.24 any more", line->key);
    if (old->how == OLD_drop)
      diag_help("remove the line: %s", old->text);
    else
      diag_help("remove the line: the default of `%s` says the same", old->now);
    return;
  }
  diag_report(DIAG_E0706, line->key_span, "`%s` is called `%s`", line->key, old->now);
  const char *other = now >= 0 && strcmp(rows[now].block, block) != 0 ? rows[now].block : NULL;
  diag_help("write `%s = %s`%s%s", old->now, old->how == OLD_word ? old->text : value,
            other ? " in " : "", other ? other : "");
}

static void report_unknown(Settings *s, const char *block, const Setting *line) {
  for (size_t i = 0; i < sizeof(old_names) / sizeof(*old_names); i++) {
    if (strcmp(old_names[i].key, line->key) != 0) continue;
    report_old(s, block, &old_names[i], line);
    return;
  }
  diag_report(DIAG_E0701, line->key_span, "`%s` has no key `%s`", block, line->key);
  int other = setting_find(NULL, line->key);
  if (other >= 0) {
    diag_help("`%s` is a key of `%s`", line->key, rows[other].block);
    return;
  }
  TextNearest near = {.wanted = line->key};
  for (int i = 0; i < setting_rows(); i++) {
    if (!strcmp(rows[i].block, block)) text_offer(&near, rows[i].key);
  }
  if (near.best) diag_help("did you mean `%s`?", near.best);
}

/* A refused key that says nothing (none, or its default) is dropped with a note, so that keyword
   arguments paste in. */
static void refuse(Settings *s, const SettingSlot *slot, const Setting *line) {
  const Expr *e = line->value;
  bool idle = e->kind == EXPR_none;
  SettingValue initial;
  setting_default(s, slot->row, &initial);
  if (e->kind == EXPR_bool) idle = initial.kind == VALUE_bool && initial.b == e->as.b;
  if (e->kind == EXPR_int) idle = initial.kind == VALUE_int && initial.i == e->as.i;
  if (e->kind == EXPR_unary && e->as.unary.operand->kind == EXPR_int) {
    idle = initial.kind == VALUE_int && initial.i == -e->as.unary.operand->as.i;
  }
  if (e->kind == EXPR_text) {
    idle = initial.kind == VALUE_text && !strcmp(initial.text, e->as.text.text);
  }
  if (e->kind == EXPR_list && !e->as.items.len) idle = initial.kind == VALUE_list;
  if (idle) {
    diag_report(DIAG_W0717, line->key_span, "`%s` is no key of ddpc; it is left out", line->key);
    return;
  }
  diag_report(DIAG_E0705, line->key_span, "`%s` is refused: %s", line->key, slot->row->doc);
  diag_help("remove the line");
}

/* ---------- lines ---------- */

void settings_add(Settings *s, const char *block, const SettingList *lines, File *file,
                  bool inherited) {
  bool *seen = ARENA_ARRAY(s->arena, bool, setting_rows());
  for (uint32_t k = 0; k < lines->len; k++) {
    const Setting *line = &lines->at[k];
    if (!line->key) continue; /* dropped by recovery */
    int i = setting_find(block, line->key);
    if (i < 0) {
      report_unknown(s, block, line);
      continue;
    }
    SettingSlot *slot = &s->slots[i];
    if (seen[i]) {
      diag_report(DIAG_E0704, line->key_span, "`%s` is set twice", line->key);
      diag_note(slot->key_at, "first set here");
      continue;
    }
    seen[i] = true;
    slot->key_at = line->key_span;
    slot->at = line->value->span;
    if (rows[i].class == 'X') {
      refuse(s, slot, line);
      continue;
    }
    slot->expr = line->value;
    slot->file = file;
    slot->origin = FROM_spec;
    slot->is_final = line->is_final || (slot->is_final && !inherited);
  }
}

void settings_define(Settings *s, const char *name, const char *text) {
  const char *dot = strchr(name, '.');
  const char *block = text_intern_n(name, (size_t)(dot - name)), *key = dot + 1;
  const char *title = arena_printf(s->arena, "-D %s", name);
  uint32_t source = source_add(title, arena_strdup(s->arena, text), strlen(text));
  Span at = {source, 0, (uint32_t)strlen(text)};
  int i = setting_find(block, key);
  bool quoted = text[0] == '"';
  Setting line = {.key = text_intern(key), .span = at, .key_span = at};
  if (i >= 0 && !quoted && strcmp(text, "none") != 0 &&
      (rows[i].type == SETTING_text || rows[i].type == SETTING_word) && text[0] != '{') {
    line.value = ARENA_NEW(s->arena, Expr);
    *line.value = (Expr){.kind = EXPR_text, .span = at};
    line.value->as.text.text = text_intern(text);
    line.value->as.text.length = (uint32_t)strlen(text);
    if (rows[i].values[0] == '*') {
      line.value->kind = EXPR_name;
      line.value->as.name = (Name){.text = text_intern(text), .span = at};
    }
  } else {
    line.value = parse_expression(s->arena, source);
    if (!line.value) return;
  }
  SettingList one = {&line, 1};
  File *file = i >= 0 ? s->slots[i].file : NULL;
  settings_add(s, block, &one, file, false);
  if (i >= 0 && s->slots[i].expr == line.value) s->slots[i].origin = FROM_define;
}

/* ---------- values ---------- */

const SettingValue *settings_get(Settings *s, int i) {
  SettingSlot *slot = &s->slots[i];
  if (slot->state == SLOT_done || slot->state == SLOT_wrong) return &slot->value;
  if (slot->state == SLOT_running) {
    diag_report(DIAG_E0310, slot->at, "`%s.%s` refers to itself", slot->row->block, slot->row->key);
    return &slot->value;
  }
  setting_default(s, slot->row, &slot->value);
  if (!slot->expr) {
    slot->state = SLOT_done;
    return &slot->value;
  }
  slot->state = SLOT_running;
  SettingValue v;
  bool ok = setting_evaluate(s, slot, slot->expr, &v);
  if (ok) slot->value = v;
  slot->state = ok ? SLOT_done : SLOT_wrong;
  return &slot->value;
}

void settings_fix(Settings *s, int i, const char *by) {
  if (!s->slots[i].fixed_by) s->slots[i].fixed_by = by;
}

void settings_check(Settings *s) {
  for (int i = 0; i < setting_rows(); i++) settings_get(s, i);
}

void settings_export(Settings *s, Job *job) {
  for (int i = 0; i < setting_rows(); i++) {
    SettingSlot *slot = &s->slots[i];
    JobSetting set = {.key = slot->row->key,
                      .value = setting_text(s->arena, slot->row, settings_get(s, i)),
                      .is_final = slot->is_final,
                      .fixed = slot->row->class == 'C' || slot->fixed_by != NULL,
                      .fixed_by = slot->fixed_by,
                      .at = slot->key_at};
    set.origin = slot->origin == FROM_default ? FROM_default
                 : slot->origin == FROM_spec  ? FROM_spec
                                              : FROM_define;
    vec_push(s->arena, &job->settings, set);
  }
}

const char *job_setting(const Job *job, const char *key) {
  for (uint32_t i = 0; i < job->settings.len; i++) {
    if (!strcmp(job->settings.at[i].key, key)) return job->settings.at[i].value;
  }
  die("no setting %s", key);
}

bool job_setting_is(const Job *job, const char *key, const char *value) {
  return !strcmp(job_setting(job, key), value);
}
