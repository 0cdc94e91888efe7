/* ddpc: the command line, and the command that it names. Exit status: 0 done, 1 the job has errors, 2 the
   command line has, or something else failed. */
#include "command.h"

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
  Run r = {.arena = arena_new(), .march = "native"};
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
  int code = dispatch(&r);
  arena_free(r.arena);
  return code;
}
