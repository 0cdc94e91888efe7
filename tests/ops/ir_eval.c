/* Evaluates textual IR: ir_eval FILE.ir BATCH [--grad | --double] < numbers > numbers
   Reads the elements of every source that is not a number itself (input, param, host ...), in the
   order of the values; prints `KIND INDEX f32[2,3]: ...` for each output. f32 results are rounded
   to float, with --double they are not. With --grad, output 0 is y: the gradient of y is read last, and for each input of y's
   op that has a rule, what the rule gives is printed as `grad INDEX ...`. */
#include "diag.h"
#include "ir_text.h"
#include "ops.h"
#include "sema.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void read_source(void *self, const Graph *g, Val v, double *out) {
  const int64_t *batch = self;
  int64_t n = type_elements_at(value_at(g, v)->type, *batch);
  for (int64_t k = 0; k < n; k++)
    if (scanf("%lf", &out[k]) != 1) {
      fprintf(stderr, "ir_eval: numbers are missing\n");
      exit(1);
    }
}

static bool has_rule(const Graph *g, const Value *x, int i) {
  const char *rule = op_def(x->op)->grad[i];
  if (!strcmp(rule, GRAD_NONE) || !strcmp(rule, GRAD_ZERO) || !strcmp(rule, GRAD_MISSING))
    return false;
  return dtype_category(value_at(g, x->in[i])->type.dtype) == 'f';
}

static void add_gradients(Graph *g) {
  Val y = g->outputs.at[0].value;
  const Value x = *value_at(g, y);
  Val gradient = ir_leaf(g, OP_input, 1000, x.type, (Span){0}, 0);
  for (int i = 0; i < x.inputs; i++) {
    if (!has_rule(g, &x, i)) continue;
    Val r = sema_eval_rule(g, op_def(x.op)->grad[i], y, gradient, 0);
    if (r) graph_output(g, OUT_grad, i, r);
  }
}

static void print_output(const Graph *g, const Output *o, const double *x, int64_t batch) {
  Text t = {0};
  type_print(&t, value_at(g, o->value)->type);
  printf("%s %d %s:", ir_output_names[o->kind], o->index, t.at);
  int64_t n = type_elements_at(value_at(g, o->value)->type, batch);
  for (int64_t k = 0; k < n; k++) printf(" %.17g", x[k]);
  printf("\n");
  text_free(&t);
}

int main(int argc, char **argv) {
  Arena *a = arena_new();
  uint32_t file = argc > 2 ? source_read(argv[1]) : 0;
  int64_t batch = argc > 2 ? strtoll(argv[2], NULL, 10) : 0;
  if (!file || batch < 1) {
    fprintf(stderr, "usage: ir_eval FILE.ir BATCH [--grad | --double]\n");
    return 2;
  }
  Graph *g = ir_parse(a, file);
  if (g && argc > 3 && !strcmp(argv[3], "--grad")) add_gradients(g);
  diag_flush(stderr, false);
  if (!g || diag_errors()) return 1;
  ir_verify(g, "parse");
  bool exact = argc > 3 && !strcmp(argv[3], "--double");
  Interp how = {.batch = batch, .round_f32 = !exact, .source = read_source, .self = &batch};
  double **value = interp_run(a, g, &how);
  for (uint32_t i = 0; i < g->outputs.len; i++)
    print_output(g, &g->outputs.at[i], value[g->outputs.at[i].value], batch);
  arena_free(a);
  return 0;
}
