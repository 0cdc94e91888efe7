/* Tables as documentation. In: "settings" or "errors", perhaps a page. Out: the text that the page ends
   with; with a page, whether it does. tools/pages writes it. */
#include "diag.h"
#include "source.h"
#include "text.h"
#include <stdio.h>
#include <string.h>

/* ---------- settings ---------- */

typedef struct Row {
  const char *block, *name, *type;
  bool nullable;
  const char *initial, *values, *class, *state, *doc;
} Row;
static const Row rows[] = {
#define SETTING(block, name, type, nullable, default_, values, class_, state, doc)                 \
  {#block, #name, #type, nullable, default_, values, #class_, #state, doc},
#include "settings.def"
};
enum { ROWS = sizeof rows / sizeof *rows };

/* "|" would end a cell. */
static void cell(Text *t, const char *s) {
  for (; *s; s++) text_addf(t, *s == '|' ? "\\|" : "%c", *s);
}

/* "a|~b" as `a`, and `b` in brackets: not supported yet. */
static void values(Text *t, const Row *r) {
  const char *v = r->values;
  if (!strcmp(v, "*optimizer"))
    text_add(t, "an optimizer");
  else if (!strcmp(v, "*schedule"))
    text_add(t, "a schedule");
  else if (strcmp(r->type, "word") != 0)
    text_add(t, v);
  else
    for (const char *next = v; *v; v = next) {
      size_t n = strcspn(v, "|");
      next = v + n + (v[n] == '|');
      bool later = *v == '~';
      text_addf(t, later ? "(`%.*s`)%s" : "`%.*s`%s", (int)n - later, v + later, *next ? " " : "");
    }
}

static void setting_row(Text *t, const Row *r) {
  text_addf(t, "| `%s` | %s%s | ", r->name, r->type, r->nullable ? " or none" : "");
  text_addf(t, *r->initial ? "`%s` | " : "%s | ", r->initial);
  values(t, r);
  text_addf(t, " | %s | ", r->class);
  cell(t, r->doc);
  text_add(t, " |\n");
}

static void setting_table(Text *t, const char *title, const char *block, const char *classes,
                          const char *state) {
  text_addf(t,
            "\n### %s\n\n| key | type | default | values | class | |\n|---|---|---|---|---|---|\n",
            title);
  for (int i = 0; i < ROWS; i++)
    if (!strcmp(rows[i].block, block) && strchr(classes, rows[i].class[0]) &&
        !strcmp(rows[i].state, state))
      setting_row(t, &rows[i]);
}

static void refused_table(Text *t) {
  text_add(t, "\n### `train`: refused\n\n| key | why |\n|---|---|\n");
  for (int i = 0; i < ROWS; i++) {
    if (rows[i].class[0] != 'X') continue;
    text_addf(t, "| `%s` | ", rows[i].name);
    cell(t, rows[i].doc);
    text_add(t, " |\n");
  }
}

static void settings(Text *t) {
  setting_table(t, "`train`: carried out", "train", "CR", "yes");
  setting_table(t, "`train`: later", "train", "CR", "later");
  setting_table(t, "`train`: accepted, changes nothing", "train", "A", "yes");
  refused_table(t);
  setting_table(t, "`runtime`: carried out", "runtime", "CR", "yes");
  setting_table(t, "`runtime`: later", "runtime", "CR", "later");
}

/* ---------- errors ---------- */

static const char *range_title(int hundred) {
  static const char *const titles[] = {"",
                                       "Lexical",
                                       "Syntax",
                                       "Names",
                                       "Sizes and shapes",
                                       "Types and values",
                                       "Modules and state",
                                       "Settings",
                                       "Data",
                                       "Objective, plan and custom operators"};
  return hundred >= 1 && hundred <= 9 ? titles[hundred] : "Other";
}

static void errors(Text *t) {
  int before = -1;
  for (int i = 0; i < DIAG_COUNT; i++) {
    DiagCode code = (DiagCode)i;
    const char *name = diag_name(code);
    int hundred = name[2] - '0';
    if (hundred != before) text_addf(t, "\n### E0%dxx %s\n", hundred, range_title(hundred));
    before = hundred;
    text_addf(t, "\n**%s %s.** %s\n", name, diag_title(code), diag_explanation(code));
  }
}

int main(int argc, char **argv) {
  Text table = {0};
  if (argc > 1 && !strcmp(argv[1], "settings"))
    settings(&table);
  else if (argc > 1 && !strcmp(argv[1], "errors"))
    errors(&table);
  else
    return 2;
  if (argc < 3) {
    fputs(table.at, stdout);
    return 0;
  }
  uint32_t file = source_read(argv[2]);
  if (!file) {
    perror(argv[2]);
    return 2;
  }
  const Source *page = source_get(file);
  if (page->length >= table.len && !strcmp(page->text + page->length - table.len, table.at))
    return 0;
  printf("%s does not end with the table as it is now; run tools/pages\n", argv[2]);
  return 1;
}
