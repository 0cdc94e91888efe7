/* Inside compiler/plan: how a program is made from a graph, step by step. */
#ifndef PLAN_FUSE_H
#define PLAN_FUSE_H
#include "plan.h"

/* A kernel in the making: one library call, or roots that share a nest. */
typedef struct Item {
  bool is_call;
  VEC(Val) roots; /* call: its value, then its by-products; nest: in topological order */
  VEC(Val) loads; /* values in memory that the roots are computed from, each once */
  int outer;      /* nest: leading dimensions that are outer loops */
  Nest *nest;
} Item;

typedef VEC(int32_t) ItemList;

typedef struct Fuser {
  Arena *arena;
  Graph *g;
  bool fuse; /* false: a kernel for every value, for comparison in tests */
  int64_t batch_max, least_rows;
  bool *memory; /* [values] lies in memory: a source, a call's result, or a root of some kernel */
  bool *keep;   /* [values] has to stay there: output, operand or result of a call */
  Val *base;    /* [values] whose memory it has: itself, or what it is a reshape of; 0 = none */
  Output **output;  /* [values] the output that it is, or NULL */
  int32_t *item_of; /* [values] the kernel that computes it; -1 */
  VEC(Item) items;  /* in an order that respects dependences */
  VEC(Epilogue) epilogues;
  uint32_t
      *apart;   /* [values] a result of this epilogue, counted from 1: in a nest with those alone */
  bool *pulled; /* [values] not stored, whatever it costs */
  ItemList *readers; /* [values] nests that load it, in the order in which they came to do so */
  ItemList singles;  /* nests of single numbers */
  uint32_t *seen;    /* [values] number of the walk that was there last */
  uint32_t walk;
} Fuser;

/* Copies what outputs reach; every output becomes a value of its own; transposes go into products;
   masks of relu read the activation. force: values that have to lie in memory. */
typedef struct Prepared {
  Graph *g;
  VEC(Val) force;
} Prepared;
Prepared plan_prepare(Arena *a, const Graph *g, bool fuse);

typedef struct ProgramOptions {
  int64_t batch_max;
  bool no_fuse;
  bool in_order;      /* keep the order of the graph instead of pulling gradients forward */
  bool epilogues;     /* of products, on this target */
  int64_t chunk;      /* samples whose loss is computed at a time; 0: all; or CHUNK_by_size */
  int64_t least_rows; /* a kernel with as many rows keeps that many when others join it */
} ProgramOptions;
enum { CHUNK_by_size = -1 };

/* Which values lie in memory. */
void fuse_decide(Fuser *f, const Prepared *p, const ProgramOptions *options);
/* Groups roots into kernels, builds their nests, drops roots that nobody outside reads. */
void fuse_group(Fuser *f);

/* epilogue.c: what products can do with their results; and whether a nest does that and no more. `others`: other
   kernels read the product. In *e what is left of it then. */
void epilogue_find(Fuser *f);
bool epilogue_check(const Fuser *f, Epilogue *e, const Kernel *apart, bool others);

/* The loops that a root runs over: dimensions of its shape (a reduction: of its input) without
   those of size 1; max and argmax: reduced ones last. */
typedef struct Domain {
  int n;
  int axis[IR_MAX_RANK]; /* dimension of the shape */
  Dim extent[IR_MAX_RANK];
  bool reduced[IR_MAX_RANK];
} Domain;
Domain fuse_domain(const Graph *g, Val root);
int fuse_outer_default(const Graph *g, Val root);
/* The nest of these roots (topological order) with `outer` outer loops; NULL when they do not fit
   in one kernel in that way. */
Nest *fuse_build(Fuser *f, const Val *roots, uint32_t n, int outer);

/* A source that lies in memory from the start (a field, a parameter, a buffer). */
bool fuse_is_resident(const Graph *g, Val v);
/* Is this source overwritten by that output? (a buffer; in an optimizer's graph p and its states)
 */
bool fuse_overwrites(const Graph *g, const Output *o, Val source);
/* Values in memory that v is computed from, each once, appended to out. */
typedef VEC(Val) ValList;
void fuse_loads(Fuser *f, Val v, ValList *out);
/* The flat number of the outer iteration. */
NestIndex fuse_outer_index(Nest *n);
bool fuse_nest_reads(const Nest *n, Val v, InstKind kind);
bool val_list_has(const Val *list, uint32_t n, Val v);

/* ---------- the whole ---------- */
/* Prepares, fuses, schedules and lays out one graph. */
void plan_program(Program *p, Arena *a, const Graph *g, const ProgramOptions *options);
void plan_schedule(Program *p, Fuser *f, const ProgramOptions *options);
/* By kernel: those that must come after it. */
typedef struct PlanWaits {
  uint32_t *at, len, cap;
} PlanWaits;
PlanWaits *plan_waits(const Program *p, Arena *a);
/* Lifetimes, results in place of operands, offsets; also again, after kernels have moved. */
void plan_lay_out(Program *p, Arena *a);
/* chunk.c: the loss in chunks of so many samples. Pure: of `wanted` (as ProgramOptions.chunk) for products
   with so many rows a sample; 0: no chunks. */
void plan_chunk(Program *p, Arena *a, int64_t wanted);
int64_t plan_chunk_wanted(const Job *job); /* what `loss_chunk` says */
int64_t plan_chunk_samples(int64_t batch, int64_t rows, int64_t wanted);
/* chunkable.c */
bool plan_chunkable(const Program *p, const Kernel *k);
/* loop.c: what the kernel of a scan does in one turn. */
PlanLoop *plan_loop(const Program *p, const Kernel *k, Arena *a, const ProgramOptions *options);
void plan_memory(Program *p, Arena *a);
/* Which results take the place of an operand. */
void plan_in_place(Program *p);
/* Names of values, unique within the program; job: names of leaves and fields, may be NULL. */
void plan_name_values(Program *p, Arena *a, const Job *job);
/* Names of nests, unique among those in `taken` (which grows); equal keys get equal names. A call
   has the name of its value. */
typedef struct KernelName {
  const char *name;
  uint64_t key;
} KernelName;
typedef VEC(KernelName) KernelNames;
void plan_name_kernels(Program *p, Arena *a, KernelNames *taken);
uint64_t plan_nest_key(const Program *p, const Kernel *k);

/* Arenas, segments, ready order, buckets. */
void plan_layout(Plan *plan);
uint64_t plan_hash(const Plan *plan);
/* By value: everything that the loss and the other forward results need is forward; the rest is backward
   (and what is computed again). */
/* Values that a nest computes by itself: ops of its roots and what it pulls, in topological order.
 */
void plan_pulled(const Program *p, const Kernel *k, Arena *a, ValList *out);

enum { PLAN_ALIGN = 64, PLAN_ALIGN_ELEMENTS = 16 };
static inline int64_t plan_align(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}
#endif
