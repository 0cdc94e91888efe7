/* The settings of a job: every key of `train` and `runtime` (tables/settings.def) with its value,
   where the value comes from, and who reads it while compiling. Values are evaluated on first use,
   so that a key may refer to params and to other keys (`train.seed`) in any order. */
#ifndef SEMA_SETTINGS_H
#define SEMA_SETTINGS_H
#include "eval.h"
#include "sema.h"

typedef enum SettingType {
  SETTING_int,
  SETTING_float,
  SETTING_bool,
  SETTING_text,
  SETTING_word,
  SETTING_list,
  SETTING_map
} SettingType;

typedef struct SettingRow { /* one line of settings.def */
  const char *block, *key;
  SettingType type;
  bool nullable;
  const char *initial, *values;
  char class; /* C R A X */
  bool later;
  const char *doc;
} SettingRow;
const SettingRow *setting_row(int i);
int setting_rows(void);
int setting_find(const char *block, const char *key); /* row number; -1 */

typedef struct SettingValue SettingValue;
typedef struct SettingItem { /* of a list (key NULL) or map */
  const char *key;
  SettingValue *value;
  Span at;
} SettingItem;
struct SettingValue {
  enum { VALUE_none, VALUE_int, VALUE_float, VALUE_bool, VALUE_text, VALUE_list, VALUE_map } kind;
  int64_t i;
  double f;
  bool b;
  const char *text; /* text, and words (also bare ones) */
  VEC(SettingItem) items;
};

typedef struct SettingSlot {
  const SettingRow *row;
  const Expr *expr; /* as written; NULL: default */
  File *file;       /* whose names expr sees */
  Span at, key_at;
  int origin; /* JobSetting.origin */
  bool is_final, refused;
  enum { SLOT_open, SLOT_running, SLOT_done, SLOT_wrong } state;
  SettingValue value;
  int reads; /* while compiling, from the job's expressions */
  const char *fixed_by;
} SettingSlot;

typedef struct Settings {
  Arena *arena;
  SettingSlot *slots; /* one per row */
  Program *program;   /* evaluates what is no literal or word; NULL in tests of the table */
} Settings;

Settings *settings_new(Arena *arena, Program *program);
/* Takes the lines of one block; later blocks override earlier ones (`extends`). */
void settings_add(Settings *s, const char *block, const SettingList *lines, File *file,
                  bool inherited);
/* -D train.KEY=TEXT, runtime.KEY=TEXT. */
void settings_define(Settings *s, const char *name, const char *text);
/* The checked value of row i; evaluates it when that has not happened. Never NULL; after an error it
   is the default. */
const SettingValue *settings_get(Settings *s, int i);
const SettingValue *settings_value(Settings *s, const char *key); /* a key that exists */
SettingSlot *settings_slot(Settings *s, const char *key);
/* Notes that a compile-time expression needs the value: it is fixed in the binary. */
void settings_fix(Settings *s, int i, const char *by);

/* Evaluates and checks all, then the rules between keys. */
void settings_check(Settings *s);
void settings_rules(Settings *s);
/* Job.recompute from the keys of gradient checkpointing. */
void checkpointing_make(Settings *s, Job *job);
/* Job.settings from the slots. */
void settings_export(Settings *s, Job *job);
/* Text as the runtime parses it. */
const char *setting_text(Arena *a, const SettingRow *row, const SettingValue *v);
/* A value as the language writes it, for messages. */
const char *setting_show(Arena *a, const SettingValue *v);

/* setting_value.c: checks `expr` against row; false after a report. */
bool setting_evaluate(Settings *s, SettingSlot *slot, const Expr *expr, SettingValue *out);
bool setting_default(Settings *s, const SettingRow *row, SettingValue *out);
bool setting_from_datum(Arena *a, Datum d, SettingValue *out);
bool setting_equal(const SettingValue *a, const SettingValue *b);
/* `momentum=0.9,nesterov=true` -> map; false: not of that form. */
bool setting_parse_args(Arena *a, const char *text, Span at, SettingValue *out);
#endif
