/* What only settings and the step decide, and costs double-precision functions (pow(beta, step)): one thread
   of a block computes it and the others read it in shared memory, before any of them may leave. */
#include "nest_device.h"
#include "op.h"

/* Known before the first load, from settings, scalars of the step and constants? */
static bool is_steady(const Body *b, const bool *steady, NestTemp t) {
  const Inst *x = &b->n->insts.at[t];
  if (x->kind == INST_const) return true;
  if (x->kind == INST_host) return b->depth[t] == 0;
  if (x->kind != INST_op && x->kind != INST_cast && x->kind != INST_select) return false;
  for (int j = 0; j < 3 && x->in[j]; j++)
    if (!steady[x->in[j]]) return false;
  return !x->guard;
}

static bool calls_in_double(const Inst *x) {
  return x->kind == INST_op && x->dtype == DT_f64 && strstr(op_def(x->op)->c, "F(");
}

/* Steady values that follow from a function in double, and which of them others than those read. */
static void find_wanted(const Body *b, const Stage *s, bool *wanted) {
  Arena *a = b->e->arena;
  bool *steady = ARENA_ARRAY(a, bool, b->n->insts.len + 1);
  bool *costly = ARENA_ARRAY(a, bool, b->n->insts.len + 1);
  for (uint32_t i = s->first_inst; i < s->first_inst + s->insts; i++) {
    const Inst *x = &b->n->insts.at[i];
    steady[i] = is_steady(b, steady, i);
    costly[i] = steady[i] && b->uses[i] && calls_in_double(x);
    for (int j = 0; j < 3 && x->in[j]; j++)
      costly[i] = costly[i] || (steady[i] && costly[x->in[j]]);
  }
  for (uint32_t i = s->first_inst; i < s->first_inst + s->insts; i++)
    for (int j = 0; j < 3 && b->uses[i] && b->n->insts.at[i].in[j]; j++) {
      uint32_t from = b->n->insts.at[i].in[j];
      wanted[from] = wanted[from] || (costly[from] && !costly[i]);
    }
  for (uint32_t r = s->first_root; r < s->first_root + s->roots; r++) {
    NestTemp t = b->n->roots.at[r].temp;
    wanted[t] = wanted[t] || (costly[t] && b->uses[t]);
  }
}

void device_once(Device *d) {
  Body *b = &d->b;
  const Piece *piece = d->piece;
  Arena *a = b->e->arena;
  if (piece->threads <= 32) return; /* a warp is as fast as a thread */
  const char **name = ARENA_ARRAY(a, const char *, b->n->insts.len + 1);
  bool any = false;
  for (uint32_t p = 0; p < piece->passes.len; p++) {
    const Pass *pass = &piece->passes.at[p];
    const Stage *s = &b->n->stages.at[pass->stage];
    bool *wanted = ARENA_ARRAY(a, bool, b->n->insts.len + 1);
    scalar_begin_stage(b, s, &pass->path, pass->root);
    find_wanted(b, s, wanted);
    for (uint32_t i = s->first_inst; i < s->first_inst + s->insts; i++) {
      if (!wanted[i] || name[i]) continue;
      name[i] = arena_printf(a, "once%u", b->names++);
      body_line(b, "__shared__ %s %s;", b->e->target->compute_type(b->n->insts.at[i].dtype),
                name[i]);
      any = true;
    }
  }
  if (!any) return;
  device_open(d, piece->along > 1 ? "if (threadIdx.x == 0 && threadIdx.y == 0)"
                                  : "if (threadIdx.x == 0)");
  b->variable = name;
  for (uint32_t k = 0; k < b->n->stages.len; k++) {
    const Stage *s = &b->n->stages.at[k];
    if (!scalar_want(b, s, name)) continue;
    const LoopPath none = {0};
    scalar_statements(b, s, &none, 0);
    for (uint32_t i = s->first_inst; i < s->first_inst + s->insts; i++)
      if (name[i]) scalar_name(b, i);
  }
  b->variable = NULL;
  device_close(d);
  body_line(b, "__syncthreads();");
  b->once = name;
}
