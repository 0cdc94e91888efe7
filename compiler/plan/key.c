/* Structural key of a nest: two kernels with equal keys can be one function. In: a kernel of a
   program with homes set. Out: a hash of its text with memory named by order of first use. */
#include "fuse.h"
#include "op.h"

typedef struct Keyed {
  const Program *p;
  const Nest *n;
  Text text;
  Val seen[256]; /* memory in order of first use */
  uint32_t used;
} Keyed;

static bool same_memory(const Program *p, Val a, Val b) {
  const ValuePlace *x = &p->places.at[a], *y = &p->places.at[b];
  if ((x->updates ? x->updates : a) == (y->updates ? y->updates : b)) return true;
  return x->home == y->home && x->home != HOME_block && x->home != HOME_none &&
         x->index == y->index;
}

static void add_memory(Keyed *k, Val v) {
  uint32_t i = 0;
  while (i < k->used && !same_memory(k->p, k->seen[i], v)) i++;
  if (i == k->used && k->used < 256) k->seen[k->used++] = v;
  text_addf(&k->text, "m%u:%s ", i, dtype_name(value_at(k->p->g, v)->type.dtype));
}

static void add_dims(Text *t, const Dim *d, int n) {
  for (int i = 0; i < n; i++) {
    dim_print(t, d[i]);
    text_add(t, ",");
  }
}

static void add_attributes(Keyed *k, Val v) {
  const Value *x = value_at(k->p->g, v);
  const OpDef *def = op_def(x->op);
  text_addf(&k->text, "%s(", def->name);
  for (int i = 0; i < def->attrs; i++) {
    const Attr *a = &x->attr[i];
    if (op_has(x->op, OPF_random) && !strcmp(def->attr[i].name, "site")) continue; /* argument */
    switch (def->attr[i].kind) {
    case ATTR_int:
    case ATTR_bool:
    case ATTR_dtype:
      text_addf(&k->text, "%lld;", (long long)a->as.i);
      break;
    case ATTR_float:
      text_add_double(&k->text, a->as.f);
      text_add(&k->text, ";");
      break;
    case ATTR_text:
      text_addf(&k->text, "%s;", a->as.text ? a->as.text : "");
      break;
    case ATTR_axes:
    case ATTR_ints:
      for (int d = 0; d < a->as.ints.len; d++)
        text_addf(&k->text, "%lld,", (long long)a->as.ints.at[d]);
      break;
    case ATTR_graph: /* of calls, which are no nests */
      break;
    case ATTR_dims:
      add_dims(&k->text, a->as.dims.at, a->as.dims.len);
      break;
    }
  }
  text_add(&k->text, ") ");
}

static void add_inst(Keyed *k, const Inst *i) {
  text_addf(&k->text, "%d %d %d %u %u %u ", (int)i->kind, (int)i->dtype, (int)i->op, i->in[0],
            i->in[1], i->in[2]);
  if (i->kind == INST_const) text_add_double(&k->text, i->k);
  if (i->kind == INST_load || i->kind == INST_random) add_memory(k, i->val);
  if (i->kind == INST_host || i->kind == INST_random) add_attributes(k, i->val);
  if (i->ix) nest_ix_print(&k->text, k->n, i->ix);
  text_add(&k->text, " ");
  if (i->ix2) nest_ix_print(&k->text, k->n, i->ix2);
  text_addf(&k->text, " %u\n", i->guard);
}

/* INST_row names a root by its place in the list. */
static void add_row(Keyed *k, Val v) {
  for (uint32_t r = 0; r < k->n->roots.len; r++)
    if (k->n->roots.at[r].val == v) text_addf(&k->text, "r%u ", r);
}

static void add_root(Keyed *k, const NestRoot *r) {
  Home home = k->p->places.at[r->val].home;
  bool plain = home != HOME_grad && home != HOME_sum && home != HOME_out;
  Dim n = {0, 0};
  type_elements(value_at(k->p->g, r->val)->type, &n);
  text_addf(&k->text, "root %d %d %d t%u ", (int)r->kind, r->row_only, plain ? 0 : (int)home,
            r->temp);
  if (k->p->places.at[r->val].chunk == CHUNK_sum) text_add(&k->text, "adds ");
  add_dims(&k->text, &n, 1);
  if (!r->row_only) add_memory(k, r->val);
  nest_ix_print(&k->text, k->n, r->ix);
  text_add(&k->text, "\n");
}

uint64_t plan_nest_key(const Program *p, const Kernel *kernel) {
  const Nest *n = kernel->nest;
  Keyed k = {.p = p, .n = n};
  text_addf(&k.text, "outer %u\n", n->outer);
  for (uint32_t l = 0; l < n->loops.len; l++) {
    add_dims(&k.text, &n->loops.at[l].extent, 1);
    text_addf(&k.text, "%d\n", n->loops.at[l].reduce);
  }
  for (uint32_t s = 0; s < n->stages.len; s++) {
    const Stage *stage = &n->stages.at[s];
    text_addf(&k.text, "stage %u %u\n", stage->first_loop, stage->loops);
    for (uint32_t i = 0; i < stage->insts; i++) {
      const Inst *inst = &n->insts.at[stage->first_inst + i];
      if (inst->kind == INST_row) add_row(&k, inst->val);
      add_inst(&k, inst);
    }
    for (uint32_t r = 0; r < stage->roots; r++) add_root(&k, &n->roots.at[stage->first_root + r]);
  }
  uint64_t key = text_hash(k.text.at, k.text.len, 0);
  text_free(&k.text);
  return key;
}
