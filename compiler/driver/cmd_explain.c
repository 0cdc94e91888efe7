/* `ddpc explain E0405` and `ddpc explain warmup_steps`, from diag.def and settings.def. */
#include "diag.h"
#include "command.h"
#include <ctype.h>
#include <string.h>
#include <strings.h>

typedef struct Row {
  const char *block, *name, *type;
  bool nullable;
  const char *initial, *values, *when, *state, *doc;
} Row;
static const Row rows[] = {
#define SETTING(block, name, type, nullable, default_, values, class_, state, doc)                 \
  {#block, #name, #type, nullable, default_, values, #class_, #state, doc},
#include "settings.def"
};

static const char *when(const Row *r) {
  switch (*r->when) {
  case 'C':
    return "fixed when the job is compiled; -D changes it";
  case 'R':
    return "may be changed when the program starts, as a flag";
  case 'A':
    return "accepted; it has one meaning here";
  default:
    return "refused";
  }
}

static void print_setting(const Row *r) {
  printf("%s.%s: %s%s, default %s\n", r->block, r->name, r->type, r->nullable ? " or none" : "",
         *r->initial ? r->initial : "empty");
  printf("  %s\n", r->doc);
  if (*r->values && *r->values != '*') {
    printf("  values: ");
    for (const char *c = r->values; *c; c++) {
      if (*c == '~')
        printf("(not supported yet) ");
      else
        printf(*c == '|' ? ", " : "%c", *c);
    }
    printf("\n");
  }
  printf("  %s\n", when(r));
  if (!strcmp(r->state, "later")) printf("  not supported yet, except with its default value\n");
}

static bool explain_setting(const char *what) {
  const char *name = what;
  if (!strncmp(what, "train.", 6)) name = what + 6;
  if (!strncmp(what, "runtime.", 8)) name = what + 8;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (!strcmp(rows[i].name, name)) {
      print_setting(&rows[i]);
      return true;
    }
  return false;
}

static bool explain(const char *what) {
  char code_text[16] = "";
  for (size_t i = 0; what[i] && i + 1 < sizeof code_text; i++)
    code_text[i] = (char)toupper((unsigned char)what[i]);
  DiagCode code;
  if (diag_find(code_text, &code)) {
    printf("%s: %s\n\n%s\n", diag_name(code), diag_title(code), diag_explanation(code));
    return true;
  }
  if (explain_setting(what)) return true;
  TextNearest nearest = {.wanted = what};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) text_offer(&nearest, rows[i].name);
  fprintf(stderr, "ddpc: `%s` is no code of a diagnostic and no setting\n", what);
  if (nearest.best) fprintf(stderr, "help: did you mean `%s`?\n", nearest.best);
  return false;
}

int cmd_explain(Run *r) {
  bool good = r->options.names.len > 0;
  if (!good) options_help(stderr, COMMAND_explain);
  for (uint32_t i = 0; i < r->options.names.len; i++) {
    if (i) printf("\n");
    if (!explain(r->options.names.at[i])) good = false;
  }
  return good ? DONE : WRONG_USE;
}
