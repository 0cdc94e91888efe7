/* In: a folded graph. Out: E0413 where a field whose declared values reach outside a dimension is used
   as an index there (labels and classes, tokens and rows of a table). */
#include "batch.h"
#include "diag.h"
#include "scan.h"
#include <math.h>

/* A graph, and the loop that it is the body of. */
typedef struct Around {
  const Graph *g;
  const Value *loop; /* or NULL */
  const struct Around *outer;
} Around;

/* The field an index is, behind views, casts and the walk of a loop; -1. */
static int32_t index_field(const Around *at, Val v) {
  for (;;) {
    const Value *x = value_at(at->g, v);
    if (x->op == OP_input) return (int32_t)x->attr[0].as.i;
    if (x->op == OP_arg) {
      Scan s = scan_of(at->loop);
      int64_t k = x->attr[0].as.i;
      if (k >= s.over && k < s.over + s.carried) return -1;
      v = at->loop->in[k];
      at = at->outer;
      continue;
    }
    bool same = op_has(x->op, OPF_view) || x->op == OP_cast || x->op == OP_detach;
    if (!same || x->inputs != 1 || x->op == OP_pad) return -1;
    v = x->in[0];
  }
}

static void check_index(const Job *job, const Around *at, const Value *x, Dim size) {
  int32_t k = index_field(at, x->in[1]);
  if (k < 0 || !dim_known(size)) return;
  const Field *f = &job->dataset.fields.at[k];
  double low = f->has_range ? f->low : 0;
  double high = f->has_range ? ceil(f->high) : f->type.dtype == DT_u8 ? 256 : 0;
  if (low >= 0 && high <= (double)size.fixed) return;
  diag_report(DIAG_E0413, x->at,
              "`%s` has values in %.0f..%.0f, and indexes a dimension of size %lld", f->name, low,
              high, (long long)size.fixed);
  diag_note(f->at, "%s", f->has_range ? "declared here" : "no range is declared here");
}

static void check_graph(const Job *job, const Around *at) {
  const Graph *g = at->g;
  for (Val v = 1; v < g->values.len; v++) {
    const Value *x = value_at(g, v);
    if (x->op == OP_gather) {
      check_index(job, at, x, value_at(g, x->in[0])->type.dim[x->attr[0].as.ints.at[0]]);
    } else if (x->op == OP_rows) {
      check_index(job, at, x, value_at(g, x->in[0])->type.dim[0]);
    } else if (x->op == OP_scan) {
      Around body = {scan_of(x).body, x, at};
      check_graph(job, &body);
    }
  }
}

void indices_check(const Job *job, const Graph *g) {
  Around whole = {g, NULL, NULL};
  check_graph(job, &whole);
}
