/* `ddpc explain E0405` and `ddpc explain warmup_steps`, from diag.def and settings.def. */
#include "command.h"
#include "diag.h"
#include "keys.h"
#include <ctype.h>

static const char *when(const KeyRow *r) {
  switch (r->class) {
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

/* The first word of a list that is supported and not the default. */
static const char *some_word(Arena *a, const KeyRow *r) {
  for (const char *c = r->values; *c && *c != '*'; c += strcspn(c, "|"), c += *c == '|') {
    size_t n = strcspn(c, "|");
    if (*c != '~' && !(strlen(r->initial) == n && !strncmp(c, r->initial, n)))
      return arena_strndup(a, c, n);
  }
  return *r->values == '*' ? r->initial : "none";
}

/* A line that could stand in a job. */
static const char *example(Arena *a, const KeyRow *r) {
  bool unset = !strcmp(r->initial, "none") || !*r->initial;
  switch (r->type) {
  case KEY_bool:
    return !strcmp(r->initial, "true") ? "false" : "true";
  case KEY_int:
    return unset || r->initial[0] == '-' ? "100" : r->initial;
  case KEY_float:
    return unset ? "0.1" : r->initial;
  case KEY_text:
    return "\"...\"";
  case KEY_word:
    return some_word(a, r);
  case KEY_list:
    return "[...]";
  case KEY_map:
    return "{ name = 1 }";
  }
  return "";
}

static void print_setting(Arena *a, const KeyRow *r) {
  printf("%s.%s: %s%s, default %s\n", r->block, r->name, r->type_name,
         r->nullable ? " or none" : "", *r->initial ? r->initial : "empty");
  printf("  %s\n", r->doc);
  if (*r->values == '*')
    printf("  values: a word of the library, or the name of %s in the job\n",
           strcmp(r->values, "*optimizer") ? "a function" : "an `optimizer`");
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
  if (r->later) printf("  not supported yet, except with its default value\n");
  if (r->class == 'X' || r->later) return;
  const char *value = example(a, r);
  printf("  example: %s { %s = %s }", r->block, r->name, value);
  if (r->class == 'R' && !strchr(value, '.') && !strchr(value, '{'))
    printf("   or   ./train --%s %s", r->name, value);
  if (r->class == 'C') printf("   or   ddpc -D %s.%s=%s", r->block, r->name, value);
  printf("\n");
}

static bool explain(Arena *a, const char *what) {
  char code_text[16] = "";
  for (size_t i = 0; what[i] && i + 1 < sizeof code_text; i++)
    code_text[i] = (char)toupper((unsigned char)what[i]);
  DiagCode code;
  if (diag_find(code_text, &code)) {
    printf("%s: %s\n\n%s\n", diag_name(code), diag_title(code), diag_explanation(code));
    return true;
  }
  const KeyRow *r = key_find(what);
  const OldKey *old = r ? NULL : key_find_old(what);
  if (old && old->how == OLD_drop) {
    printf("%s: no key of 5.24 any more; %s\n", what, old->text);
    return true;
  }
  if (old) {
    printf("%s: now called %s%s%s\n", what, old->now, *old->text ? " = " : "", old->text);
    r = key_find(old->now);
  }
  if (r) {
    print_setting(a, r);
    return true;
  }
  fprintf(stderr, "ddpc: `%s` is no code of a diagnostic and no setting\n", what);
  const char *nearest = key_nearest(what);
  if (nearest) fprintf(stderr, "help: did you mean `%s`?\n", nearest);
  return false;
}

int cmd_explain(Run *r) {
  bool good = r->options.names.len > 0;
  if (!good) options_help(stderr, COMMAND_explain);
  for (uint32_t i = 0; i < r->options.names.len; i++) {
    if (i) printf("\n");
    if (!explain(r->arena, r->options.names.at[i])) good = false;
  }
  return good ? DONE : WRONG_USE;
}
