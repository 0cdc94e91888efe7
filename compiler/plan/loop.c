/* The plan of a loop of the program. In: the kernel of an OP_scan. Out: its body as a program of its own,
   where what is carried lies from turn to turn, and how much scratch the turns share.

   What a turn yields goes to its place in the stack at once. What is carried needs no copy: where the
   same value is yielded, it lies in that stack, and the next turn reads it there; where the value before
   each turn is yielded (for the backward loop), a turn writes into the place that the next one reads;
   else two buffers take turns, and the last turn writes the result. */
#include "fuse.h"
#include "op.h"
#include "scan.h"

Val plan_loop_result(const Program *p, const Kernel *k, int result) {
  return result == 0 ? k->call : plan_part(p, k, result);
}

static bool is_argument(const Scan *s, Val v, int k) {
  const Value *x = value_at(s->body, v);
  return x->op == OP_arg && x->attr[0].as.i == k;
}

/* The stack that carried j lies in, or -1; `taken`: stacks that are somebody's already. */
static int find_stack(const Program *p, const Kernel *k, const Scan *s, int j, bool before,
                      bool *taken) {
  for (int m = 0; m < s->yields; m++) {
    if (taken[m] || plan_loop_result(p, k, s->carried + m) == NO_VAL) continue;
    Val y = scan_output(s, s->carried + m);
    if (before ? !is_argument(s, y, s->over + j) : y != scan_output(s, j)) continue;
    taken[m] = true;
    return m;
  }
  return -1;
}

/* The body without what lies elsewhere or nowhere. */
static Graph *body_to_plan(const Program *p, const Kernel *k, const Scan *s, Arena *a,
                           const bool *taken) {
  Graph *g = ARENA_NEW(a, Graph);
  *g = *s->body;
  memset(&g->outputs, 0, sizeof g->outputs);
  for (uint32_t i = 0; i < s->body->outputs.len; i++) {
    Output o = s->body->outputs.at[i];
    bool lies = o.kind == OUT_carried ||
                (!taken[o.index] && plan_loop_result(p, k, s->carried + o.index) != NO_VAL);
    if (lies) vec_push(a, &g->outputs, o);
  }
  return g;
}

static int64_t bytes_of(Type t, int64_t batch) {
  return plan_align(type_elements_at(t, batch) * dtype_bytes(t.dtype), PLAN_ALIGN);
}

static int64_t add_spare(PlanLoop *loop, Type t, int64_t batch) {
  int64_t at = loop->scratch.bytes;
  loop->scratch.bytes += bytes_of(t, batch);
  return at;
}

static void place_carried(const Program *p, const Kernel *k, const Scan *s, PlanLoop *loop) {
  for (int j = 0; j < s->carried; j++) {
    LoopCarry *c = &loop->carry[j];
    Type t = scan_result_type(s, j);
    bool kept = plan_loop_result(p, k, j) != NO_VAL;
    c->last = c->other = -1;
    if (c->after >= 0) continue;
    if (!kept) c->last = add_spare(loop, t, p->batch_max);
    if (c->before < 0) c->other = add_spare(loop, t, p->batch_max);
  }
}

PlanLoop *plan_loop(const Program *p, const Kernel *k, Arena *a, const ProgramOptions *options) {
  Scan s = scan_of(value_at(p->g, k->call));
  PlanLoop *loop = ARENA_NEW(a, PlanLoop);
  bool *taken = ARENA_ARRAY(a, bool, s.yields + 1);
  loop->carry = ARENA_ARRAY(a, LoopCarry, s.carried + 1);
  for (int j = 0; j < s.carried; j++) {
    loop->carry[j].after = find_stack(p, k, &s, j, false, taken);
    loop->carry[j].before = loop->carry[j].after < 0 ? find_stack(p, k, &s, j, true, taken) : -1;
  }
  ProgramOptions inner = *options;
  inner.in_order = true;
  inner.epilogues = false; /* nobody has looked at them in turns yet */
  inner.chunk = 0;
  loop->body.backward = s.reverse;
  plan_program(&loop->body, a, body_to_plan(p, k, &s, a, taken), &inner);
  loop->scratch.bytes = loop->body.block_bytes;
  place_carried(p, k, &s, loop);
  return loop;
}
