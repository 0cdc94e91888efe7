/* Matching of arguments and checks of kinds and dtypes (signature.h); sizes are in sizes.c. */
#include "signature.h"
#include "fold.h"
#include "sizes.h"
#include <ctype.h>
#include <string.h>

bool place_supplies(const char *name) {
  static const char *const names[] = {"shape", "step", "warmup", "total", "base_lr", "p"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(name, names[i])) return true;
  return false;
}

const char *span_text(Arena *a, Span at) {
  const Source *s = at.file ? source_get(at.file) : NULL;
  if (!s || at.end < at.begin || at.end > s->length) return "";
  char *t = arena_strndup(a, s->text + at.begin, at.end - at.begin);
  char *to = t;
  for (const char *from = t; *from; from++) { /* one line */
    if (isspace((unsigned char)*from) && to > t && to[-1] == ' ') continue;
    *to++ = isspace((unsigned char)*from) ? ' ' : *from;
  }
  *to = 0;
  return t;
}

/* ---------- matching ---------- */

static void offer_formals(const Signature *s, const char *wanted) {
  TextNearest near = {.wanted = wanted};
  for (uint32_t i = 0; i < s->formals.len; i++) text_offer(&near, s->formals.at[i].name);
  if (near.best) diag_help("did you mean `%s`?", near.best);
}

static int formal_index(const Signature *s, const char *name) {
  for (uint32_t i = 0; i < s->formals.len; i++)
    if (!strcmp(s->formals.at[i].name, name)) return (int)i;
  return -1;
}

/* Right of a formal with a default, one without is given by name. */
static bool by_name_only(const Signature *s, uint32_t i) {
  if (s->formals.at[i].value) return false;
  for (uint32_t j = 0; j < i; j++)
    if (s->formals.at[j].value) return true;
  return false;
}

static bool match(Eval *e, const Signature *s, CallArgs args, const CallArg **given, Span at) {
  bool ok = true;
  uint32_t position = 0;
  for (uint32_t k = 0; k < args.len && ok; k++) {
    const CallArg *a = &args.at[k];
    int i = -1;
    if (!a->name) {
      i = (int)position++;
      if ((uint32_t)i >= s->formals.len || by_name_only(s, (uint32_t)i)) {
        eval_report(e, DIAG_E0505, a->at, "`%s` takes %u arguments by position", s->what,
                    (uint32_t)i);
        if ((uint32_t)i < s->formals.len) diag_help("give `%s` by name", s->formals.at[i].name);
        return false;
      }
    } else if ((i = formal_index(s, a->name)) < 0) {
      eval_report(e, DIAG_E0502, a->at, "`%s` has no argument `%s`", s->what, a->name);
      offer_formals(s, a->name);
      ok = false;
      continue;
    }
    if (given[i]) {
      eval_report(e, DIAG_E0504, a->at, "argument `%s` of `%s` is given twice",
                  s->formals.at[i].name, s->what);
      ok = false;
    }
    given[i] = a;
  }
  (void)at;
  return ok;
}

static Bound check_missing(Eval *e, const Signature *s, const CallArg **given, Span at) {
  Bound result = BOUND_ok;
  Text missing = {0};
  int count = 0;
  for (uint32_t i = 0; i < s->formals.len; i++) {
    if (given[i] || s->formals.at[i].value) continue;
    if (place_supplies(s->formals.at[i].name)) {
      if (result == BOUND_ok) result = BOUND_waits;
      continue;
    }
    text_addf(&missing, "%s`%s`", count++ ? ", " : "", s->formals.at[i].name);
    result = BOUND_wrong;
  }
  if (result == BOUND_wrong)
    eval_report(e, DIAG_E0503, at, "`%s` needs its argument%s %s", s->what, count > 1 ? "s" : "",
                missing.at);
  text_free(&missing);
  return result;
}

/* ---------- kinds ---------- */

static bool tensor_kind(Datum d) {
  return datum_is_tensorlike(d) || datum_is_numeric(d) || d.kind == DATUM_host ||
         d.kind == DATUM_dim;
}

static bool is_int(Datum d) {
  return d.kind == DATUM_int || d.kind == DATUM_dim;
}

static bool all_ints(Datum d) {
  for (uint32_t i = 0; i < d.as.list.len; i++)
    if (!is_int(d.as.list.at[i])) return false;
  return true;
}

/* ints, ints(n): one int stands for [i], or for n copies. */
static bool ints_kind(Eval *e, const TypeExpr *type, Datum *d) {
  int64_t n = -1;
  if (type->kind == TYPE_apply && type->args.len) {
    const Expr *x = type->args.at[0].value;
    if (x->kind == EXPR_int) n = x->as.i;
  }
  if (is_int(*d)) {
    Datum copies[IR_MAX_RANK];
    int64_t count = n < 0 ? 1 : n > IR_MAX_RANK ? IR_MAX_RANK : n;
    for (int64_t i = 0; i < count; i++) copies[i] = *d;
    *d = datum_list(e->arena, copies, (uint32_t)count);
    return true;
  }
  return (d->kind == DATUM_list || d->kind == DATUM_tuple) && all_ints(*d) &&
         (n < 0 || d->as.list.len == n);
}

static bool module_kind(Datum d) {
  if (d.kind == DATUM_module || d.kind == DATUM_instance) return true;
  if (d.kind != DATUM_list) return false;
  for (uint32_t i = 0; i < d.as.list.len; i++)
    if (!module_kind(d.as.list.at[i])) return false;
  return true;
}

static bool kind_fits(Eval *e, const TypeExpr *type, Datum *d);

/* The type in brackets of `list(T)` and `optional(T)`; false: not just a name. */
static bool inner_type(const TypeExpr *type, TypeExpr *inner) {
  if (!type->args.len || type->args.at[0].value->kind != EXPR_name) return false;
  const Expr *of = type->args.at[0].value;
  *inner = (TypeExpr){.kind = TYPE_name, .span = of->span, .name = of->as.name.text};
  return true;
}

static bool is_optional(const TypeExpr *type) {
  return type->kind == TYPE_apply && !strcmp(type->name, "optional");
}

static bool list_kind(Eval *e, const TypeExpr *type, Datum *d) {
  if (d->kind != DATUM_list) return false;
  TypeExpr item;
  if (!inner_type(type, &item)) return true;
  uint32_t n = d->as.list.len;
  Datum *items = ARENA_ARRAY(e->arena, Datum, n ? n : 1);
  for (uint32_t i = 0; i < n; i++) {
    items[i] = d->as.list.at[i];
    if (!kind_fits(e, &item, &items[i])) return false;
  }
  *d = (Datum){.kind = DATUM_list, .as.list = {items, n}};
  return true;
}

static bool named_kind(Eval *e, const TypeExpr *type, Datum *d) {
  const char *n = type->name;
  if (!strcmp(n, "int")) return is_int(*d) || (d->kind == DATUM_host && !d->as.host.value->is_bool);
  if (!strcmp(n, "float")) {
    if (d->kind == DATUM_int) *d = datum_float((double)d->as.i);
    return d->kind == DATUM_float || d->kind == DATUM_dim ||
           (d->kind == DATUM_host && !d->as.host.value->is_bool);
  }
  if (!strcmp(n, "bool"))
    return d->kind == DATUM_bool || (d->kind == DATUM_host && d->as.host.value->is_bool);
  if (!strcmp(n, "text")) return d->kind == DATUM_text;
  if (!strcmp(n, "tensor")) return tensor_kind(*d);
  if (!strcmp(n, "ints")) return ints_kind(e, type, d);
  if (!strcmp(n, "list")) return list_kind(e, type, d);
  if (!strcmp(n, "optional")) {
    TypeExpr of;
    return inner_type(type, &of) && kind_fits(e, &of, d);
  }
  if (!strcmp(n, "function")) return d->kind == DATUM_function || d->kind == DATUM_builtin;
  if (!strcmp(n, "map")) return d->kind == DATUM_map;
  return false;
}

static bool kind_fits(Eval *e, const TypeExpr *type, Datum *d) {
  switch (type->kind) {
  case TYPE_tensor:
    return tensor_kind(*d);
  case TYPE_name:
  case TYPE_apply:
    return named_kind(e, type, d);
  case TYPE_module:
    return module_kind(*d);
  case TYPE_optimizer:
    return d->kind == DATUM_optimizer;
  case TYPE_tuple:
    return (d->kind == DATUM_tuple || d->kind == DATUM_list) && d->as.list.len == type->items.len;
  default:
    return true;
  }
}

static bool check_kind(Eval *e, const Signature *s, const Formal *f, Datum *d, Span at) {
  if (d->kind == DATUM_error) return false;
  if (d->kind == DATUM_none) {
    if ((f->value && f->value->kind == EXPR_none) || is_optional(f->type)) return true;
    eval_report(e, DIAG_E0507, at, "argument `%s` of `%s` is `none`", f->name, s->what);
    return false;
  }
  if (d->kind == DATUM_leaf && e->build) { /* reads the value that it has now */
    Val v;
    if (!need_tensor(e, *d, at, f->name, &v)) return false;
    *d = datum_tensor(v);
  }
  if (kind_fits(e, f->type, d)) return true;
  const char *type = span_text(e->arena, f->type->span);
  if (d->kind == DATUM_recipe)
    eval_report(e, DIAG_E0515, at, "argument `%s` of `%s` is a call that still lacks arguments",
                f->name, s->what);
  else if (d->kind == DATUM_float && strcmp(type, "int") == 0) {
    eval_report(e, DIAG_E0501, at, "argument `%s` of `%s` must be int, not %s", f->name, s->what,
                datum_describe(e, *d));
    diag_help("`//` divides ints, `cast` converts tensors");
  } else if (datum_is_tensorlike(*d) && f->type->kind == TYPE_name)
    eval_report(e, DIAG_E0508, at, "argument `%s` of `%s` must be known while compiling; it is %s",
                f->name, s->what, datum_describe(e, *d));
  else
    eval_report(e, DIAG_E0501, at, "argument `%s` of `%s` must be `%s`, not %s", f->name, s->what,
                type, datum_describe(e, *d));
  return false;
}

/* ---------- dtypes ---------- */

static bool dtype_fits(const TypeExpr *type, Datum d, DType is) {
  char category = dtype_category(is);
  bool number =
      d.kind == DATUM_int || d.kind == DATUM_float || d.kind == DATUM_host || d.kind == DATUM_dim;
  if (!type->name || !strcmp(type->name, "float")) return category == 'f' || number;
  if (!strcmp(type->name, "int")) return category == 'i' || d.kind == DATUM_host;
  DType wanted;
  if (!dtype_parse(type->name, &wanted)) return false;
  if (number) return dtype_category(wanted) == 'f' || d.kind == DATUM_int;
  return wanted == is;
}

static bool check_dtype(Eval *e, const Signature *s, const Formal *f, Datum d, Span at) {
  if (f->type->kind != TYPE_tensor || d.kind == DATUM_none) return true;
  if (!e->build && d.kind == DATUM_tensor) return true;
  Type is = tensor_type(e, d);
  if (dtype_fits(f->type, d, is.dtype)) return true;
  const char *wanted = f->type->name ? f->type->name : "float";
  eval_report(e, DIAG_E0506, at, "argument `%s` of `%s` holds %s, this is %s", f->name, s->what,
              wanted, datum_describe(e, d));
  diag_help("`cast(%s, %s)` converts", f->name, wanted);
  return false;
}

/* ---------- all of it ---------- */

/* A default stands in the definition; what goes wrong in it is the doing of the call. */
static Datum default_value(Eval *e, const Signature *s, const Formal *f, Env *env, Span at) {
  Eval inner = *e;
  Frame call = {.caller = e->frame, .what = s->what, .at = at};
  if (call.caller) {
    call.instance = call.caller->instance;
    call.depth = call.caller->depth;
  }
  inner.frame = &call;
  return eval_expr(&inner, f->value, env);
}

static bool define_formals(Eval *e, const Signature *s, const CallArg **given, Env *env,
                           SizedArg *sized, Span at) {
  bool ok = true;
  for (uint32_t i = 0; i < s->formals.len; i++) {
    const Formal *f = &s->formals.at[i];
    Datum d = given[i] ? given[i]->value : default_value(e, s, f, env, at);
    Span place = given[i] ? given[i]->at : at;
    bool fits = check_kind(e, s, f, &d, place);
    ok = ok && fits;
    if (!fits) d = datum_error();
    env_define(e->arena, env, f->name, d, BIND_formal, place);
    sized[i] = (SizedArg){f->name, f->type, d, place};
  }
  return ok;
}

Bound signature_bind(Eval *e, const Signature *s, CallArgs args, Env *env, Span at) {
  uint32_t n = s->formals.len;
  const CallArg **given = ARENA_ARRAY(e->arena, const CallArg *, n ? n : 1);
  if (!match(e, s, args, given, at)) return BOUND_wrong;
  Bound missing = check_missing(e, s, given, at);
  if (missing != BOUND_ok) return missing;
  SizedArg *sized = ARENA_ARRAY(e->arena, SizedArg, n ? n : 1);
  if (!define_formals(e, s, given, env, sized, at)) return BOUND_wrong;
  bool ok = true;
  for (uint32_t i = 0; i < n; i++)
    ok = check_dtype(e, s, &s->formals.at[i], sized[i].value, sized[i].at) && ok;
  return ok && sizes_bind(e, s->what, sized, n, env) ? BOUND_ok : BOUND_wrong;
}

static bool result_mismatch(Eval *e, const char *what, const TypeExpr *type, Datum value, Span at) {
  eval_report(e, DIAG_E0518, at, "`%s` returns %s; it is declared as `%s`", what,
              datum_describe(e, value), span_text(e->arena, type->span));
  diag_note(type->span, "declared here");
  return false;
}

bool signature_result(Eval *e, const char *what, const TypeExpr *type, Env *env, Datum value,
                      Span at) {
  if (value.kind == DATUM_error) return false;
  if (value.kind == DATUM_none || !kind_fits(e, type, &value))
    return result_mismatch(e, what, type, value, at);
  if (type->kind == TYPE_tuple) {
    bool ok = true;
    for (uint32_t i = 0; i < type->items.len; i++)
      ok = signature_result(e, what, type->items.at[i], env, value.as.list.at[i], at) && ok;
    return ok;
  }
  if (type->kind != TYPE_tensor) return true;
  if (!e->build && value.kind == DATUM_tensor) return true;
  if (!dtype_fits(type, value, tensor_type(e, value).dtype) || !sizes_result(e, type, value, env))
    return result_mismatch(e, what, type, value, at);
  return true;
}
