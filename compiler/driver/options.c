/* The command line of ddpc, from the table options.def. */
#include "options.h"
#include "pipeline.h"

typedef struct OptionRow {
  const char *name; /* as written: from-ir */
  char letter;
  const char *argument;
  int commands;
  const char *doc;
} OptionRow;

static const OptionRow rows[] = {
#define OPTION(name, letter, argument, commands, doc) {#name, letter, argument, commands, doc},
#include "options.def"
};

static const struct {
  const char *name;
  int command;
  const char *arguments, *doc, *manual;
} commands[] = {
#define COMMAND(name, arguments, doc, manual) {#name, COMMAND_##name, arguments, doc, manual},
#include "commands.def"
};
enum { COMMANDS = sizeof commands / sizeof *commands };

/* from_ir in the table is --from-ir on the command line; both are read. */
static bool same_name(const char *row, const char *given, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!row[i] || (row[i] != given[i] && !(row[i] == '_' && given[i] == '-'))) return false;
  return !row[n];
}

static void print_row(FILE *out, const OptionRow *r) {
  char left[64], name[32];
  snprintf(name, sizeof name, "%s", r->name);
  for (char *c = name; *c; c++)
    if (*c == '_') *c = '-';
  char letter[8] = "    ";
  if (r->letter) snprintf(letter, sizeof letter, "-%c, ", r->letter);
  snprintf(left, sizeof left, "%s--%s%s%s", letter, name, r->argument ? "=" : "",
           r->argument ? r->argument : "");
  fprintf(out, "  %-26s %s\n", left, r->doc);
}

static void print_usage(FILE *out, int command) {
  for (int i = 0; i < COMMANDS; i++) {
    if (commands[i].command != command && command != COMMAND_compile) continue;
    char usage[80];
    snprintf(usage, sizeof usage, "ddpc %s%s", commands[i].arguments,
             commands[i].command == command ? " [OPTIONS]" : "");
    fprintf(out, "  %-32s %s\n", usage, commands[i].doc);
  }
  for (int i = 0; i < COMMANDS; i++)
    if (commands[i].command == command && *commands[i].manual)
      fprintf(out, "\n%s", commands[i].manual);
}

void options_help(FILE *out, int command) {
  bool all = command == COMMAND_compile;
  if (all) fprintf(out, "Compiles training jobs to native programs.\n\n");
  fprintf(out, "Usage:\n");
  print_usage(out, command);
  fprintf(out, "\nOptions%s:\n",
          all ? " (`ddpc plan --help` and so on list those of a command)" : "");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].commands & command) print_row(out, &rows[i]);
  if (!all) return;
  Text stages = {0};
  pipeline_stages(&stages);
  fprintf(out, "\nStages for --dump: %s\n", stages.at);
  fprintf(
      out,
      "Environment: DDPC_CC is the C compiler (default: cc), DDPC_NVCC that of CUDA; NO_COLOR "
      "means no colours\n"
      "Exit status: 0 done, 1 the job has mistakes, 2 wrong options or the C compiler failed\n");
  text_free(&stages);
}

const char *options_nearest_command(const char *word) {
  TextNearest nearest = {.wanted = word};
  for (int i = 0; i < COMMANDS; i++)
    if (commands[i].command != COMMAND_compile) text_offer(&nearest, commands[i].name);
  return nearest.best;
}

static bool misuse(const char *format, const char *what, const char *help) {
  fprintf(stderr, "ddpc: ");
  fprintf(stderr, format, what);
  if (help) fprintf(stderr, "\nhelp: did you mean `--%s`?", help);
  fprintf(stderr, "\nhelp: `ddpc --help` lists commands and options\n");
  return false;
}

static const OptionRow *find_long(const char *given, size_t n) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (same_name(rows[i].name, given, n)) return &rows[i];
  return NULL;
}

static bool unknown(Arena *a, const char *given, size_t n, int command) {
  char *wanted = arena_strndup(a, given, n);
  TextNearest nearest = {.wanted = wanted};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].commands & command) text_offer(&nearest, rows[i].name);
  return misuse("there is no option `--%s`", wanted, nearest.best);
}

static bool take_define(Options *o, Arena *a, const char *text) {
  const char *equals = strchr(text, '=');
  if (!equals || equals == text) return misuse("`-D %s` is not NAME=VALUE", text, NULL);
  SemaDefine d = {arena_strndup(a, text, (size_t)(equals - text)), equals + 1};
  vec_push(a, &o->defines, d);
  return true;
}

static bool take(Options *o, Arena *a, const OptionRow *r, const char *value) {
  if (!(r->commands & o->command)) return misuse("`--%s` has no meaning here", r->name, NULL);
  int kind = (int)(r - rows);
  if (kind == OPT_define) return take_define(o, a, value);
  if (o->value[kind]) return misuse("`--%s` is given twice", r->name, NULL);
  o->value[kind] = value ? value : "";
  return true;
}

/* Consumes argv[*i] and the value behind it. */
static bool take_argument(Options *o, Arena *a, int argc, char **argv, int *i) {
  const char *s = argv[*i];
  const OptionRow *r = NULL;
  const char *value = NULL;
  if (s[1] == '-') {
    const char *equals = strchr(s, '=');
    size_t n = equals ? (size_t)(equals - s - 2) : strlen(s + 2);
    r = find_long(s + 2, n);
    if (!r) return unknown(a, s + 2, n, o->command);
    value = equals ? equals + 1 : NULL;
  } else {
    for (size_t k = 0; k < sizeof rows / sizeof *rows && !r; k++)
      if (rows[k].letter == s[1]) r = &rows[k];
    if (!r) return misuse("there is no option `%s`", s, NULL);
    if (s[2]) value = s + 2;
  }
  if (value && !r->argument) return misuse("`--%s` takes no value", r->name, NULL);
  if (!value && r->argument) {
    if (*i + 1 >= argc) return misuse("`--%s` needs a value", r->name, NULL);
    value = argv[++*i];
  }
  return take(o, a, r, value);
}

bool options_parse(Options *o, Arena *a, int argc, char **argv) {
  *o = (Options){.command = COMMAND_compile};
  int i = 1;
  for (int k = 0; argc > 1 && k < COMMANDS; k++)
    if (commands[k].command != COMMAND_compile &&
        same_name(commands[k].name, argv[1], strlen(argv[1]))) {
      o->command = commands[k].command;
      i = 2;
    }
  bool names_only = false;
  for (; i < argc; i++) {
    if (!names_only && !strcmp(argv[i], "--"))
      names_only = true;
    else if (names_only || argv[i][0] != '-' || !argv[i][1])
      vec_push(a, &o->names, argv[i]);
    else if (!take_argument(o, a, argc, argv, &i))
      return false;
  }
  return true;
}
