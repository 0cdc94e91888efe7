/* Inside emit/: one function that is being written (program.c), and loops in it (loop.c). */
#ifndef EMIT_SCENE_H
#define EMIT_SCENE_H
#include "program.h"

typedef struct SceneDraw { /* random numbers of one site */
  int64_t site;
  bool data; /* drawn for the sample and the epoch */
  const char *name;
  const char *from; /* in a loop: what it has outside of it */
} SceneDraw;

typedef struct Declaration {
  const char *code;
  Type shape;
  const char *over; /* what lay there before, for people; or NULL */
} Declaration;
typedef VEC(Declaration) Declarations;

/* The functions that the nests of a program became, and those of its loops. */
typedef struct Made {
  KernelCalls calls; /* none: inlined, or no nest */
  struct Made *turn; /* of a loop: by kernel of its body */
} Made;

typedef struct Scene { /* a function, or the turn of a loop in one */
  Emit *e;
  const Program *p;
  Role role;
  Names *names;        /* of the whole function */
  const char **memory; /* by Val: its name here, once used */
  Map named;           /* memory that several values may be: a value that has its name */
  VEC(Val) order;      /* values with a name, in order of first use */
  VEC(SceneDraw) draws;
  bool batch, accumulate, host;
  bool inlined; /* a kernel's body stands here, not its call */
  bool chunk; /* the function of Program.chunk: the step is that of some samples, from `first` on */
  /* in a loop */
  struct Scene *outer;
  const Kernel *loop;
  const char *turn;   /* the number of the turn */
  int64_t base;       /* where the block of this program begins in that of the function */
  Declarations block; /* of the function: blocks of loops */
} Scene;

static inline bool scene_on_step(const Scene *s) {
  return s->role <= ROLE_counts;
}
Made *scene_make(Emit *e, const Program *p, bool inlines);
/* The text of an operand; `self` is a Scene. */
const char *scene_operand(void *self, OperandKind kind, Val val);
/* The memory of a value of s, whatever it shares it with. */
const char *scene_memory(Scene *s, Val v);
void scene_kernels(Scene *s, const Made *made, Text *out, const char *indent);
/* Copies n numbers of this type. */
void scene_copy(Scene *s, const char *to, const char *from, const char *type, const char *n,
                Text *out, const char *indent);
/* Adds the declaration of a value in the activation block. */
void scene_declare_block(Scene *s, const char *name, Type type, int64_t offset, Declarations *out);

/* ---------- loop.c ---------- */
void loop_write(Scene *s, const Kernel *k, const Made *turn, Text *out, const char *indent);
/* The name of memory that only a turn has. */
const char *loop_memory(Scene *s, Val v);
#endif
