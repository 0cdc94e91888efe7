/* ddpc: the command line, and the command that it names. Exit status: 0 done, 1 the job has errors, 2 the
   command line has, or something else failed. */
#include "command.h"

/* "cpu" or "cpu:MARCH". */
static bool choose_target(Run *r) {
  const char *t = r->options.value[OPT_target];
  r->march = "native";
  if (!t || !strcmp(t, "cpu")) return true;
  if (!strncmp(t, "cpu:", 4) && t[4]) {
    for (const char *c = r->march = t + 4; *c; c++)
      if (*c <= ' ' || *c == '"' || *c == '\\') goto unknown;
    return true;
  }
  if (!strncmp(t, "cuda", 4) && (!t[4] || t[4] == ':')) {
    fprintf(stderr,
            "ddpc: --target %s is not supported yet\n"
            "help: leave it out, or choose a processor with --target cpu:MARCH\n",
            t);
    return false;
  }
unknown:
  fprintf(stderr,
          "ddpc: unknown target `%s`\nhelp: cpu, or cpu:MARCH with a -march of the C compiler\n",
          t);
  return false;
}

static int dispatch(Run *r) {
  static const struct {
    int command;
    int (*run)(Run *r);
  } commands[] = {
#define COMMAND(name, ...) {COMMAND_##name, cmd_##name},
#include "commands.def"
  };
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    if (commands[i].command == r->options.command) return commands[i].run(r);
  return WRONG_USE;
}

int main(int argc, char **argv) {
  Run r = {.arena = arena_new()};
  run_say_time(&r, NULL);
  if (!options_parse(&r.options, r.arena, argc, argv)) return WRONG_USE;
  if (r.options.value[OPT_help]) {
    options_help(stdout, r.options.command);
    return DONE;
  }
  if (r.options.value[OPT_version]) {
    printf("ddpc %s\n", DDPC_VERSION);
    return DONE;
  }
  if (!choose_target(&r)) return WRONG_USE;
  int code = dispatch(&r);
  arena_free(r.arena);
  return code;
}
