/* pass_dce: keeps what outputs depend on, in the old order. Of a loop it keeps the results that are
   read, and what the body needs for them: what is carried in vain, inputs that no turn reads and
   results that nobody reads go. */
#include "passes.h"
#include "rewrite.h"
#include "scan.h"

typedef struct Kept {        /* of a loop */
  bool *result;              /* which results are read; then which stay */
  int place[IR_MAX_INPUTS];  /* new number of each input; -1: goes */
  int inputs, over, carried; /* that stay */
  int *number;               /* new number of each result; -1 */
} Kept;

typedef struct Dce {
  const Graph *g;
  Arena *arena;
  bool *live;
  Kept **kept; /* by scan */
} Dce;

static void mark_outputs(const Graph *body, const Scan *s, const bool *keep, bool *live) {
  for (int k = 0; k < scan_results(s); k++)
    if (keep[k]) live[scan_output(s, k)] = true;
  for (Val v = body->values.len; v-- > 1;)
    for (int i = 0; live[v] && i < value_at(body, v)->inputs; i++)
      live[value_at(body, v)->in[i]] = true;
}

/* Results to keep: those that are read, and what is carried to turns that read it. */
static void keep_results(const Scan *s, const Val *arg, bool *keep, bool *live) {
  bool any = false;
  for (int k = 0; k < scan_results(s); k++) any = any || keep[k];
  if (!any) keep[0] = true;
  for (bool more = true; more;) {
    more = false;
    mark_outputs(s->body, s, keep, live);
    for (int j = 0; j < s->carried; j++)
      if (!keep[j] && arg[s->over + j] != NO_VAL && live[arg[s->over + j]]) keep[j] = more = true;
  }
}

static Kept *kept_of(Dce *d, Val v) {
  if (d->kept[v]) return d->kept[v];
  Scan s = scan_of(value_at(d->g, v));
  d->kept[v] = ARENA_NEW(d->arena, Kept);
  d->kept[v]->result = ARENA_ARRAY(d->arena, bool, scan_results(&s));
  return d->kept[v];
}

static void mark_read(Dce *d, Val v, const Value *reader) {
  d->live[v] = true;
  if (value_at(d->g, v)->op != OP_scan) return;
  kept_of(d, v)->result[reader && reader->op == OP_part ? op_part_index(reader) : 0] = true;
}

/* All readers of the loop have been seen: what stays of it, and what that reads. */
static void mark_scan(Dce *d, Val v) {
  const Value *x = value_at(d->g, v);
  Scan s = scan_of(x);
  Kept *k = kept_of(d, v);
  Val arg[IR_MAX_INPUTS];
  bool *live = ARENA_ARRAY(d->arena, bool, s.body->values.len);
  int results = 0;
  scan_args(s.body, s.inputs, arg);
  keep_results(&s, arg, k->result, live);
  k->number = ARENA_ARRAY(d->arena, int, scan_results(&s));
  for (int i = 0; i < scan_results(&s); i++) k->number[i] = k->result[i] ? results++ : -1;
  for (int i = 0; i < s.inputs; i++) {
    bool carried = i >= s.over && i < s.over + s.carried;
    bool stays = carried ? k->result[i - s.over] : arg[i] != NO_VAL && live[arg[i]];
    k->place[i] = stays ? k->inputs++ : -1;
    k->over += stays && i < s.over;
    k->carried += stays && carried;
    if (stays) mark_read(d, x->in[i], x);
  }
  if (k->inputs) return;
  k->over = s.over > 0; /* an op has an input; no turn reads this one */
  k->inputs = 1;
  k->place[0] = 0;
  mark_read(d, x->in[0], x);
}

/* The body with these results alone, arguments numbered by `place` (-1: not read any more). */
static Graph *smaller_body(const Scan *s, const bool *keep, const int *place) {
  const Graph *body = s->body;
  Rewrite r = rewrite_begin(body);
  for (Val v = 1; v < body->values.len; v++) {
    const Value *x = value_at(body, v);
    if (x->op != OP_arg) {
      bool dead = false;
      for (int i = 0; i < x->inputs; i++) dead = dead || r.map[x->in[i]] == NO_VAL;
      if (!dead) r.map[v] = ir_copy(r.to, body, v, r.map);
    } else if (place[x->attr[0].as.i] >= 0) {
      r.map[v] = scan_arg(r.to, place[x->attr[0].as.i], x->type, x->at, x->scope);
    }
  }
  int carried = 0, yields = 0;
  for (int k = 0; k < scan_results(s); k++) {
    if (!keep[k]) continue;
    bool next = k < s->carried;
    graph_output(r.to, next ? OUT_carried : OUT_yield, next ? carried++ : yields++,
                 r.map[scan_output(s, k)]);
  }
  return pass_dce(r.to);
}

static Val copy_scan(Dce *d, Rewrite *r, Val v) {
  const Value *x = value_at(d->g, v);
  const Kept *k = d->kept[v];
  Scan s = scan_of(x);
  Val in[IR_MAX_INPUTS];
  Attr attrs[IR_MAX_ATTRS];
  for (int i = 0; i < s.inputs; i++)
    if (k->place[i] >= 0) in[k->place[i]] = r->map[x->in[i]];
  Graph *body = smaller_body(&s, k->result, k->place);
  scan_attrs(k->over, k->carried, s.length, s.reverse, body, attrs);
  return ir_must(r->to, OP_scan, in, k->inputs, attrs, x->at, x->scope);
}

Graph *pass_dce(Graph *g) {
  Dce d = {.g = g,
           .arena = g->arena,
           .live = ARENA_ARRAY(g->arena, bool, g->values.len),
           .kept = ARENA_ARRAY(g->arena, Kept *, g->values.len)};
  Rewrite r = rewrite_begin(g);
  for (uint32_t i = 0; i < g->outputs.len; i++) mark_read(&d, g->outputs.at[i].value, NULL);
  for (Val v = g->values.len; v-- > 1;) {
    const Value *x = value_at(g, v);
    if (d.live[v] && x->op == OP_scan) mark_scan(&d, v);
    for (int i = 0; d.live[v] && x->op != OP_scan && i < x->inputs; i++) mark_read(&d, x->in[i], x);
  }
  for (Val v = 1; v < g->values.len; v++) {
    const Value *x = value_at(g, v);
    if (!d.live[v]) continue;
    const Kept *from = x->op == OP_part ? d.kept[x->in[0]] : NULL;
    r.map[v] = x->op == OP_scan ? copy_scan(&d, &r, v)
               : from           ? scan_result(r.to, r.map[x->in[0]], from->number[op_part_index(x)])
                                : ir_copy(r.to, g, v, r.map);
  }
  return rewrite_end(&r);
}
