/* The command line of ddpc. */
#ifndef DRIVER_OPTIONS_H
#define DRIVER_OPTIONS_H
#include "sema.h"
#include <stdio.h>

typedef enum CommandNumber {
#define COMMAND(name, ...) COMMAND_NUMBER_##name,
#include "commands.def"
} CommandNumber;
enum { /* as bits, for the table of options */
#define COMMAND(name, ...) COMMAND_##name = 1 << COMMAND_NUMBER_##name,
#include "commands.def"
       COMMAND_every = -1
};

typedef enum OptionKind {
#define OPTION(name, ...) OPT_##name,
#include "options.def"
  OPT_COUNT
} OptionKind;

typedef struct Options {
  int command;
  const char *value[OPT_COUNT]; /* "" for a switch that is set; NULL: not given */
  VEC(SemaDefine) defines;
  VEC(const char *) names; /* what is no option: the job, the codes to explain */
} Options;

/* False after a message on stderr. */
bool options_parse(Options *out, Arena *a, int argc, char **argv);
void options_help(FILE *out, int command);
/* The command that a mistyped word may mean, or NULL. */
const char *options_nearest_command(const char *word);
#endif
