/* pass_dce: keeps what outputs depend on, in the old order. */
#include "passes.h"
#include "rewrite.h"

Graph *pass_dce(Graph *g) {
  bool *live = ARENA_ARRAY(g->arena, bool, g->values.len);
  Rewrite r = rewrite_begin(g);
  for (uint32_t i = 0; i < g->outputs.len; i++) live[g->outputs.at[i].value] = true;
  for (Val v = g->values.len; v-- > 1;) {
    const Value *x = value_at(g, v);
    for (int i = 0; live[v] && i < x->inputs; i++) live[x->in[i]] = true;
  }
  for (Val v = 1; v < g->values.len; v++)
    if (live[v]) r.map[v] = ir_copy(r.to, g, v, r.map);
  return rewrite_end(&r);
}
