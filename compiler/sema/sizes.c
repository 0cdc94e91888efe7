/* Dimensions of declared types against shapes (sizes.h). A declared type becomes a pattern of parts;
   a part that mentions a size not bound yet is looked at after all sizes are bound. */
#include "sizes.h"
#include "fold.h"
#include "signature.h"
#include <ctype.h>
#include <string.h>

/* The run of dimensions that `...` stands for is kept in the scope under this name. */
#define RUN_NAME "..."

typedef enum PartKind { PART_any, PART_run, PART_size, PART_known, PART_later } PartKind;
typedef struct Part {
  PartKind kind;
  const char *name; /* size */
  Dim dim;          /* known */
  const Expr *expr;
  Span at;
} Part;
typedef struct Pattern {
  Part part[2 * IR_MAX_RANK];
  int n, run; /* run: index of `...`; -1 */
  bool wrong;
} Pattern;

bool size_like(const char *name) {
  return isupper((unsigned char)name[0]);
}

bool name_known(Eval *e, Env *env, const char *name) {
  if (env_find(env, name)) return true;
  File *file = env ? env->file : NULL;
  FileName *found;
  if (file && file_find(file, name)) return true;
  return library_find(e->program, name, &file, &found);
}

static bool is_size(Eval *e, Env *env, const Expr *x) {
  return x->kind == EXPR_name && !x->as.name.index && size_like(x->as.name.text) &&
         !name_known(e, env, x->as.name.text);
}

static bool mentions_size(Eval *e, Env *env, const Expr *x) {
  if (!x) return false;
  switch (x->kind) {
  case EXPR_name:
    return is_size(e, env, x);
  case EXPR_unary:
    return mentions_size(e, env, x->as.unary.operand);
  case EXPR_binary:
    return mentions_size(e, env, x->as.binary.left) || mentions_size(e, env, x->as.binary.right);
  case EXPR_if:
    return mentions_size(e, env, x->as.cond.condition) || mentions_size(e, env, x->as.cond.yes) ||
           mentions_size(e, env, x->as.cond.no);
  case EXPR_call:
    for (uint32_t i = 0; i < x->as.call.args.len; i++)
      if (mentions_size(e, env, x->as.call.args.at[i].value)) return true;
    return false;
  case EXPR_index:
    return mentions_size(e, env, x->as.index.object);
  case EXPR_list:
  case EXPR_tuple:
    for (uint32_t i = 0; i < x->as.items.len; i++)
      if (mentions_size(e, env, x->as.items.at[i])) return true;
    return false;
  default:
    return false;
  }
}

static void add_part(Eval *e, Pattern *p, Part part) {
  if (p->n < (int)(sizeof p->part / sizeof *p->part)) {
    p->part[p->n++] = part;
    return;
  }
  if (!p->wrong)
    eval_report(e, DIAG_E0716, part.at, "types of more than %d dimensions", IR_MAX_RANK);
  p->wrong = true;
}

/* A known dimension, or the splice of a list of them. */
static void add_known(Eval *e, Pattern *p, const Expr *x, Datum d) {
  if (d.kind == DATUM_list || d.kind == DATUM_tuple) {
    for (uint32_t i = 0; i < d.as.list.len && !p->wrong; i++) add_known(e, p, x, d.as.list.at[i]);
    return;
  }
  Dim dim;
  if (d.kind == DATUM_error || !need_dim(e, d, x->span, "a dimension", &dim)) {
    p->wrong = true;
    return;
  }
  if (dim_known(dim) && dim.fixed < 0) {
    eval_report(e, DIAG_E0410, x->span, "this dimension is %lld", (long long)dim.fixed);
    p->wrong = true;
    return;
  }
  add_part(e, p, (Part){.kind = PART_known, .dim = dim, .expr = x, .at = x->span});
}

static void make_pattern(Eval *e, const TypeExpr *type, Env *env, Pattern *p) {
  *p = (Pattern){.run = -1};
  for (uint32_t i = 0; i < type->dims.len && !p->wrong; i++) {
    const Expr *x = type->dims.at[i].value;
    Span at = type->dims.at[i].span;
    if (!x) {
      if (p->run >= 0) {
        eval_report(e, DIAG_E0407, at, "more than one `...` in a type");
        p->wrong = true;
      }
      p->run = p->n;
      add_part(e, p, (Part){.kind = PART_run, .at = at});
    } else if (x->kind == EXPR_name && x->as.name.text[0] == '_') {
      add_part(e, p, (Part){.kind = PART_any, .at = at});
    } else if (is_size(e, env, x)) {
      add_part(e, p, (Part){.kind = PART_size, .name = x->as.name.text, .expr = x, .at = at});
    } else if (mentions_size(e, env, x)) {
      add_part(e, p, (Part){.kind = PART_later, .expr = x, .at = at});
    } else {
      add_known(e, p, x, eval_expr(e, x, env));
    }
  }
}

static bool check_rank(Eval *e, const char *what, const SizedArg *a, const Pattern *p, Type is) {
  bool fits = p->run >= 0 ? is.rank >= p->n - 1 : is.rank == p->n;
  if (fits) return true;
  eval_report(e, DIAG_E0406, a->at, "argument `%s` of `%s` has %s%d dimension%s (`%s`), this is %s",
              a->name, what, p->run >= 0 ? "at least " : "", p->run >= 0 ? p->n - 1 : p->n,
              (p->run >= 0 ? p->n - 1 : p->n) == 1 ? "" : "s", span_text(e->arena, a->type->span),
              datum_describe(e, a->value));
  return false;
}

/* Dimension of the value that part k of the pattern stands at. */
static int position(const Pattern *p, Type is, int k) {
  return p->run >= 0 && k > p->run ? is.rank - (p->n - k) : k;
}

static void size_mismatch(Eval *e, const char *what, const SizedArg *a, int dim, Dim has,
                          const char *declared, Dim wanted, Span bound, const char *bound_name) {
  Text t = {0};
  text_addf(&t, "dimension %d of argument `%s` of `%s` is ", dim, a->name, what);
  dim_print(&t, has);
  Text w = {0};
  dim_print(&w, wanted);
  if (strcmp(declared, w.at) != 0)
    text_addf(&t, "; `%s` is %s", declared, w.at);
  else
    text_addf(&t, "; it must be %s", w.at);
  text_free(&w);
  eval_report(e, DIAG_E0405, a->at, "%s", t.at);
  text_free(&t);
  if (bound.file && bound_name) diag_note(bound, "`%s` was bound here", bound_name);
}

static bool bind_size(Eval *e, const char *what, const SizedArg *a, const Part *part, Dim is,
                      int dim, Env *env) {
  Binding *b = env_find(env, part->name);
  if (!b) {
    env_define(e->arena, env, part->name, datum_dim(is), BIND_size, a->at);
    return true;
  }
  Dim bound;
  if (!datum_dim_value(b->value, &bound)) return true;
  if (dim_equal(bound, is)) return true;
  size_mismatch(e, what, a, dim, is, part->name, bound, b->at, part->name);
  return false;
}

static bool bind_run(Eval *e, const SizedArg *a, Type is, int from, int count, Env *env) {
  Datum dims[IR_MAX_RANK];
  for (int i = 0; i < count; i++) dims[i] = datum_dim(is.dim[from + i]);
  Datum run = datum_list(e->arena, dims, (uint32_t)count);
  const char *name = text_intern(RUN_NAME);
  Binding *b = NULL;
  for (uint32_t i = 0; i < env->names.len; i++)
    if (env->names.at[i].name == name) b = &env->names.at[i];
  if (!b) {
    env_define(e->arena, env, name, run, BIND_size, a->at);
    return true;
  }
  bool comparable;
  if (datum_equal(b->value, run, &comparable)) return true;
  Text t = {0};
  datum_print(&t, b->value);
  text_add(&t, " and ");
  datum_print(&t, run);
  eval_report(e, DIAG_E0408, a->at, "the dimensions that `...` stands for differ: %s", t.at);
  text_free(&t);
  if (b->at.file) diag_note(b->at, "the first of them comes from here");
  return false;
}

static bool first_bind(Eval *e, const char *what, const SizedArg *a, const Pattern *p, Env *env) {
  Type is = tensor_type(e, a->value);
  bool ok = true;
  for (int k = 0; k < p->n && ok; k++) {
    const Part *part = &p->part[k];
    int dim = position(p, is, k);
    if (part->kind == PART_size)
      ok = bind_size(e, what, a, part, is.dim[dim], dim, env);
    else if (part->kind == PART_run)
      ok = bind_run(e, a, is, k, is.rank - (p->n - 1), env);
  }
  return ok;
}

/* The value of a compound dimension once every size is bound. */
static bool later_dim(Eval *e, const Part *part, Env *env, Dim *out) {
  Datum d = eval_expr(e, part->expr, env);
  return d.kind != DATUM_error && need_dim(e, d, part->at, "a dimension", out);
}

static bool check_parts(Eval *e, const char *what, const SizedArg *a, const Pattern *p, Env *env) {
  Type is = tensor_type(e, a->value);
  for (int k = 0; k < p->n; k++) {
    const Part *part = &p->part[k];
    int dim = position(p, is, k);
    if (part->kind != PART_known && part->kind != PART_later) continue;
    Dim wanted = part->dim;
    if (part->kind == PART_later && !later_dim(e, part, env, &wanted)) return false;
    if (dim_equal(wanted, is.dim[dim])) continue;
    const char *text = span_text(e->arena, part->expr->span);
    Span bound = {0};
    if (part->expr->kind == EXPR_name) {
      Binding *b = env_find(env, part->expr->as.name.text);
      if (b) bound = b->at;
    }
    size_mismatch(e, what, a, dim, is.dim[dim], text, wanted, bound, text);
    return false;
  }
  return true;
}

static bool checked(Eval *e, const SizedArg *a) {
  return a->type->kind == TYPE_tensor && a->value.kind != DATUM_none &&
         (e->build || !datum_is_tensorlike(a->value));
}

bool sizes_bind(Eval *e, const char *what, const SizedArg *args, uint32_t n, Env *env) {
  Pattern *p = ARENA_ARRAY(e->arena, Pattern, n ? n : 1);
  bool ok = true;
  for (uint32_t i = 0; i < n; i++) {
    if (!checked(e, &args[i])) continue;
    make_pattern(e, args[i].type, env, &p[i]);
    ok = !p[i].wrong && check_rank(e, what, &args[i], &p[i], tensor_type(e, args[i].value)) && ok;
  }
  if (!ok) return false;
  for (uint32_t i = 0; i < n; i++)
    if (checked(e, &args[i])) ok = first_bind(e, what, &args[i], &p[i], env) && ok;
  if (!ok) return false;
  for (uint32_t i = 0; i < n; i++)
    if (checked(e, &args[i])) ok = check_parts(e, what, &args[i], &p[i], env) && ok;
  return ok;
}

bool sizes_result(Eval *e, const TypeExpr *type, Datum value, Env *env) {
  Type is = tensor_type(e, value);
  Pattern p;
  make_pattern(e, type, env, &p);
  if (p.wrong) return true; /* reported */
  Datum run = datum_list(e->arena, NULL, 0);
  Binding *b = env_find(env, text_intern(RUN_NAME));
  if (b && b->value.kind == DATUM_list) run = b->value;
  int extra = p.run >= 0 ? (int)run.as.list.len : 0;
  if (is.rank != p.n - (p.run >= 0) + extra) return false;
  for (int k = 0; k < p.n; k++) {
    const Part *part = &p.part[k];
    int dim = position(&p, is, k);
    Dim wanted;
    if (part->kind == PART_run) {
      for (int i = 0; i < extra; i++)
        if (!datum_dim_value(run.as.list.at[i], &wanted) || !dim_equal(wanted, is.dim[k + i]))
          return false;
    } else if (part->kind == PART_size) {
      eval_report(e, DIAG_E0402, part->at, "`%s` is not bound by an input", part->name);
      return true;
    } else if (part->kind == PART_known) {
      if (!dim_equal(part->dim, is.dim[dim])) return false;
    }
  }
  return true;
}

bool eval_dims(Eval *e, const TypeExpr *t, Env *env, Type *out) {
  Pattern p;
  make_pattern(e, t, env, &p);
  if (p.wrong) return false;
  *out = (Type){.dtype = DT_f32};
  if (t->name && !strcmp(t->name, "int"))
    out->dtype = DT_i64;
  else if (t->name && strcmp(t->name, "float") != 0 && !dtype_parse(t->name, &out->dtype)) {
    eval_report(e, DIAG_E0501, t->span, "`%s` is not the type of an element", t->name);
    return false;
  }
  for (int k = 0; k < p.n; k++) {
    const Part *part = &p.part[k];
    if (part->kind == PART_run) {
      Binding *b = env_find(env, text_intern(RUN_NAME));
      if (!b || b->value.kind != DATUM_list) {
        eval_report(e, DIAG_E0508, part->at, "`...` stands for nothing here");
        return false;
      }
      for (uint32_t i = 0; i < b->value.as.list.len && out->rank < IR_MAX_RANK; i++)
        datum_dim_value(b->value.as.list.at[i], &out->dim[out->rank++]);
      continue;
    }
    if (part->kind != PART_known || out->rank == IR_MAX_RANK) {
      eval_report(e, part->kind == PART_size ? DIAG_E0301 : DIAG_E0508, part->at,
                  "this dimension is not known here");
      return false;
    }
    out->dim[out->rank++] = part->dim;
  }
  return true;
}
