/* E0613: trained parameters without a gradient, with the reason; or, with
   ddp_find_unused_parameters = true, what becomes of them. In: the training graph before gradients
   were added (its first n values), and the gradient of each leaf. The evaluation graph says what only
   metrics use. */
#include "diag.h"
#include "ops.h"
#include "passes.h"
#include "ungraded.h"

typedef enum Reason { UNUSED, METRICS, CUT, REASONS } Reason;

typedef struct Ungraded {
  const Job *job;
  const Graph *g;
  uint32_t n;
  const Val *gradient; /* by leaf */
  bool *cone;          /* values that the loss is computed from */
  bool *measured;      /* by leaf: an output of the evaluation graph is computed from it */
  bool *read;          /* by leaf: the cone reads it */
} Ungraded;

static int32_t owner(const Job *job, int32_t leaf) {
  while (job->leaves.at[leaf].tied_to >= 0) leaf = job->leaves.at[leaf].tied_to;
  return leaf;
}

/* Marks what the outputs of a kind need (any kind: -1), and the leaves among it. */
static bool *mark(const Job *job, const Graph *g, uint32_t n, int kind, bool *leaves) {
  bool *live = ARENA_ARRAY(job->arena, bool, n + 1);
  for (uint32_t i = 0; i < g->outputs.len; i++) {
    const Output *o = &g->outputs.at[i];
    if ((kind < 0 || (int)o->kind == kind) && o->value < n) live[o->value] = true;
  }
  for (Val v = n; v-- > 1;) {
    const Value *x = value_at(g, v);
    if (live[v] && x->op == OP_param) leaves[owner(job, (int32_t)x->attr[0].as.i)] = true;
    for (int i = 0; live[v] && i < x->inputs; i++) live[x->in[i]] = true;
  }
  return live;
}

static bool lacks(const Ungraded *u, uint32_t i) {
  const Leaf *leaf = &u->job->leaves.at[i];
  return !leaf->buffer && leaf->trained && leaf->tied_to < 0 && u->gradient[i] == NO_VAL;
}

static Reason reason_of(const Ungraded *u, uint32_t leaf) {
  return u->read[leaf] ? CUT : u->measured[leaf] ? METRICS : UNUSED;
}

/* The first value through which no gradient of the leaf goes on. */
static Val first_cut(const Ungraded *u, uint32_t leaf, GradPasses passes) {
  bool *flows = ARENA_ARRAY(u->job->arena, bool, u->n + 1);
  for (Val v = 1; v < u->n; v++) {
    const Value *x = value_at(u->g, v);
    if (!u->cone[v]) continue;
    if (x->op == OP_param) flows[v] = owner(u->job, (int32_t)x->attr[0].as.i) == (int32_t)leaf;
    bool reached = false;
    for (int i = 0; i < x->inputs; i++) {
      reached = reached || flows[x->in[i]];
      flows[v] = flows[v] || (flows[x->in[i]] && passes(x, i));
    }
    if (dtype_category(x->type.dtype) != 'f') flows[v] = false;
    if (reached && !flows[v]) return v;
  }
  return NO_VAL;
}

static bool same_place(Span a, Span b) {
  return a.file == b.file && a.begin == b.begin && a.end == b.end;
}

/* One report for all parameters of a module that lack it for the same reason. */
static void report(const Ungraded *u, uint32_t first, bool *reported, GradPasses passes) {
  enum { SHOWN = 4 };
  static const char *const reasons[REASONS][2] = {
      [UNUSED] = {"the objective never uses it", "the objective never uses them"},
      [METRICS] = {"only metrics use it", "only metrics use them"},
      [CUT] = {"every way to `loss` is cut by `detach`, a comparison or an index",
               "every way to `loss` is cut by `detach`, a comparison or an index"}};
  const Leaf *leaf = &u->job->leaves.at[first];
  Reason reason = reason_of(u, first);
  Text names = {0};
  int n = 0;
  for (uint32_t i = first; i < u->job->leaves.len; i++) {
    const Leaf *other = &u->job->leaves.at[i];
    if (!lacks(u, i) || reason_of(u, i) != reason || !same_place(other->at, leaf->at)) continue;
    reported[i] = true;
    if (n++ < SHOWN) text_addf(&names, "%s`%s`", n > 1 ? ", " : "", other->name);
  }
  if (n > SHOWN) text_addf(&names, " and %d more", n - SHOWN);
  diag_report(DIAG_E0613, leaf->at, "parameter%s %s get%s no gradient: %s", n > 1 ? "s" : "",
              names.at, n > 1 ? "" : "s", reasons[reason][n > 1]);
  Val cut = reason == CUT ? first_cut(u, first, passes) : NO_VAL;
  if (cut != NO_VAL) {
    const Value *x = value_at(u->g, cut);
    diag_note(x->at, "`%s` cuts one here", op_def(x->op)->name);
  }
  diag_help("remove what is not needed, or `freeze` it in the model block");
  text_free(&names);
}

/* A tied tensor goes with the one that it is an alias of. */
static void leave_as_they_are(Job *job, const Val *gradient) {
  for (uint32_t i = 0; i < job->leaves.len; i++) {
    Leaf *leaf = &job->leaves.at[i];
    if (leaf->buffer || !leaf->trained || gradient[owner(job, (int32_t)i)] != NO_VAL) continue;
    leaf->trained = false;
    leaf->unused = true;
  }
}

void ungraded_settle(Job *job, uint32_t n, const Val *gradient, GradPasses passes) {
  uint32_t leaves = job->leaves.len;
  Ungraded u = {.job = job, .g = job->train, .n = n, .gradient = gradient};
  bool *reported = ARENA_ARRAY(job->arena, bool, leaves + 1);
  bool any = false, trained = false;
  for (uint32_t i = 0; i < leaves; i++) {
    any = any || lacks(&u, i);
    trained = trained || gradient[i] != NO_VAL;
  }
  if (!any) return;
  if (trained && job_setting_is(job, "ddp_find_unused_parameters", "true")) {
    leave_as_they_are(job, gradient);
    return;
  }
  u.read = ARENA_ARRAY(job->arena, bool, leaves + 1);
  u.measured = ARENA_ARRAY(job->arena, bool, leaves + 1);
  u.cone = mark(job, u.g, n, OUT_loss, u.read);
  if (job->eval) mark(job, job->eval, job->eval->values.len, -1, u.measured);
  for (uint32_t i = 0; i < leaves; i++) {
    if (lacks(&u, i) && !reported[i]) report(&u, i, reported, passes);
  }
}
