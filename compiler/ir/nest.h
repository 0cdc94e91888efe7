/* Loop nests: what a fused kernel computes, in a form that knows no target. Made by plan/ from graph
   values: a nest *pulls* its roots, and ops lower themselves by pulling their inputs at transformed
   indices (`op_def->lower`), until a value that lies in memory is loaded. So views (permute, slice,
   expand, pad ...) cost index arithmetic and no pass over memory.

   A kernel is: outer loops (shared), then stages one after another, each with inner loops of its
   own.

     for rows { stage 0: m = max over columns;  stage 1: s = sum exp(x - m);  stage 2: y = ... }

   Scalars are never 16-bit floats: loads give f32, stores round. The one exception is the
   INST_cast to such a type that nest_round makes: a float, rounded.

   A value that a stage leaves per outer index is kept in a scalar (row value) for later stages.

   A root reduces over every loop around it (outer loops and those of its stage) that does not occur
   in its ix; call these R.

   - R empty: stored in the innermost body.
   - max, argmax: R is the last loops of the stage, exactly. argmax: the position among the reduced
     loops, row-major; the first of equals.
   - sum: R holds all outer loops or none. The last loops of the stage that are in R are summed in a
     scalar; if that is all of R, the scalar is the result. Otherwise a kept loop lies inside a
     reduced one (column sums: for rows { for columns { out[j] += t } }): memory at ix accumulates,
     cleared before the outermost reduced loop. With no kept loop at all the accumulator is one
     scalar.

   Loops that all roots of a stage reduce over are flagged `reduce`. Loops of extent 1 are left out,
   their index is the constant 0. A stage may have no loops (something per outer index).

   INST_row names a root of an earlier stage that was left per outer index (its ix is over the outer
   loops only), also if it was stored as well. The instructions of a stage belong to that stage
   alone; nothing but row values and memory crosses. Within a stage all instructions come before the
   stores of the same iteration: a value may be updated in place (buffers, optimizer state). */
#ifndef IR_NEST_H
#define IR_NEST_H
#include "ir.h"

typedef struct Nest Nest;
typedef struct NestMemo NestMemo;
typedef uint32_t NestIndex; /* integer index expression; see nest_ix_* */
typedef uint32_t NestTemp;  /* a scalar; 0 = none */

typedef enum IxKind { IX_const, IX_loop, IX_add, IX_mul, IX_div, IX_mod, IX_temp } IxKind;
typedef struct Ix {
  IxKind kind;
  Dim value;             /* const; mul, div, mod: right-hand side; temp: the index is below it */
  uint32_t loop;         /* loop: number in Nest.loops */
  NestIndex left, right; /* add: both; mul, div, mod: left */
  NestTemp temp;         /* index computed from data (gather, rows) */
} Ix;

typedef enum InstKind {
  INST_const,  /* k */
  INST_load,   /* value `val` (a buffer) at flat element `ix` */
  INST_op,     /* elementwise op on in[] */
  INST_cast,   /* in[0] to dtype */
  INST_index,  /* the index expression ix as a number */
  INST_random, /* draw: op = OP_bernoulli / OP_uniform / OP_normal / OP_randint of `val`;
                   in[0] unused; ix = element within the sample, ix2 = sample in the micro-batch
                   (no batch dimension: constant 0) */
  INST_select, /* in[0] ? in[1] : in[2], both evaluated (pad, concat) */
  INST_host,   /* run-time scalar of the step: host, count, share, dimval */
  INST_row,    /* result of an earlier stage of this kernel, kept per outer index */
} InstKind;
typedef struct Inst {
  InstKind kind;
  DType dtype;
  OpKind op;
  NestTemp in[3];
  double k;
  Val val;
  NestIndex ix, ix2;
  NestTemp guard; /* load only: loads where this temp is true, else 0 (pad, concat); 0 = always */
} Inst;

typedef struct NestLoop {
  Dim extent;
  bool reduce;
} NestLoop;

typedef enum RootKind { ROOT_store, ROOT_sum, ROOT_max, ROOT_argmax } RootKind;
typedef struct NestRoot {
  RootKind kind;
  Val val;       /* the value that lies in memory afterwards (or is kept as row value) */
  NestTemp temp; /* what is stored / reduced */
  NestIndex ix;  /* flat element of val that is written; loops not in it are reduced over */
  bool row_only; /* kept in a scalar, not stored */
} NestRoot;

typedef struct Stage {
  uint32_t first_loop, loops; /* inner loops, outermost first */
  uint32_t first_inst, insts;
  uint32_t first_root, roots;
} Stage;

struct Nest {
  const Graph *g;
  Arena *arena;
  VEC(NestLoop) loops; /* outer loops first */
  uint32_t outer;      /* how many of them are outer */
  VEC(Ix) ix;          /* [0] unused */
  VEC(Inst) insts;     /* [0] unused; NestTemp indexes it */
  VEC(NestRoot) roots;
  VEC(Stage) stages;
  /* Is this value in memory (materialised) at this point? Set by the fuser. */
  bool (*in_memory)(const Nest *n, Val v);
  /* Row value of an earlier stage at this index: temp or 0. May be NULL. */
  NestTemp (*row_value)(Nest *n, Val v, const NestIndex *index);
  void *self;
  NestMemo *memo; /* of nest.c: what was made before, to share it */
};

/* Building: loops made before the first stage are the outer ones; loops made inside a stage are its
   own. */
Nest *nest_new(Arena *a, const Graph *g);
uint32_t nest_loop(Nest *n, Dim extent, bool reduce);
void nest_stage_begin(Nest *n);
void nest_stage_end(Nest *n);
void nest_root(Nest *n, RootKind kind, Val v, NestTemp temp, NestIndex ix, bool row_only);
/* INST_row: the scalar that an earlier stage kept for v. */
NestTemp nest_row(Nest *n, Val v);
/* INST_load of one element of v (a value in memory). */
NestTemp nest_load(Nest *n, Val v, NestIndex flat);
bool nest_ix_uses_loop(const Nest *n, NestIndex ix, uint32_t loop);
bool nest_ix_reads_data(const Nest *n, NestIndex ix); /* has it a part that is a value? */
bool nest_ix_is_const(const Nest *n, NestIndex ix, int64_t *out);
/* Bounds that hold for every batch >= 1; false where they are not known. */
bool nest_ix_range(const Nest *n, NestIndex ix, Dim *low, Dim *high);
void nest_ix_print(Text *out, const Nest *n, NestIndex ix); /* "i0*64 + i1" */
/* Guard of the pull in progress (0: none); setting returns the one before. */
NestTemp nest_guard(const Nest *n);
NestTemp nest_set_guard(Nest *n, NestTemp guard);
/* Memory of nest_pull within a stage; 0 = not pulled yet. */
NestTemp nest_pulled(const Nest *n, Val v, const NestIndex *index);
void nest_keep_pulled(Nest *n, Val v, const NestIndex *index, NestTemp temp);

/* The scalar of value v at index[0..rank): loads, or asks the op to lower itself (so this one
   function lives in ops/pull.c). Same (v, index) pulled twice gives the same temp. */
NestTemp nest_pull(Nest *n, Val v, const NestIndex *index);

NestIndex nest_ix_const(Nest *n, Dim d);
NestIndex nest_ix_loop(Nest *n, uint32_t loop);
NestIndex nest_ix_add(Nest *n, NestIndex a, NestIndex b); /* these simplify and share */
NestIndex nest_ix_mul(Nest *n, NestIndex a, Dim k);
NestIndex nest_ix_div(Nest *n, NestIndex a, Dim k); /* a >= 0, rounds down */
NestIndex nest_ix_mod(Nest *n, NestIndex a, Dim k);
NestIndex nest_ix_temp(Nest *n, NestTemp t, Dim below); /* an index in [0, below) by contract */
NestIndex nest_ix_flat(Nest *n, Type t, const NestIndex *index); /* row-major element number */
void nest_ix_unflat(Nest *n, Type t, NestIndex flat, NestIndex *index); /* inverse, for reshape */

NestTemp nest_const(Nest *n, double k, DType t);
NestTemp nest_op(Nest *n, OpKind op, DType t, NestTemp a, NestTemp b, NestTemp c);
NestTemp nest_cast(Nest *n, NestTemp a, DType t); /* no-op when it has that dtype */
/* The same; to a 16-bit float it rounds to what memory of that type would hold. */
NestTemp nest_round(Nest *n, NestTemp a, DType t);
NestTemp nest_index(Nest *n, NestIndex ix); /* i64 */
NestTemp nest_select(Nest *n, NestTemp c, NestTemp yes, NestTemp no);
NestTemp nest_host(Nest *n, Val v);
NestTemp nest_random(Nest *n, Val v, NestIndex sample, NestIndex element);
/* Pulls v with every load guarded by `guard` (inside pad and concat). */
NestTemp nest_pull_guarded(Nest *n, Val v, const NestIndex *index, NestTemp guard);
void nest_print(Text *out, const Nest *n); /* --dump=nests */
#endif
