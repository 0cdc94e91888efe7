/* The table of built-in names and the matching of their arguments. What they do is in
   builtin_shape.c (layout), builtin_make.c (making, draws) and here (ops by name). */
#include "builtin.h"
#include "fold.h"
#include "op.h"
#include "signature.h"
#include <math.h>
#include <string.h>

#define LATER    "not supported yet"
#define OP(name) .op = OP_##name

static const Builtin table[] = {
    {"where", "condition x y", builtin_elementwise, NULL, OP(where)},
    {"maximum", "x y", builtin_elementwise, NULL, OP(maximum)},
    {"minimum", "x y", builtin_elementwise, NULL, OP(minimum)},
    {"cast", "x dtype", builtin_cast, NULL, OP(cast)},
    {"sum", "x dim= keepdim=", builtin_reduce, NULL, OP(sum)},
    {"amax", "x dim= keepdim=", builtin_reduce, NULL, OP(amax)},
    {"amin", "x dim= keepdim=", builtin_reduce, NULL, OP(amin)},
    {"argmax", "x dim= keepdim=", builtin_reduce, NULL, OP(argmax)},
    {"any", "x dim= keepdim=", builtin_reduce, NULL, OP(any)},
    {"all", "x dim= keepdim=", builtin_reduce, NULL, OP(all)},
    {"logsumexp", "x dim= keepdim=", builtin_reduce, NULL, OP(logsumexp)},
    {"shape", "x", builtin_shape, NULL, 0},
    {"ndim", "x", builtin_ndim, NULL, 0},
    {"size", "x dim", builtin_size, NULL, 0},
    {"numel", "x", builtin_numel, NULL, 0},
    {"len", "x", builtin_len, NULL, 0},
    {"prod", "x", builtin_prod, NULL, 0},
    {"dtype", "x", builtin_dtype, NULL, 0},
    {"min", "*", builtin_extreme, NULL, OP(minimum)},
    {"max", "*", builtin_extreme, NULL, OP(maximum)},
    {"need_float", "x", builtin_need_float, NULL, 0}, /* what `mean` asks of its operand */
    {"text", "x", builtin_text, NULL, 0},
    {"reshape", "x shape", builtin_reshape, NULL, OP(reshape)},
    {"permute", "x dims", builtin_permute, NULL, OP(permute)},
    {"transpose", "x dim0 dim1", builtin_transpose, NULL, OP(permute)},
    {"expand", "x shape", builtin_expand, NULL, OP(expand)},
    {"flip", "x dims", builtin_flip, NULL, OP(flip)},
    {"concat", "tensors dim=", builtin_concat, NULL, OP(concat)},
    {"stack", "tensors dim=", builtin_stack, NULL, OP(concat)},
    {"chunk", "x chunks dim=", builtin_chunk, NULL, OP(slice)},
    {"split", "x split_size dim=", builtin_split, NULL, OP(slice)},
    {"gather", "x index dim", builtin_gather, NULL, OP(gather)},
    {"rows", "x index", builtin_op, NULL, OP(rows)},
    {"scatter_add", "x index src dim", builtin_scatter_add, NULL, OP(scatter_add)},
    {"pad", "x pad value=", builtin_pad, NULL, OP(pad)},
    {"cumsum", "x dim", builtin_cumsum, NULL, OP(cumsum)},
    {"argsort", "x dim= descending=", builtin_sort, NULL, OP(argsort)},
    {"sort", "x dim= descending=", builtin_sort, NULL, OP(gather)},
    {"topk", "x k dim= largest=", builtin_topk, NULL, OP(argsort)},
    {"conv", "x weight stride= padding= dilation= groups=", builtin_attributes, NULL, OP(conv)},
    {"conv_transpose", "x weight stride= padding= output_padding= groups= dilation=",
     builtin_attributes, NULL, OP(conv_transpose)},
    {"pool_max", "x kernel_size stride= padding= dilation= ceil_mode= adaptive=",
     builtin_attributes, NULL, OP(pool_max)},
    {"pool_sum", "x kernel_size stride= padding= ceil_mode= divide= adaptive=", builtin_attributes,
     NULL, OP(pool_sum)},
    {"arange", "n", builtin_arange, NULL, OP(arange)},
    {"full", "value shape", builtin_full, NULL, OP(expand)},
    {"uniform", "a= b= shape stream=", builtin_uniform, NULL, OP(uniform)},
    {"normal", "mean= std= shape stream=", builtin_normal, NULL, OP(normal)},
    {"bernoulli", "p shape stream=", builtin_bernoulli, NULL, OP(bernoulli)},
    {"randint", "low high shape stream=", builtin_randint, NULL, OP(randint)},
    {"Sequential", "*", builtin_sequential, NULL, 0},
    {"trunc_normal", "mean= std= a= b= shape stream=", builtin_trunc_normal, NULL, 0},
    {"orthogonal", "gain= shape", builtin_orthogonal, NULL, 0},
    {"set_row", "x row value", builtin_set_row, NULL, OP(where)},
    {"diagonal", "value shape", builtin_diagonal, NULL, OP(where)},
    {"all_sum", "x", builtin_all_sum, NULL, OP(all_sum)},
    {"ctc_loss", "*", builtin_refused, LATER, 0},
    {"multilabel_margin_loss", "*", builtin_refused, LATER, 0},
    {"classes", "x", builtin_classes, NULL, 0},
    {"roc_auc", "scores labels", builtin_roc_auc, NULL, 0},
    {"standardize", "x", builtin_standardize, NULL, 0},
    {"need_image", "x", builtin_need_image, NULL, 0}, /* what transforms of images take */
    {"random_resized_crop", "x size", builtin_resized_crop, NULL, 0},
    {"color_jitter", "x brightness= contrast= saturation= hue=", builtin_color_jitter, NULL, 0},
    {"pad_to", "x length value=", builtin_pad_to, NULL, 0},
    {"utf8", "x length", builtin_utf8, NULL, 0},
    {"wordpiece", "x vocab length", builtin_wordpiece, NULL, 0},
};
enum { TABLE = sizeof table / sizeof *table };

/* Names of the table above and, made on first use, one entry for every named elementwise op of one
   input (exp, sqrt, ...). */
static struct {
  const char *name;
  const Builtin *builtin;
} names[TABLE + OP_COUNT];
static Builtin unary[OP_COUNT];
static int count;

static void make_names(void) {
  for (int i = 0; i < TABLE; i++) {
    names[count].name = text_intern(table[i].name);
    names[count++].builtin = &table[i];
  }
  for (int op = 1; op < OP_COUNT; op++) {
    const OpDef *d = op_def((OpKind)op);
    bool plain = (d->flags & OPF_named) && (d->flags & OPF_elementwise) && !d->attrs;
    if (!plain || d->inputs != 1) continue;
    unary[op] = (Builtin){d->name, "x", builtin_elementwise, NULL, op};
    names[count].name = text_intern(d->name);
    names[count++].builtin = &unary[op];
  }
}

const Builtin *builtin_find(const char *name) {
  if (!count) make_names();
  for (int i = 0; i < count; i++)
    if (names[i].name == name) return names[i].builtin;
  return NULL;
}

void builtin_offer(TextNearest *near) {
  if (!count) make_names();
  for (int i = 0; i < count; i++) text_offer(near, names[i].name);
}

/* ---------- constants ---------- */

bool builtin_constant_name(const char *name) {
  DType t;
  static const char *const words[] = {"inf", "nan", "pi", "training", "float", "int"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (!strcmp(name, words[i])) return true;
  return dtype_parse(name, &t);
}

bool builtin_constant(Eval *e, const char *name, Span at, Datum *out) {
  DType t;
  if (!strcmp(name, "inf")) return *out = datum_float((double)INFINITY), true;
  if (!strcmp(name, "nan")) return *out = datum_float((double)NAN), true;
  if (!strcmp(name, "pi")) return *out = datum_float(3.14159265358979323846), true;
  if (!strcmp(name, "float"))
    return *out = datum_dtype(e->build ? e->build->compute : DT_f32), true;
  if (!strcmp(name, "int")) return *out = datum_dtype(DT_i64), true;
  if (dtype_parse(name, &t)) return *out = datum_dtype(t), true;
  if (strcmp(name, "training") != 0) return false;
  if (e->build) return *out = datum_bool(e->training), true;
  eval_report(e, DIAG_E0508, at,
              "`training` belongs to a graph; the structure of a model does not "
              "depend on it");
  return *out = datum_error(), true;
}

/* ---------- matching ---------- */

/* Name number k of the formals ("x dim= keepdim="); false when there are fewer. */
static bool formal_at(const Builtin *b, uint32_t k, char name[24], bool *optional) {
  const char *p = b->formals;
  for (;;) {
    size_t n = strcspn(p, " ");
    if (!n) return false;
    if (!k--) {
      *optional = p[n - 1] == '=';
      size_t len = n - (*optional ? 1 : 0);
      memcpy(name, p, len);
      name[len] = 0;
      return true;
    }
    p += n;
    if (*p == ' ') p++;
  }
}

bool builtin_accepts(const Builtin *b, const char *name) {
  char formal[24];
  bool optional = false;
  for (uint32_t k = 0; formal_at(b, k, formal, &optional); k++)
    if (!strcmp(formal, name)) return true;
  return false;
}

static bool place_argument(Eval *e, const Builtin *b, BuiltinCall *c, const CallArg *a,
                           uint32_t *position) {
  char formal[24];
  bool optional = false;
  uint32_t k = 0;
  if (!a->name) {
    k = (*position)++;
    if (k >= c->n) {
      eval_report(e, DIAG_E0505, a->at, "`%s` takes %u arguments", b->name, c->n);
      return false;
    }
  } else {
    while (formal_at(b, k, formal, &optional) && strcmp(formal, a->name) != 0) k++;
    if (k >= c->n) {
      TextNearest near = {.wanted = a->name};
      eval_report(e, DIAG_E0502, a->at, "`%s` has no argument `%s`", b->name, a->name);
      for (k = 0; formal_at(b, k, formal, &optional); k++) text_offer(&near, text_intern(formal));
      if (near.best) diag_help("did you mean `%s`?", near.best);
      return false;
    }
  }
  if (c->given[k]) {
    eval_report(e, DIAG_E0504, a->at, "an argument of `%s` is given twice", b->name);
    return false;
  }
  c->given[k] = true;
  c->value[k] = a->value;
  c->span[k] = a->at;
  return true;
}

static Datum recipe(Eval *e, const Builtin *b, CallArgs args, Span at) {
  Closure *c = ARENA_NEW(e->arena, Closure);
  c->builtin = b;
  if (args.len)
    c->args = (CallArgs){arena_copy(e->arena, args.at, sizeof *args.at * args.len), args.len};
  c->at = at;
  return (Datum){.kind = DATUM_recipe, .as.closure = c};
}

Datum builtin_call(Eval *e, const Builtin *b, CallArgs args, Span at) {
  char formal[24];
  bool optional = false;
  BuiltinCall c = {.at = at};
  if (b->refused) return b->call(e, b, &c);
  bool any = b->formals[0] == '*';
  if (any)
    c.n = args.len;
  else
    while (formal_at(b, c.n, formal, &optional)) c.n++;
  c.value = ARENA_ARRAY(e->arena, Datum, c.n + 1);
  c.span = ARENA_ARRAY(e->arena, Span, c.n + 1);
  c.given = ARENA_ARRAY(e->arena, bool, c.n + 1);
  for (uint32_t k = 0; k < c.n; k++) c.span[k] = at, c.value[k] = datum_none();
  uint32_t position = 0;
  for (uint32_t i = 0; i < args.len; i++)
    if (!place_argument(e, b, &c, &args.at[i], &position)) return datum_error();
  bool waits = false;
  for (uint32_t k = 0; k < c.n && !any; k++) {
    formal_at(b, k, formal, &optional);
    if (c.given[k] || optional) continue;
    if (place_supplies(formal)) {
      waits = true;
      continue;
    }
    eval_report(e, DIAG_E0503, at, "`%s` needs its argument `%s`", b->name, formal);
    return datum_error();
  }
  return waits ? recipe(e, b, args, at) : b->call(e, b, &c);
}

/* ---------- ops by name ---------- */

Datum builtin_refused(Eval *e, const Builtin *b, const BuiltinCall *c) {
  eval_report(e, DIAG_E0716, c->at, "`%s` is not supported yet", b->name);
  return datum_error();
}

Datum builtin_elementwise(Eval *e, const Builtin *b, const BuiltinCall *c) {
  return fold_elementwise(e, (OpKind)b->op, c->value, (int)c->n, c->at);
}

Datum builtin_op(Eval *e, const Builtin *b, const BuiltinCall *c) {
  Val in[IR_MAX_INPUTS];
  for (uint32_t k = 0; k < c->n; k++)
    if (!need_tensor(e, c->value[k], c->span[k], "this argument", &in[k])) return datum_error();
  return emit_op(e, (OpKind)b->op, in, (int)c->n, NULL, c->at);
}

/* Evaluation, the steps of optimizers and schedules run on a rank without the others. */
Datum builtin_all_sum(Eval *e, const Builtin *b, const BuiltinCall *c) {
  if (e->build && (!e->training || e->update || e->build->host_dtype == DT_f64)) {
    eval_report(e, DIAG_E0619, c->at, "`all_sum` adds up over ranks in the training graph only");
    diag_help("call it under `if training`");
    return datum_error();
  }
  return builtin_op(e, b, c);
}

/* Inputs first, then the attributes in the order of the row; `none` is one that was left out. */
Datum builtin_attributes(Eval *e, const Builtin *b, const BuiltinCall *c) {
  const OpDef *def = op_def((OpKind)b->op);
  Val in[IR_MAX_INPUTS];
  Attr attr[IR_MAX_ATTRS] = {0};
  for (int k = 0; k < def->attrs; k++) attr[k] = def->attr[k].value;
  for (int k = 0; k < (int)c->n; k++) {
    int a = k - def->inputs;
    if (a < 0) {
      if (!need_tensor(e, c->value[k], c->span[k], "this argument", &in[k])) return datum_error();
    } else if (c->value[k].kind != DATUM_none &&
               !attr_from(e, def->attr[a].kind, c->value[k], c->span[k], &attr[a])) {
      return datum_error();
    }
  }
  return emit_op(e, (OpKind)b->op, in, def->inputs, attr, c->at);
}

Datum builtin_cast(Eval *e, const Builtin *b, const BuiltinCall *c) {
  (void)b;
  Datum x = c->value[0];
  if (c->value[1].kind != DATUM_dtype) {
    eval_report(e, DIAG_E0501, c->span[1], "`cast` takes a dtype such as `float` or `int`, not %s",
                datum_describe(e, c->value[1]));
    return datum_error();
  }
  DType t = c->value[1].as.dtype;
  if (datum_is_numeric(x)) { /* numbers stay numbers */
    double n = x.kind == DATUM_bool ? x.as.b : 0;
    datum_number(x, &n);
    if (dtype_category(t) == 'b') return datum_bool(n != 0);
    if (dtype_category(t) == 'f') return datum_float(n);
    return x.kind == DATUM_int ? x : datum_int((int64_t)n);
  }
  if (x.kind == DATUM_host && dtype_category(t) == 'f') return x;
  Val v;
  if (!need_tensor(e, x, c->span[0], "the first argument of `cast`", &v)) return datum_error();
  if (value_at(e->build->graph, v)->type.dtype == t) return datum_tensor(v);
  Attr attr[IR_MAX_ATTRS] = {0};
  attr[op_attr(OP_cast, "dtype")].as.i = t;
  return emit_op(e, OP_cast, &v, 1, attr, c->at);
}

Datum builtin_reduce(Eval *e, const Builtin *b, const BuiltinCall *c) {
  OpKind op = (OpKind)b->op;
  Val v;
  bool keep = false;
  double number;
  if (datum_number(c->value[0], &number) && op != OP_argmax && op != OP_any && op != OP_all)
    return c->value[0]; /* a number is a tensor of rank 0 */
  if (c->given[2] && !need_bool(e, c->value[2], c->span[2], "`keepdim`", &keep))
    return datum_error();
  if (!need_tensor(e, c->value[0], c->span[0], "the first argument", &v)) return datum_error();
  Attr attr[IR_MAX_ATTRS] = {0};
  int dim = op_attr(op, "dim"), keepdim = op_attr(op, "keepdim");
  if (c->value[1].kind == DATUM_none)
    attr[dim].as.ints.len = -1;
  else if (!axes_of(e, c->value[1], c->span[1], value_at(e->build->graph, v)->type.rank,
                    &attr[dim]))
    return datum_error();
  attr[keepdim].as.i = keep;
  if ((op == OP_any || op == OP_all) && value_at(e->build->graph, v)->type.dtype != DT_bool) {
    eval_report(e, DIAG_E0506, c->span[0], "`%s` takes a bool tensor, not %s", b->name,
                datum_describe(e, datum_tensor(v)));
    return datum_error();
  }
  return emit_op(e, op, &v, 1, attr, c->at);
}
