/* May a kernel run for some samples of its batch at a time? In: a scheduled kernel. Out: yes, if calling it
   with fewer samples, and with pointers at the first of them, computes these samples of what it writes,
   or their part of a sum. Of a nest that is known from its indices: one sample further along the loop over
   samples, every access to what has samples is one sample further in memory, and nothing else changes. Since
   accesses are in bounds for every sample, none then leaves its own. */
#include "fuse.h"
#include "op.h"
#include "ops.h"

int64_t plan_sample_elements(const Graph *g, Val v) {
  Dim n;
  if (!type_elements(value_at(g, v)->type, &n)) return -1;
  if (n.per_batch == 0) return 0;
  return n.fixed == 0 ? n.per_batch : -1;
}

typedef struct Walk { /* the loops of a stage, of which one is over samples */
  const Program *p;
  Nest *n;
  uint32_t loop;
  int64_t step; /* turns of it that a sample takes */
} Walk;

/* How much further the index is one sample further on; false: that is no one number. */
static bool shift_of(const Walk *w, NestIndex ix, int64_t *by) {
  const Ix *x = &w->n->ix.at[ix];
  int64_t k = x->value.fixed, right = 0;
  *by = 0;
  if (x->kind == IX_loop) {
    *by = x->loop == w->loop ? w->step : 0;
    return true;
  }
  if (!dim_known(x->value)) return false;
  if (x->kind == IX_const || x->kind == IX_temp) return true; /* what data say, they say again */
  if (!shift_of(w, x->left, by)) return false;
  if (x->kind == IX_add) {
    bool known = shift_of(w, x->right, &right);
    *by += right;
    return known;
  }
  if (x->kind == IX_mul) {
    *by *= k;
    return true;
  }
  if (k <= 0 || *by % k) return false;
  *by = x->kind == IX_div ? *by / k : 0;
  return true;
}

static bool shifts_by(const Walk *w, NestIndex ix, int64_t by) {
  int64_t is;
  return shift_of(w, ix, &is) && is == by;
}

/* An index that data have a part in may leave the sample. */
static bool stays(const Walk *w, NestIndex ix, int64_t size) {
  if (!nest_ix_reads_data(w->n, ix)) return true;
  NestIndex sample = nest_ix_div(w->n, nest_ix_loop(w->n, w->loop), dim_of(w->step));
  return nest_ix_div(w->n, ix, dim_of(size)) == sample;
}

static bool access_fits(const Walk *w, Val v, NestIndex ix) {
  int64_t size = plan_sample_elements(w->n->g, v);
  return size >= 0 && shifts_by(w, ix, size) && (size == 0 || stays(w, ix, size));
}

/* A sum over samples that the nest itself makes: not known before all of them are there. */
static bool is_own_sum(const Walk *w, Val v) {
  for (uint32_t i = 0; i < w->n->roots.len; i++)
    if (w->n->roots.at[i].val == v && plan_sample_elements(w->n->g, v) == 0) return true;
  return false;
}

static bool inst_fits(const Walk *w, const Inst *i) {
  switch (i->kind) {
  case INST_load:
    return access_fits(w, i->val, i->ix) && !is_own_sum(w, i->val);
  case INST_index:
    return shifts_by(w, i->ix, 0);
  case INST_random:
    return shifts_by(w, i->ix, 0) && shifts_by(w, i->ix2, 1);
  case INST_host: {
    const Value *v = value_at(w->n->g, i->val);
    int size = op_attr(v->op, "size"); /* a size: of the whole batch */
    return size < 0 || dim_known(v->attr[size].as.dims.at[0]);
  }
  case INST_row:
    return !is_own_sum(w, i->val);
  case INST_const:
  case INST_op:
  case INST_cast:
  case INST_select:
    return true;
  }
  return false;
}

static bool root_fits(const Walk *w, const NestRoot *r) {
  int64_t size = plan_sample_elements(w->n->g, r->val);
  if (size != 0) return access_fits(w, r->val, r->ix);
  DType t = value_at(w->n->g, r->val)->type.dtype;
  return r->kind == ROOT_sum && !r->row_only && !dtype_is_half(t) &&
         !nest_ix_uses_loop(w->n, r->ix, w->loop) && shifts_by(w, r->ix, 0);
}

/* The one loop over samples around the body of a stage. */
static bool find_loop(Walk *w, const Stage *s) {
  uint32_t found = 0;
  for (uint32_t l = 0; l < w->n->outer + s->loops; l++) {
    uint32_t loop = l < w->n->outer ? l : s->first_loop + l - w->n->outer;
    Dim extent = w->n->loops.at[loop].extent;
    if (dim_known(extent)) continue;
    if (extent.fixed) return false;
    w->loop = loop;
    w->step = extent.per_batch;
    found++;
  }
  return found == 1;
}

static bool nest_fits(const Program *p, Nest *n) {
  Walk w = {.p = p, .n = n};
  for (uint32_t s = 0; s < n->stages.len; s++) {
    const Stage stage = n->stages.at[s];
    if (!find_loop(&w, &stage)) return false;
    for (uint32_t i = stage.first_inst; i < stage.first_inst + stage.insts; i++) {
      const Inst inst = n->insts.at[i]; /* the list may move: indices are made on the way */
      if (!inst_fits(&w, &inst)) return false;
    }
    for (uint32_t r = stage.first_root; r < stage.first_root + stage.roots; r++)
      if (!root_fits(&w, &n->roots.at[r])) return false;
  }
  return true;
}

static bool call_fits(const Program *p, const Kernel *k) {
  const Value *v = value_at(p->g, k->call);
  OpSamples samples = op_samples(p->g, v);
  if (k->writes.len != 1) return false;
  return samples == SAMPLES_apart || (samples == SAMPLES_summed && !dtype_is_half(v->type.dtype));
}

bool plan_chunkable(const Program *p, const Kernel *k) {
  for (uint32_t i = 0; i < k->writes.len; i++) {
    Home home = p->places.at[k->writes.at[i]].home;
    if (home != HOME_block && home != HOME_grad && home != HOME_sum) return false;
  }
  return k->nest ? nest_fits(p, k->nest) : call_fits(p, k);
}
