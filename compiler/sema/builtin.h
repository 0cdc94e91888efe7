/* Names that are built in: the sema-level functions and the ops of the table that have a name. */
#ifndef SEMA_BUILTIN_H
#define SEMA_BUILTIN_H
#include "eval.h"

typedef struct BuiltinFormal {
  const char *name;
  bool required;
} BuiltinFormal;

/* Arguments as matched: by formal; `given` says which were. Variadic ones come as they are. */
typedef struct BuiltinCall {
  Datum *value;
  Span *span;
  bool *given;
  uint32_t n;
  Span at;
} BuiltinCall;

struct Builtin {
  const char *name;
  const char
      *formals; /* "x dim keepdim=": space between names, `=` after those that may be left out;
                          "*" takes any arguments by position */
  Datum (*call)(Eval *e, const Builtin *b, const BuiltinCall *c);
  const char *refused; /* "not supported yet", or NULL */
  int op;              /* OpKind of the generic ones */
};

/* NULL: no builtin has this name. */
const Builtin *builtin_find(const char *name);
/* Constants of the language: inf, nan, pi, training, dtypes. False: none has this name. */
bool builtin_constant(Eval *e, const char *name, Span at, Datum *out);
bool builtin_constant_name(const char *name);
void builtin_offer(TextNearest *near);
Datum builtin_call(Eval *e, const Builtin *b, CallArgs args, Span at);
/* In rules of the op table: an op by its own name (rule.c); NULL for others. */
const Builtin *rule_builtin(const char *name);
bool builtin_accepts(const Builtin *b, const char *name);

/* Families, for the table in builtin.c. */
typedef Datum BuiltinFunction(Eval *e, const Builtin *b, const BuiltinCall *c);
BuiltinFunction builtin_op, builtin_elementwise, builtin_reduce, builtin_attributes; /* ops */
BuiltinFunction builtin_all_sum;
BuiltinFunction builtin_cumsum, builtin_sort, builtin_topk;               /* order */
BuiltinFunction builtin_shape, builtin_ndim, builtin_size, builtin_numel; /* shapes */
BuiltinFunction builtin_len, builtin_prod, builtin_dtype, builtin_text;   /* compile time */
BuiltinFunction builtin_transpose, builtin_permute, builtin_reshape, builtin_expand, builtin_flip;
BuiltinFunction builtin_concat, builtin_stack, builtin_chunk, builtin_split, builtin_gather;
BuiltinFunction builtin_scatter_add, builtin_pad;
BuiltinFunction builtin_cast, builtin_sequential, builtin_extreme, builtin_need_float;
BuiltinFunction builtin_arange, builtin_full, builtin_uniform, builtin_normal, builtin_bernoulli;
BuiltinFunction builtin_trunc_normal, builtin_orthogonal, builtin_set_row, builtin_diagonal;
BuiltinFunction builtin_randint, builtin_refused;
/* Transforms and what belongs to datasets (transform.c). */
BuiltinFunction builtin_standardize, builtin_need_image, builtin_color_jitter;
BuiltinFunction builtin_resized_crop, builtin_utf8;
BuiltinFunction builtin_pad_to, builtin_wordpiece, builtin_roc_auc, builtin_classes;

/* Helpers that the families share. */
bool dims_of(Eval *e, Datum d, Span at, const char *what, Attr *out); /* list -> dims */
bool axis_of(Eval *e, Datum d, Span at, int rank, int64_t *out);      /* int -> 0..rank-1, E0412 */
bool axes_of(Eval *e, Datum d, Span at, int rank, Attr *out);         /* int or list -> axes */
bool attr_from(Eval *e, AttrKind kind, Datum d, Span at, Attr *out);  /* value -> attribute */
bool first_tensor(Eval *e, const BuiltinCall *c, Val *v, Type *t);
Datum stack_values(Eval *e, Val *v, uint32_t n, int64_t axis, Span at);  /* changes v; E0420 */
Datum concat_values(Eval *e, Val *v, uint32_t n, int64_t axis, Span at); /* changes v */
Datum shape_list(Eval *e, Type t);
Datum emit_reshape(Eval *e, Val x, const Dim *dim, int rank, Span at);
Datum emit_slice(Eval *e, Val x, int axis, Dim start, Dim stop, Span at);
#endif
