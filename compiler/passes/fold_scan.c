/* Folding of loops: inputs that are the same in every turn. A number, repeated, is a constant of the body;
   what is repeated along the turns is read by all of them instead of being walked. */
#include "folding.h"
#include "scan.h"

typedef struct Inputs {
  Val in[IR_MAX_INPUTS];
  int place[IR_MAX_INPUTS]; /* new number of an old input; -1: a constant */
  double number[IR_MAX_INPUTS];
  bool repeated[IR_MAX_INPUTS]; /* walked before, read as it is now */
  int n, over;
} Inputs;

/* Repeated along its first dimension, which the input of the op lacks. */
static bool is_repeated(const Value *x) {
  if (x->op != OP_expand) return false;
  for (int i = 0; i < x->attr[1].as.ints.len; i++)
    if (x->attr[1].as.ints.at[i] == 0) return true;
  return false;
}

static void add(Inputs *s, int k, Val v) {
  s->place[k] = s->n;
  s->in[s->n++] = v;
}

/* False: they stay as they are. */
static bool find_inputs(const Fold *f, const Value *x, const Scan *scan, Inputs *s) {
  bool any = false;
  for (int k = 0; k < scan->inputs; k++) {
    bool carried = k >= scan->over && k < scan->over + scan->carried;
    bool number = !carried && ir_is_uniform(f->to, x->in[k], &s->number[k]);
    s->place[k] = number ? -1 : 0;
    s->repeated[k] = !number && k < scan->over && is_repeated(value_at(f->to, x->in[k]));
    any = any || number || s->repeated[k];
  }
  if (!any) return false;
  for (int k = 0; k < scan->inputs; k++) {
    if (s->place[k] < 0 || s->repeated[k]) continue;
    add(s, k, x->in[k]);
    s->over += k < scan->over;
  }
  for (int k = 0; k < scan->over; k++)
    if (s->repeated[k]) add(s, k, value_at(f->to, x->in[k])->in[0]);
  return s->n > 0; /* an op has an input */
}

/* One part of an expand along the turns, of its input. */
static Val part_of(Graph *body, Val v, const Value *expand, const Value *arg) {
  Attr attrs[IR_MAX_ATTRS] = {{.as.dims.len = arg->type.rank}, {.as.ints.len = 0}};
  for (int i = 0; i < arg->type.rank; i++) attrs[0].as.dims.at[i] = arg->type.dim[i];
  for (int i = 0; i < expand->attr[1].as.ints.len; i++)
    if (expand->attr[1].as.ints.at[i] > 0)
      attrs[1].as.ints.at[attrs[1].as.ints.len++] = expand->attr[1].as.ints.at[i] - 1;
  return ir_must(body, OP_expand, &v, 1, attrs, arg->at, arg->scope);
}

static Val constant(Graph *body, double c, const Value *arg) {
  Val k = ir_const(body, c, arg->type.dtype, arg->at, arg->scope);
  if (!arg->type.rank) return k;
  Attr attrs[IR_MAX_ATTRS] = {fold_shape(arg->type), {.as.ints.len = -1}};
  return ir_must(body, OP_expand, &k, 1, attrs, arg->at, arg->scope);
}

static Graph *new_body(const Fold *f, const Value *x, const Scan *scan, const Inputs *s) {
  const Graph *from = scan->body;
  Graph *body = graph_like(from);
  Val *map = ARENA_ARRAY(body->arena, Val, from->values.len);
  for (Val v = 1; v < from->values.len; v++) {
    const Value *arg = value_at(from, v);
    if (arg->op != OP_arg) {
      map[v] = ir_copy(body, from, v, map);
      continue;
    }
    int k = (int)arg->attr[0].as.i;
    if (s->place[k] < 0) {
      map[v] = constant(body, s->number[k], arg);
      continue;
    }
    Type t = value_at(f->to, s->in[s->place[k]])->type;
    if (s->place[k] < s->over) t = scan_part_type(t);
    map[v] = scan_arg(body, s->place[k], t, arg->at, arg->scope);
    if (s->repeated[k]) map[v] = part_of(body, map[v], value_at(f->to, x->in[k]), arg);
  }
  for (uint32_t i = 0; i < from->outputs.len; i++) {
    const Output *o = &from->outputs.at[i];
    graph_output(body, o->kind, o->index, map[o->value]);
  }
  return body;
}

static Val same_in_every_turn(Fold *f, Val v) {
  const Value x = *value_at(f->to, v);
  Scan scan = scan_of(&x);
  Inputs s = {.n = 0};
  if (!find_inputs(f, &x, &scan, &s)) return NO_VAL;
  Attr attrs[IR_MAX_ATTRS];
  scan_attrs(s.over, scan.carried, scan.length, scan.reverse, new_body(f, &x, &scan, &s), attrs);
  return ir_must(f->to, OP_scan, s.in, s.n, attrs, x.at, x.scope);
}

const FoldRule fold_scan[] = {{OP_scan, same_in_every_turn}, {OP_none, NULL}};
