/* The op table: rows of ops.def joined with the functions of the families, at the first use. */
#include "family.h"
#include "die.h"
#include "ir_text.h"
#include <math.h>
#include <string.h>

/* ---------- the C expressions, compiled ---------- */
/* Rounded down, and the remainder with the sign of the divisor, as Python and PyTorch have them. */
static double pymod(double a, double b) {
  double m = fmod(a, b);
  return m != 0 && (b < 0) != (m < 0) ? m + b : m;
}
static double floordiv(double a, double b) {
  if (b == 0) return a / b;
  double m = fmod(a, b), q = (a - m) / b;
  if (m != 0 && (b < 0) != (m < 0)) q -= 1;
  if (q == 0) return copysign(0.0, a / b);
  double whole = floor(q);
  return q - whole > 0.5 ? whole + 1 : whole;
}

#define F(f) f
#define OP_EW(name, n, flags, domain, expression, ...)                                             \
  static double eval_##name(double a, double b, double c) {                                        \
    (void)a, (void)b, (void)c;                                                                     \
    return expression;                                                                             \
  }
#include "ops.def"
#undef F

/* ---------- a row without its gradients does not compile ---------- */
#define COUNT_(...) (int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *))
#define OP_EW(name, n, flags, domain, expression, ...)                                             \
  _Static_assert(COUNT_(__VA_ARGS__) == (n), #name ": one gradient for each input");
#define GRADS_(n) ((n) > 0 ? (n) : (n) == -1 ? IR_MAX_LISTED : 1)
#define OP_FN(name, n, flags, attributes, sample, ...)                                             \
  _Static_assert(COUNT_(__VA_ARGS__) == GRADS_(n), #name ": one gradient for each input");
#include "ops.def"

/* ---------- rows ---------- */
static OpDef table[OP_COUNT] = {
#define OP_EW(nm, n, fl, dom, expression, ...)                                                     \
  [OP_##nm] = {.name = #nm,                                                                        \
               .inputs = (n),                                                                      \
               .flags = (fl) | OPF_elementwise,                                                    \
               .domain = (dom),                                                                    \
               .c = #expression,                                                                   \
               .grad = {__VA_ARGS__},                                                              \
               .eval = eval_##nm,                                                                  \
               .infer = elementwise_infer,                                                         \
               .interpret = elementwise_interpret},
#define OP_FN(nm, n, fl, attributes, smp, ...)                                                     \
  [OP_##nm] = {.name = #nm, .inputs = (n), .flags = (fl), .sample = (smp), .grad = {__VA_ARGS__}},
#include "ops.def"
};

static const char *const attribute_texts[OP_COUNT] = {
#define OP_FN(nm, n, fl, attributes, smp, ...) [OP_##nm] = (attributes),
#include "ops.def"
};

static const char *const bodies[OP_COUNT] = {
#define OP_BODY(nm, text) [OP_##nm] = (text),
#include "ops.def"
};

/* ---------- the attribute column ---------- */
static AttrKind kind_named(const char *op, const char *word) {
  static const char *const names[] = {
      [ATTR_int] = "int",   [ATTR_float] = "float", [ATTR_bool] = "bool",
      [ATTR_text] = "text", [ATTR_axes] = "axes",   [ATTR_ints] = "ints",
      [ATTR_dims] = "dims", [ATTR_dtype] = "dtype", [ATTR_graph] = "graph",
  };
  for (size_t k = 0; k < sizeof names / sizeof *names; k++)
    if (!strcmp(word, names[k])) return (AttrKind)k;
  die("ops.def: %s: unknown kind of attribute `%s`", op, word);
}

static void read_default(OpDef *d, AttrDef *a, IrText *t) {
  a->has_default = true;
  if (!strncmp(t->at, "none", 4)) {
    t->at += 4;
    if (a->kind == ATTR_dims)
      a->value.as.dims.len = -1;
    else
      a->value.as.ints.len = -1;
    return;
  }
  check(ir_text_attr(t, a->kind, &a->value), "ops.def: %s: bad default of `%s`", d->name, a->name);
}

static void read_attributes(OpDef *d, const char *text) {
  IrText t = {text};
  char word[32];
  while (ir_text_word(&t, word, sizeof word)) {
    check(d->attrs < IR_MAX_ATTRS, "ops.def: %s: too many attributes", d->name);
    AttrDef *a = &d->attr[d->attrs++];
    a->name = text_intern(word);
    check(ir_text_char(&t, ':') && ir_text_word(&t, word, sizeof word),
          "ops.def: %s: attribute `%s` has no kind", d->name, a->name);
    a->kind = kind_named(d->name, word);
    if (ir_text_char(&t, '=')) read_default(d, a, &t);
  }
  check(!*t.at, "ops.def: %s: attributes end before `%s`", d->name, t.at);
}

static void add_family(const OpCode *code) {
  for (; code->op != OP_none; code++) {
    OpDef *d = &table[code->op];
    check(!d->infer, "%s stands in two families", d->name);
    d->infer = code->infer;
    d->interpret = code->interpret;
    d->lower = code->lower;
    d->flops = code->flops;
    d->part_type = code->part_type;
    d->interpret_part = code->interpret_part;
    check(!code->part_type || (d->flags & OPF_library), "%s: by-products of no call", d->name);
  }
}

static void make_table(void) {
  static const OpCode *const families[] = {
      family_sources, family_cast,  family_reduce,   family_windows,   family_conv,
      family_pool,    family_order, family_movement, family_slices,    family_indexing,
      family_matmul,  family_part,  family_scan,     family_attention, family_external};
  for (size_t i = 0; i < sizeof families / sizeof *families; i++) add_family(families[i]);
  for (int op = OP_none + 1; op < OP_COUNT; op++) {
    OpDef *d = &table[op];
    check(d->infer, "%s stands in no family", d->name);
    check(!bodies[op] == !(d->flags & OPF_decompose), "%s: OP_BODY and OPF_decompose", d->name);
    d->body = bodies[op];
    if (attribute_texts[op]) read_attributes(d, attribute_texts[op]);
  }
}

/* ---------- use ---------- */
const OpDef *op_def(OpKind op) {
  static bool made;
  if (!made) {
    made = true; /* first: families' checks may ask for names */
    make_table();
  }
  check(op > OP_none && op < OP_COUNT, "no op %d", (int)op);
  return &table[op];
}

bool op_find(const char *name, OpKind *out) {
  for (int op = OP_none + 1; op < OP_COUNT; op++) {
    if (strcmp(table[op].name, name) != 0) continue;
    *out = (OpKind)op;
    return true;
  }
  return false;
}

int op_attr(OpKind op, const char *name) {
  const OpDef *d = op_def(op);
  for (int i = 0; i < d->attrs; i++)
    if (!strcmp(d->attr[i].name, name)) return i;
  return -1;
}
