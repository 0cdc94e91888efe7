/* The graph: values in one array, referred to by 32-bit index, in topological order.
   What holds after every pass is checked by ir_verify: types equal those that the op table infers,
   inputs come before their users, scopes are valid. Passes build a new graph or append; nothing is
   freed piecemeal. What the functions here ask of the op table is declared in op.h. */
#ifndef IR_IR_H
#define IR_IR_H
#include "arena.h"
#include "source.h"
#include "text.h"
#include "vec.h"
#include <stdbool.h>
#include <stdint.h>

typedef enum DType {
#define DTYPE(name, ctype, bytes, category, st) DT_##name,
#include "dtype.def"
  DT_COUNT
} DType;
const char *dtype_name(DType t);  /* "f32" */
const char *dtype_ctype(DType t); /* "float" */
int dtype_bytes(DType t);
char dtype_category(DType t);                   /* 'b' 'i' 'f' */
bool dtype_parse(const char *name, DType *out); /* "f32"; also "float32", "uint8", "int64" ... */
DType dtype_promote(DType a, DType b);          /* PyTorch's rule for two tensors of rank >= 1 */
/* 16-bit floats are storage: what is computed of them is computed in f32. Other types as they are. */
static inline bool dtype_is_half(DType t) {
  return t == DT_f16 || t == DT_bf16;
}
static inline DType dtype_computed(DType t) {
  return dtype_is_half(t) ? DT_f32 : t;
}
double dtype_round(DType t, double x); /* what x becomes in memory; integers and bool as it is */

/* A size: per_batch * B + fixed. Only the batch B is symbolic. */
typedef struct Dim {
  int64_t per_batch, fixed;
} Dim;
static inline Dim dim_of(int64_t n) {
  return (Dim){0, n};
}
static inline bool dim_known(Dim d) {
  return d.per_batch == 0;
}
static inline bool dim_is(Dim d, int64_t n) {
  return d.per_batch == 0 && d.fixed == n;
}
static inline bool dim_equal(Dim a, Dim b) {
  return a.per_batch == b.per_batch && a.fixed == b.fixed;
}
static inline int64_t dim_at(Dim d, int64_t batch) {
  return d.per_batch * batch + d.fixed;
}
/* Product and exact quotient; false when the result is not linear in B / not exact. */
bool dim_mul(Dim a, Dim b, Dim *out);
bool dim_div(Dim a, Dim b, Dim *out);
void dim_print(Text *t, Dim d); /* "B", "2B", "B+1", "64" */

/* An op that takes a list of tensors (concat, extern) takes up to IR_MAX_LISTED; a scan, whose body
   may read many, up to IR_MAX_INPUTS. */
enum { IR_MAX_RANK = 8, IR_MAX_LISTED = 8, IR_MAX_INPUTS = 24 };
typedef struct Type {
  DType dtype;
  int rank;
  Dim dim[IR_MAX_RANK];
} Type;
bool type_equal(Type a, Type b);
bool type_elements(Type t, Dim *out);            /* false: not linear in B */
int64_t type_elements_at(Type t, int64_t batch); /* INT64_MAX: more than that */
/* Larger tensors are refused, at the batch of the job too, so that sums of bytes stay in 64 bits. */
#define TYPE_MOST_ELEMENTS (INT64_C(1) << 47)
void type_print(Text *t, Type type); /* "f32[B,64]" */
static inline Type type_scalar(DType d) {
  return (Type){.dtype = d, .rank = 0};
}

typedef uint32_t Val; /* index into Graph.values; 0 is no value */
#define NO_VAL 0u
typedef uint32_t Scope; /* index into Graph.scopes; 0 is the root */

typedef enum OpKind {
  OP_none,
#define OP_EW(name, ...) OP_##name,
#define OP_FN(name, ...) OP_##name,
#include "ops.def"
  OP_COUNT
} OpKind;

/* Attributes, in the order in which the op's row names them. Kinds:
   int, float, bool, text, axes (normalised list of ints), ints, dims (sizes), dtype, graph (the body
   of a loop: a graph of its own over OP_arg, never changed once a value has it).
   The kind tells passes what the attribute means: an `axes` moves when a dimension is put in front,
   `dims` gets one more. A list of length -1 is one that was not given: infer fills it in. Sources
   that are not of one type (input, param, buffer) carry it as the attributes dtype and shape. */
typedef enum AttrKind {
  ATTR_int,
  ATTR_float,
  ATTR_bool,
  ATTR_text,
  ATTR_axes,
  ATTR_ints,
  ATTR_dims,
  ATTR_dtype,
  ATTR_graph
} AttrKind;
typedef struct Attr {
  union {
    int64_t i; /* int, bool, dtype */
    double f;
    const char *text; /* interned */
    const struct Graph *graph;
    struct {
      int len;
      int64_t at[IR_MAX_RANK];
    } ints; /* axes, ints */
    struct {
      int len;
      Dim at[IR_MAX_RANK];
    } dims;
  } as;
} Attr;
enum { IR_MAX_ATTRS = 8 };

typedef struct Value {
  OpKind op;
  uint8_t inputs; /* count of in[] */
  Type type;
  Val in[IR_MAX_INPUTS];
  Attr
      *attr; /* as many as the op's row names; copies share them, so that only who made it writes */
  Span at;
  Scope scope;
  uint16_t
      region; /* 0, or the segment whose values are computed again for backward: such a value is
                      merged and shares loops only with those of its own region */
  bool kept;  /* read again later by values of a region: lies in memory */
} Value;

/* Where in the job a value comes from: `net.fc1` called by `net`; for names in the emitted text. */
typedef struct ScopeInfo {
  Scope parent;
  const char *name; /* one component: "fc1", "relu" */
} ScopeInfo;

/* What a graph computes. `index` depends on the kind. */
typedef enum OutputKind {
  OUT_loss,    /* rank-0 f32: this micro-batch's part of the update's loss */
  OUT_grad,    /* gradient of parameter `index` (shape of the leaf) */
  OUT_buffer,  /* new value of buffer `index` */
  OUT_sum,     /* rank-0: accumulator `index`, added up over micro-batches and ranks */
  OUT_metric,  /* rank-0: metric `index` as a function of accumulators (the `finish` graph) */
  OUT_state,   /* optimizer graphs: new value of state `index`; -1 is the parameter itself */
  OUT_carried, /* bodies of loops: what argument `over + index` is in the next turn */
  OUT_yield,   /* bodies of loops: one part of the stacked result `index` */
  OUT_result,  /* output `index` of the objective, [B, ...] */
  OUT_value,   /* anything else by number: schedules, tests */
} OutputKind;
typedef struct Output {
  OutputKind kind;
  int32_t index;
  Val value;
} Output;

typedef struct Graph {
  const char *name; /* "train", "eval", "counts", "finish", "optimizer.adamw", ... */
  Arena *arena;
  VEC(Value) values; /* values.at[0] is unused */
  VEC(ScopeInfo) scopes;
  Scope *scope_table; /* by parent and name, for graph_scope; NULL until it is asked for */
  uint32_t scope_cap, scopes_known;
  VEC(Output) outputs;
  bool training;
} Graph;

Graph *graph_new(Arena *a, const char *name, bool training);
Graph *
graph_like(const Graph *from); /* empty, with the same name, arena, scopes, and as much room */
static inline Value *value_at(const Graph *g, Val v) {
  return &g->values.at[v];
}
Scope graph_scope(Graph *g, Scope parent, const char *name);
void graph_output(Graph *g, OutputKind kind, int32_t index, Val value);
const char *graph_scope_path(Arena *a, const Graph *g, Scope s); /* "net.fc1.relu" */

/* Appends a value whose type the table infers. On a mismatch returns NO_VAL and sets *error to a
   message for the user ("sizes differ: 64 and 128") and *code to the diagnostic's number. Whoever
   calls reports it with its own span. Elementwise inputs broadcast and promote as PyTorch's do. */
Val ir_add(Graph *g, OpKind op, const Val *in, int n, const Attr *attrs, Span at, Scope scope,
           const char **error, int *code);
/* The same for callers who know that it fits (passes): a mismatch is an internal fault. */
Val ir_must(Graph *g, OpKind op, const Val *in, int n, const Attr *attrs, Span at, Scope scope);
Val ir_const(Graph *g, double v, DType dtype, Span at, Scope scope);
/* input, param or buffer number `index` of the given type. */
Val ir_leaf(Graph *g, OpKind op, int64_t index, Type type, Span at, Scope scope);
/* The attributes that an op has when none is given; false: it has one without a default. */
bool ir_default_attrs(OpKind op, Attr *attrs);
bool ir_is_const(const Graph *g, Val v, double *out);
/* One number everywhere: a constant, also seen through expand, reshape and other views. */
bool ir_is_uniform(const Graph *g, Val v, double *out);

/* Text form, one value a line, readable back:
     %3 = matmul %1, %2 ta=false tb=true : f32[B,64]   ; net.fc1 job.ddp:31
     out grad 0 %17
   Rank-0 sources and constants print their attributes: %1 = const value=0.5 dtype=f32 : f32[]
   The body of a loop stands in braces, with numbers of its own: body={ lines of values and outputs } */
void ir_print(Text *out, const Graph *g);
void ir_print_value(Text *out, const Graph *g, Val v); /* one line of it, without the line end */
/* Reads the graphs of a file ("graph train training { ... }", one or several) into out[0..max).
   Returns their number; -1 after a diagnostic. */
int ir_parse_all(Arena *a, uint32_t source, Graph **out, int max);
Graph *ir_parse(Arena *a, uint32_t source);             /* a file of one; NULL after a diagnostic */
void ir_verify(const Graph *g, const char *after_pass); /* dies when broken */

/* Copies value v of `from` (inputs already mapped by map[]) into `to`. */
Val ir_copy(Graph *to, const Graph *from, Val v, const Val *map);
#endif
