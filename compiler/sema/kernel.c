/* The table of hand-written kernels: what a call of a definition with `@kernel` becomes. A row's function
   turns bound arguments into inputs and attributes of a library op, or says why the kernel cannot. */
#include "kernel.h"
#include "expr.h"
#include "op.h"
#include <math.h>
#include <string.h>

typedef struct KernelRow {
  const char *name;
  const char
      *formals; /* that a definition with this kernel has; NULL: the body is all there is yet */
  const char *(*make)(const KernelCall *c, Datum *out); /* a reason, or NULL and the result */
} KernelRow;

/* ---------- arguments ---------- */

static Datum bound(const KernelCall *c, const char *name) {
  return env_find(c->env, text_intern(name))->value;
}

static bool tensor(const KernelCall *c, const char *name, Val *out) {
  return need_tensor(c->e, bound(c, name), c->at, name, out);
}

static Type type_of(const KernelCall *c, Val v) {
  return value_at(c->e->build->graph, v)->type;
}

static Val made(const KernelCall *c, OpKind op, const Val *in, int n, const Attr *attr) {
  Datum d = emit_op(c->e, op, in, n, attr, c->at);
  return d.kind == DATUM_tensor ? d.as.tensor : NO_VAL;
}

/* ---------- attention ---------- */

/* [B, H, T, K] <-> [B, T, H, K] */
static Val swap_heads(const KernelCall *c, Val x) {
  Attr attr[IR_MAX_ATTRS] = {{.as.ints = {.len = 4, .at = {0, 2, 1, 3}}}};
  return made(c, OP_permute, &x, 1, attr);
}

/* Does anything trained or frozen go into it? Its gradient is the body's business. */
static bool has_parameter(const KernelCall *c, Val v) {
  const Graph *g = c->e->build->graph;
  bool *seen = ARENA_ARRAY(c->e->arena, bool, v + 1);
  seen[v] = true;
  for (Val k = v; k > 0; k--) {
    const Value *x = value_at(g, k);
    if (seen[k] && x->op == OP_param) return true;
    for (int i = 0; seen[k] && i < x->inputs; i++) seen[x->in[i]] = true;
  }
  return false;
}

static const char *attention_mask(const KernelCall *c, Val *in, int *n) {
  if (bound(c, "mask").kind == DATUM_none) return NULL;
  if (!tensor(c, "mask", &in[*n])) return "its mask is no tensor";
  DType t = type_of(c, in[*n]).dtype;
  if (t != DT_bool && t != DT_f32) return "its mask is neither bool nor float32";
  if (t == DT_f32 && has_parameter(c, in[*n])) return "its mask has a gradient";
  ++*n;
  return NULL;
}

/* The draws are the body's: site, sample and element. */
static const char *attention_dropout(const KernelCall *c, Type q, Attr *keep, Attr *site) {
  const Graph *g = c->e->build->graph;
  double p = 0;
  int draws = 0;
  keep->as.f = 1;
  for (Val v = c->first; v < g->values.len; v++) {
    const Value *x = value_at(g, v);
    if (!op_has(x->op, OPF_random)) continue;
    draws++;
    if (x->op != OP_bernoulli || x->attr[op_attr(OP_bernoulli, "data")].as.i ||
        !dim_equal(q.dim[0], (Dim){1, 0}))
      return "its draws are not one row for each sample";
    keep->as.f = x->attr[op_attr(OP_bernoulli, "p")].as.f;
    site->as.i = x->attr[op_attr(OP_bernoulli, "site")].as.i;
  }
  datum_number(bound(c, "dropout_p"), &p);
  if (draws > 1 || (c->e->training && p > 0 && !draws)) return "it draws otherwise";
  return NULL;
}

static const char *attention(const KernelCall *c, Datum *out) {
  Val in[4];
  int n = 3;
  static const char *const names[] = {"q", "k", "v"};
  for (int i = 0; i < 3; i++) {
    if (!tensor(c, names[i], &in[i])) return "its operands are no tensors";
    Type t = type_of(c, in[i]);
    if (t.dtype != DT_f32 || t.rank != 4) return "its operands are not float32 of rank 4";
    for (int d = 1; d < 4; d++)
      if (!dim_known(t.dim[d])) return "a size other than that of the batch is not known";
  }
  Type q = type_of(c, in[0]);
  Attr attr[IR_MAX_ATTRS] = {0};
  double scale = 0;
  Datum causal = bound(c, "causal");
  attr[op_attr(OP_attention, "causal")].as.i = causal.kind == DATUM_bool && causal.as.b;
  const char *why = attention_mask(c, in, &n);
  if (!why)
    why = attention_dropout(c, q, &attr[op_attr(OP_attention, "keep")],
                            &attr[op_attr(OP_attention, "site")]);
  if (why) return why;
  if (!datum_number(bound(c, "scale"), &scale)) {
    if (bound(c, "scale").kind != DATUM_none) return "its scale is not known while compiling";
    scale = 1 / sqrt((double)q.dim[3].fixed);
  }
  attr[op_attr(OP_attention, "scale")].as.f = scale;
  for (int i = 0; i < 3; i++) in[i] = swap_heads(c, in[i]);
  *out = datum_tensor(swap_heads(c, made(c, OP_attention, in, n, attr)));
  return NULL;
}

/* ---------- the table ---------- */

static const KernelRow kernels[] = {
    {"attention", "q k v mask dropout_p causal scale", attention},
    {"batch_norm", NULL, NULL},
    {"cross_entropy", NULL, NULL},
    {"greedy", NULL, NULL},
    {"layer_norm", NULL, NULL},
    {"plateau", NULL, NULL},
    {"rms_norm", NULL, NULL},
    {"rotary", NULL, NULL},
    {"softmax", NULL, NULL},
};
enum { KERNELS = sizeof kernels / sizeof *kernels };

static const KernelRow *find(const char *name) {
  for (int i = 0; i < KERNELS; i++)
    if (!strcmp(kernels[i].name, name)) return &kernels[i];
  return NULL;
}

static bool has_formal(FormalList formals, const char *name, size_t n) {
  for (uint32_t i = 0; i < formals.len; i++)
    if (strlen(formals.at[i].name) == n && !memcmp(formals.at[i].name, name, n)) return true;
  return false;
}

void kernel_check(const char *name, FormalList formals, Span at) {
  if (!name) return;
  const KernelRow *k = find(name);
  for (const char *f = k ? k->formals : NULL; f && *f;) {
    size_t n = strcspn(f, " ");
    if (!has_formal(formals, f, n)) {
      diag_report(DIAG_E0906, at, "the kernel `%s` needs a formal `%.*s`", name, (int)n, f);
      diag_help("without `@kernel` the body is compiled");
      return;
    }
    f += n + (f[n] == ' ');
  }
  if (k) return;
  TextNearest near = {.wanted = name};
  for (int i = 0; i < KERNELS; i++) text_offer(&near, kernels[i].name);
  diag_report(DIAG_E0906, at, "no kernel is called `%s`", name);
  if (near.best)
    diag_help("did you mean `%s`?", near.best);
  else
    diag_help("without `@kernel` the body is compiled");
}

/* ---------- calls ---------- */

bool kernel_begin(KernelCall *c, Eval *e, const Decl *d, Env *env, Span at) {
  if (!d->kernel || !e->build || e->program->no_kernels) return false;
  const KernelRow *k = find(d->kernel);
  if (!k || !k->make) return false;
  Env *copy = ARENA_NEW(e->arena, Env);
  *copy = *env;
  copy->names.at = arena_copy(e->arena, env->names.at, sizeof *env->names.at * env->names.len);
  *c = (KernelCall){e, d, copy, e->build->graph->values.len, at};
  return true;
}

static void remark(const KernelCall *c, const char *why) {
  Program *p = c->e->program;
  for (uint32_t i = 0; i < p->remarks.len; i++)
    if (p->remarks.at[i].at.begin == c->at.begin && p->remarks.at[i].at.file == c->at.file) return;
  vec_push(p->arena, &p->remarks, ((KernelRemark){c->decl->kernel, why, c->at}));
}

Datum kernel_end(const KernelCall *c, Datum body) {
  if (body.kind != DATUM_tensor) return body;
  Datum out;
  const char *why = find(c->decl->kernel)->make(c, &out);
  if (!why && out.kind == DATUM_tensor &&
      type_equal(type_of(c, out.as.tensor), type_of(c, body.as.tensor)))
    return out;
  remark(c, why ? why : "its result has another type");
  return body;
}
