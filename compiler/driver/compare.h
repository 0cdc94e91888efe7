/* Two jobs compared by what they mean. Each comparison adds a section with lines "what: a -> b". */
#ifndef DRIVER_COMPARE_H
#define DRIVER_COMPARE_H
#include "command.h"

typedef struct Difference {
  const char *what;  /* "learning_rate", "fc1.weight" */
  const char *a, *b; /* NULL: not there */
  const char *note;  /* "" or what follows: "same binary: --learning_rate 0.2" */
} Difference;
typedef struct Section {
  const char *name; /* "settings" */
  VEC(Difference) list;
} Section;
typedef struct Side { /* a job, and texts of its graphs before any pass changed them */
  const Job *job;
  const Plan *plan;
  const char *train, *eval, *schedule; /* graphs without places */
  VEC(const char *) updates;           /* of each optimizer */
} Side;

/* Texts of the graphs; before the passes run. */
void compare_note_graphs(Arena *a, Side *side, const Job *job);

void compare_settings(Arena *a, const Side *x, const Side *y, Section *out);
void compare_leaves(Arena *a, const Side *x, const Side *y, Section *out);
void compare_groups(Arena *a, const Side *x, const Side *y, Section *out);
void compare_data(Arena *a, const Side *x, const Side *y, Section *out);
void compare_objective(Arena *a, const Side *x, const Side *y, Section *out);
void compare_memory(Arena *a, const Side *x, const Side *y, Section *out);
/* What keeps a checkpoint of x out of y; empty: it loads. */
void compare_checkpoint(Arena *a, const Side *x, const Side *y, Section *out);
/* All settings that differ may change at run time: x's program can run y. */
bool compare_same_binary(const Side *x, const Side *y);
#endif
