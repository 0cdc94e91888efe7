/* See program_eval.h. */
#include "program_eval.h"
#include "die.h"
#include "fuse.h"
#include <math.h>

/* ---------- sources ---------- */
static double noise(uint64_t kind, uint64_t which, uint64_t i) {
  uint64_t key[3] = {kind, which, i};
  return (double)(text_hash(key, sizeof key, 99) >> 11) / 9007199254740992.0;
}

static double sample_element(const Graph *g, Val v, int64_t i) {
  const Value *x = value_at(g, v);
  OpKind op = x->op;
  uint64_t which = 0;
  if (op == OP_host)
    which = text_hash(x->attr[0].as.text, strlen(x->attr[0].as.text), 1);
  else if (op == OP_input || op == OP_param || op == OP_buffer || op == OP_count)
    which = (uint64_t)x->attr[0].as.i;
  else if (op_attr(op, "site") >= 0)
    which = (uint64_t)x->attr[op_attr(op, "site")].as.i;
  double u = noise((uint64_t)op, which, (uint64_t)i);
  if (op == OP_bernoulli) return u < x->attr[0].as.f;
  if (op == OP_count || op == OP_host || op == OP_share) return 1 + floor(4 * u);
  if (dtype_category(x->type.dtype) == 'f') return floor(64 * (2 * u - 1)) / 32;
  if (x->type.dtype == DT_bool) return u < 0.5;
  return floor(3 * u); /* indices: tables in tests have three rows or more */
}

void sample_source(void *self, const Graph *g, Val v, double *out) {
  const int64_t *batch = self;
  int64_t n = type_elements_at(value_at(g, v)->type, *batch);
  for (int64_t i = 0; i < n; i++) out[i] = sample_element(g, v, i);
}

double **graph_eval(Arena *a, const Graph *g, int64_t batch) {
  Interp how = {.batch = batch, .source = sample_source, .self = &batch};
  double **all = interp_run(a, g, &how);
  double **out = ARENA_ARRAY(a, double *, g->outputs.len);
  for (uint32_t i = 0; i < g->outputs.len; i++) out[i] = all[g->outputs.at[i].value];
  return out;
}

/* ---------- memory ---------- */
typedef struct Machine {
  Arena *a;
  const Program *p;
  int64_t batch; /* of the kernels that run: in chunks, that of a chunk */
  int64_t first; /* its first sample in the whole batch */
  bool together; /* products do what their epilogues say */
  double *block;
  double **own; /* [values] what does not lie in the block */
  const char *fault;
} Machine;

static bool same_place(const ValuePlace *x, const ValuePlace *y) {
  return x->home == y->home && x->index == y->index &&
         (x->home == HOME_buffer || x->home == HOME_state);
}

static double *cell(Machine *m, Val v, int64_t i) {
  const ValuePlace *place = &m->p->places.at[v];
  Type t = value_at(m->p->g, v)->type;
  static double nowhere;
  if (i < 0 || i >= type_elements_at(t, m->batch)) {
    m->fault = "an access outside of a value";
    return &nowhere;
  }
  if (place->home == HOME_alias) return cell(m, place->alias, i);
  int64_t sample = plan_sample_elements(m->p->g, v);
  if (sample > 0 && place->chunk != CHUNK_own) i += m->first * sample;
  if (place->home == HOME_block) return &m->block[place->offset + i * dtype_bytes(t.dtype)];
  if (place->home == HOME_none || !m->own[v]) {
    m->fault = "a value is used that is not in memory";
    return &nowhere;
  }
  return &m->own[v][i];
}

static void lay_out(Machine *m) {
  const Program *p = m->p;
  m->block = ARENA_ARRAY(m->a, double, p->block_bytes + 1);
  for (int64_t i = 0; i < p->block_bytes; i++) m->block[i] = NAN;
  m->own = ARENA_ARRAY(m->a, double *, p->places.len);
  for (Val v = 1; v < p->places.len; v++) {
    const ValuePlace *place = &p->places.at[v];
    if (place->home == HOME_none || place->home == HOME_block || place->home == HOME_alias)
      continue;
    for (Val w = 1; w < v; w++)
      if (same_place(place, &p->places.at[w])) m->own[v] = m->own[w];
    if (m->own[v]) continue;
    int64_t n = type_elements_at(value_at(p->g, v)->type, m->batch);
    m->own[v] = ARENA_ARRAY(m->a, double, n + 1);
    OpKind op = value_at(p->g, v)->op;
    bool source = op == OP_input || op == OP_param || op == OP_buffer;
    for (int64_t i = 0; i < n; i++)
      m->own[v][i] = source ? sample_element(p->g, v, i) : place->home == HOME_sum ? 0 : NAN;
  }
}

/* Accumulated homes hold more than this micro-batch's value: nobody may read them. */
static double read_cell(Machine *m, Val v, int64_t i) {
  Home home = m->p->places.at[v].home;
  if (home == HOME_grad || home == HOME_sum || home == HOME_out)
    m->fault = "an output is read from where it accumulates";
  return *cell(m, v, i);
}

/* In chunks after the first, what has no samples is a sum over them. */
static bool adds_to(const Machine *m, Val v) {
  return m->first > 0 && plan_sample_elements(m->p->g, v) == 0;
}

static void put(Machine *m, Val v, int64_t i, double x) {
  *cell(m, v, i) = (adds_to(m, v) ? *cell(m, v, i) : 0) + x;
}

/* ---------- nests ---------- */
typedef struct Run {
  Machine *m;
  const Nest *n;
  int64_t *loop; /* [loops] */
  double *temp;  /* [insts] */
  double **row;  /* [roots] per element of the root */
  double **sum;  /* [roots] what chunks before have summed */
  bool **touched;
  double **best;
} Run;

static int64_t index_value(const Run *r, NestIndex ix) {
  const Ix *x = &r->n->ix.at[ix];
  int64_t k = dim_at(x->value, r->m->batch);
  switch (x->kind) {
  case IX_const:
    return k;
  case IX_loop:
    return r->loop[x->loop];
  case IX_add:
    return index_value(r, x->left) + index_value(r, x->right);
  case IX_mul:
    return index_value(r, x->left) * k;
  case IX_div:
    return index_value(r, x->left) / k;
  case IX_mod:
    return index_value(r, x->left) % k;
  case IX_temp:
    return (int64_t)r->temp[x->temp];
  }
  return 0;
}

static double to_type(double v, DType t) {
  if (t == DT_bool) return v != 0;
  return dtype_category(t) == 'f' ? v : trunc(v);
}

static double row_read(const Run *r, Val v) {
  for (uint32_t i = 0; i < r->n->roots.len; i++) {
    const NestRoot *root = &r->n->roots.at[i];
    if (root->val != v) continue;
    int64_t at = index_value(r, root->ix);
    if (!r->touched[i][at]) r->m->fault = "a row value is read before it is there";
    return r->row[i][at];
  }
  r->m->fault = "a row value that no stage leaves";
  return NAN;
}

static double inst_value(const Run *r, const Inst *i) {
  const double *t = r->temp;
  Machine *m = r->m;
  switch (i->kind) {
  case INST_const:
    return i->k;
  case INST_load:
    if (i->guard && t[i->guard] == 0) return 0;
    return read_cell(m, i->val, index_value(r, i->ix));
  case INST_op:
    return to_type(op_def(i->op)->eval(t[i->in[0]], t[i->in[1]], t[i->in[2]]), i->dtype);
  case INST_cast:
    return to_type(t[i->in[0]], i->dtype);
  case INST_index:
    return (double)index_value(r, i->ix);
  case INST_random: {
    int64_t all = type_elements_at(value_at(m->p->g, i->val)->type, m->batch);
    bool batched = false;
    Type type = value_at(m->p->g, i->val)->type;
    for (int d = 0; d < type.rank; d++) batched = batched || !dim_known(type.dim[d]);
    int64_t each = batched ? all / m->batch : all;
    int64_t sample = index_value(r, i->ix2) + (batched ? m->first : 0);
    return sample_element(m->p->g, i->val, sample * each + index_value(r, i->ix));
  }
  case INST_select:
    return t[i->in[0]] != 0 ? t[i->in[1]] : t[i->in[2]];
  case INST_host:
    if (value_at(m->p->g, i->val)->op == OP_dimval)
      return (double)dim_at(value_at(m->p->g, i->val)->attr[0].as.dims.at[0], m->batch);
    return sample_element(m->p->g, i->val, 0);
  case INST_row:
    return row_read(r, i->val);
  }
  return NAN;
}

/* Position among the loops that the root reduces over, row-major. */
static int64_t reduced_position(const Run *r, const Stage *s, const NestRoot *root) {
  int64_t at = 0;
  for (uint32_t l = 0; l < s->loops; l++) {
    uint32_t loop = s->first_loop + l;
    if (nest_ix_uses_loop(r->n, root->ix, loop)) continue;
    at = at * dim_at(r->n->loops.at[loop].extent, r->m->batch) + r->loop[loop];
  }
  return at;
}

static void root_step(Run *r, const Stage *s, uint32_t number) {
  const NestRoot *root = &r->n->roots.at[number];
  double t = r->temp[root->temp], *to = &r->row[number][index_value(r, root->ix)];
  int64_t at = index_value(r, root->ix);
  if (root->kind == ROOT_store && r->touched[number][at]) r->m->fault = "an element stored twice";
  bool first = !r->touched[number][at];
  r->touched[number][at] = true;
  if (root->kind == ROOT_store) *to = t;
  if (root->kind == ROOT_sum) *to = first ? t : *to + t;
  if (root->kind == ROOT_max) *to = first || t > *to ? t : *to;
  if (root->kind == ROOT_argmax && (first || t > r->best[number][at])) {
    r->best[number][at] = t;
    *to = (double)reduced_position(r, s, root);
  }
  if (root->row_only) return;
  double *memory = cell(r->m, root->val, at);
  if (first) r->sum[number][at] = adds_to(r->m, root->val) ? *memory : 0;
  *memory = r->sum[number][at] + *to;
}

static void run_inner(Run *r, const Stage *s, uint32_t depth) {
  if (depth < s->loops) {
    uint32_t loop = s->first_loop + depth;
    int64_t n = dim_at(r->n->loops.at[loop].extent, r->m->batch);
    for (r->loop[loop] = 0; r->loop[loop] < n; r->loop[loop]++) run_inner(r, s, depth + 1);
    return;
  }
  for (uint32_t i = s->first_inst; i < s->first_inst + s->insts; i++)
    r->temp[i] = inst_value(r, &r->n->insts.at[i]);
  for (uint32_t i = s->first_root; i < s->first_root + s->roots; i++) root_step(r, s, i);
}

static void run_outer(Run *r, uint32_t depth) {
  if (depth < r->n->outer) {
    int64_t n = dim_at(r->n->loops.at[depth].extent, r->m->batch);
    for (r->loop[depth] = 0; r->loop[depth] < n; r->loop[depth]++) run_outer(r, depth + 1);
    return;
  }
  for (uint32_t s = 0; s < r->n->stages.len; s++) run_inner(r, &r->n->stages.at[s], 0);
}

static void run_nest(Machine *m, const Nest *n) {
  Run r = {.m = m, .n = n};
  r.loop = ARENA_ARRAY(m->a, int64_t, n->loops.len + 1);
  r.temp = ARENA_ARRAY(m->a, double, n->insts.len);
  r.row = ARENA_ARRAY(m->a, double *, n->roots.len);
  r.sum = ARENA_ARRAY(m->a, double *, n->roots.len);
  r.best = ARENA_ARRAY(m->a, double *, n->roots.len);
  r.touched = ARENA_ARRAY(m->a, bool *, n->roots.len);
  for (uint32_t i = 0; i < n->roots.len; i++) {
    int64_t size = type_elements_at(value_at(n->g, n->roots.at[i].val)->type, m->batch);
    r.row[i] = ARENA_ARRAY(m->a, double, size);
    r.sum[i] = ARENA_ARRAY(m->a, double, size);
    r.best[i] = ARENA_ARRAY(m->a, double, size);
    r.touched[i] = ARENA_ARRAY(m->a, bool, size);
  }
  run_outer(&r, 0);
  for (uint32_t i = 0; i < n->roots.len; i++) {
    int64_t size = type_elements_at(value_at(n->g, n->roots.at[i].val)->type, m->batch);
    for (int64_t k = 0; k < size; k++)
      if (!r.touched[i][k]) m->fault = "an element that no iteration writes";
  }
}

/* An operand of a call: what its strides say, where it is a view of what lies in memory. */
static double read_operand(Machine *m, Val v, int64_t k) {
  Val base = v;
  View view;
  while (m->p->places.at[base].home == HOME_alias) base = m->p->places.at[base].alias;
  if (!plan_view(m->p->g, v, base, &view)) {
    m->fault = "an operand that is no view of its memory";
    return NAN;
  }
  Type t = value_at(m->p->g, v)->type;
  int64_t flat = dim_at(view.offset, m->batch);
  for (int i = t.rank; i-- > 0;) {
    int64_t n = dim_at(t.dim[i], m->batch);
    flat += k % n * dim_at(view.stride[i], m->batch);
    k /= n;
  }
  return read_cell(m, base, flat);
}

static void read_operands(Machine *m, const Value *x, const double **in) {
  for (int i = 0; i < x->inputs; i++) {
    int64_t n = type_elements_at(value_at(m->p->g, x->in[i])->type, m->batch);
    double *dense = ARENA_ARRAY(m->a, double, n);
    for (int64_t k = 0; k < n; k++) dense[k] = read_operand(m, x->in[i], k);
    in[i] = dense;
  }
}

static void run_call(Machine *m, const Kernel *kernel) {
  Val v = kernel->call;
  const Value *x = value_at(m->p->g, v);
  const double *in[IR_MAX_INPUTS];
  read_operands(m, x, in);
  int64_t n = type_elements_at(x->type, m->batch);
  double *out = ARENA_ARRAY(m->a, double, n);
  op_def(x->op)->interpret(m->p->g, x, m->batch, in, out);
  for (int64_t k = 0; k < n; k++) put(m, v, k, out[k]);
  for (uint32_t w = 1; w < kernel->writes.len; w++) {
    Val part = kernel->writes.at[w];
    const Value *y = value_at(m->p->g, part);
    n = type_elements_at(y->type, m->batch);
    out = ARENA_ARRAY(m->a, double, n);
    op_def(x->op)->interpret_part(m->p->g, x, m->batch, in, op_part_index(y), out);
    for (int64_t k = 0; k < n; k++) *cell(m, part, k) = out[k];
  }
}

/* ---------- a product with its epilogue ---------- */
static void poison(Machine *m, Val v) {
  if (!v || adds_to(m, v)) return;
  int64_t n = type_elements_at(value_at(m->p->g, v)->type, m->batch);
  for (int64_t i = 0; i < n; i++) *cell(m, v, i) = NAN;
}

static double gelu(double x, double *slope) {
  const double k = 0.7978845608028654;
  double t = tanh(k * (x + 0.044715 * x * x * x));
  *slope = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * k * (1 + 3 * 0.044715 * x * x);
  return 0.5 * x * (1 + t);
}

static void add_columns(Machine *m, Val sums, const double *of, int64_t n) {
  int64_t columns = type_elements_at(value_at(m->p->g, sums)->type, m->batch);
  for (int64_t i = 0; i < columns; i++) {
    double s = 0;
    for (int64_t k = i; k < n; k += columns) s += of[k];
    put(m, sums, i, s);
  }
}

/* What is written is lost before anything is read: it must not lie there. */
static void run_together(Machine *m, const Kernel *kernel) {
  const Epilogue *e = &kernel->epilogue;
  const Value *x = value_at(m->p->g, e->product);
  int64_t n = type_elements_at(x->type, m->batch), columns = x->type.dim[x->type.rank - 1].fixed;
  double *out = ARENA_ARRAY(m->a, double, n), slope;
  const double *in[IR_MAX_INPUTS];
  poison(m, e->y);
  poison(m, e->sums);
  if (e->kind == EPILOGUE_gelu) poison(m, e->aux);
  read_operands(m, x, in);
  op_def(x->op)->interpret(m->p->g, x, m->batch, in, out);
  for (int64_t i = 0; i < n; i++) {
    bool biased = e->bias && x->op != OP_matmul_bias;
    if (biased) out[i] += read_cell(m, e->bias, i % columns);
    if (e->kind == EPILOGUE_gelu && e->aux) *cell(m, e->aux, i) = out[i];
    if (e->kind == EPILOGUE_gelu) out[i] = gelu(out[i], &slope);
    if (e->kind == EPILOGUE_dgelu) {
      (void)gelu(read_cell(m, e->aux, i), &slope);
      out[i] *= slope;
    }
    put(m, e->y, i, out[i]);
  }
  if (e->sums && e->kind == EPILOGUE_dgelu) add_columns(m, e->sums, out, n);
  if (e->kind == EPILOGUE_bgrad)
    add_columns(m, e->sums, in[!e->first],
                type_elements_at(value_at(m->p->g, x->in[!e->first])->type, m->batch));
}

static void run_kernel(Machine *m, const Kernel *k) {
  if (m->together && k->apart) return;
  if (m->together && k->epilogue.kind)
    run_together(m, k);
  else if (k->kind == KERNEL_nest)
    run_nest(m, k->nest);
  else
    run_call(m, k);
}

/* Kernels from..to for so many samples at a time. */
static void run_chunks(Machine *m, uint32_t from, uint32_t to, int64_t samples) {
  int64_t batch = m->batch;
  for (; m->first < batch; m->first += samples) {
    m->batch = batch - m->first < samples ? batch - m->first : samples;
    for (uint32_t i = from; i < to; i++) run_kernel(m, &m->p->kernels.at[i]);
  }
  m->first = 0;
  m->batch = batch;
}

Results program_eval_in_chunks(Arena *a, const Program *p, int64_t batch, bool together,
                               int64_t samples) {
  Machine m = {.a = a, .p = p, .batch = batch, .together = together};
  Results r = {.at = ARENA_ARRAY(a, double *, p->g->outputs.len)};
  lay_out(&m);
  for (uint32_t i = 0; i < p->kernels.len; i++) {
    const Kernel *k = &p->kernels.at[i];
    if (p->chunk.count && i == p->chunk.first) {
      run_chunks(&m, i, i + p->chunk.count, p->chunk.samples);
      i += p->chunk.count - 1;
    } else if (samples && !(together && (k->apart || k->epilogue.kind)) && plan_chunkable(p, k)) {
      run_chunks(&m, i, i + 1, samples);
      r.chunked++;
    } else {
      run_kernel(&m, k);
    }
  }
  for (uint32_t i = 0; i < p->g->outputs.len; i++) {
    Val v = p->g->outputs.at[i].value;
    int64_t n = type_elements_at(value_at(p->g, v)->type, batch);
    r.at[i] = ARENA_ARRAY(a, double, n);
    for (int64_t k = 0; k < n; k++) r.at[i][k] = *cell(&m, v, k);
  }
  r.fault = m.fault;
  return r;
}

Results program_eval(Arena *a, const Program *p, int64_t batch, bool together) {
  return program_eval_in_chunks(a, p, batch, together, 0);
}
