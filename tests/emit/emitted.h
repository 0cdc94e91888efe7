/* Graphs through plan and emitter into one C file, compiled by a host compiler and loaded, so that what
   is emitted can be run and compared with the reference interpreter. */
#ifndef TESTS_EMITTED_H
#define TESTS_EMITTED_H
#include "emit.h"
#include "ops.h"
#include "plan.h"
#include <stdio.h>

typedef struct Emitted Emitted;
Emitted *emitted_new(Arena *a, const Target *target);
/* Plans and emits g, whose outputs (OUT_value) become OUT_buffer; returns its number. chunk: as of
   ProgramOptions. */
int emitted_add(Emitted *e, Graph *g, int64_t batch_max, int64_t chunk);
/* From now on: as where an arena has 2^33 elements, so that kernels of GPUs count in 64 bits. */
void emitted_wide(Emitted *e, bool wide);
const Program *emitted_program(const Emitted *e, int number);
/* Compiles everything with `cc FLAGS`, warnings being errors, and loads it; dies otherwise. */
void emitted_build(Emitted *e, const char *cc, const char *flags);
/* `compiler ... -c` takes the text; dies otherwise. */
void emitted_compiles(Emitted *e, const char *compiler);
const char *emitted_text(const Emitted *e); /* after emitted_build */
/* Runs graph `number`; sources are asked for what they hold as by the interpreter (draws are not).
   out[i]: the values of output i. */
void emitted_run(Emitted *e, int number, int64_t batch,
                 void (*source)(void *self, const Graph *g, Val v, double *out), void *self,
                 double **out);
/* For a machine without ddpc (tests/gpu/replay.c): the text as a file, and a graph with what it reads and what must come out. */
typedef struct EmittedWant {
  const char *name;
  const double *value, *tolerance; /* of each element of the one output */
} EmittedWant;
void emitted_write(Emitted *e, const char *path);
void emitted_record(Emitted *e, int number, int64_t batch,
                    void (*source)(void *self, const Graph *g, Val v, double *out), void *self,
                    const EmittedWant *want, FILE *to);
/* What the draw v gives in emitted_run, for the interpreter. */
void emitted_draw(const Graph *g, Val v, int64_t batch, double *out);
#endif
