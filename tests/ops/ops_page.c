/* The op table as documentation: ops_page prints it; ops_page FILE fails unless FILE ends with it. First what
   each op can do and what proves it, then its definition. An op without a row in torch.def fails. */
#include "ops.h"
#include "op.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct Proof {
  OpKind op;
  bool torch;
  const char *text;
} proofs[] = {
#define TORCH(op, counterpart) {OP_##op, true, counterpart},
#define NO_TORCH(op, why)      {OP_##op, false, why},
#include "torch.def"
};

static const struct Proof *proof_of(OpKind op) {
  for (size_t i = 0; i < sizeof proofs / sizeof *proofs; i++)
    if (proofs[i].op == op) return &proofs[i];
  printf("%s: no row in tests/ops/torch.def\n", op_def(op)->name);
  exit(1);
}

static const char *backward(OpKind op) {
  const OpDef *d = op_def(op);
  bool rule = false, zero = false, missing = false;
  for (int i = 0; i < IR_MAX_INPUTS && d->grad[i]; i++) {
    bool is_zero = !strcmp(d->grad[i], GRAD_ZERO), is_missing = !strcmp(d->grad[i], GRAD_MISSING);
    zero = zero || is_zero;
    missing = missing || is_missing;
    rule = rule || (!is_zero && !is_missing && strcmp(d->grad[i], GRAD_NONE) != 0);
  }
  if (op == OP_scan) return "a loop (`passes/grad_scan.c`)";
  if (op == OP_extern) return "the header's";
  return rule ? "yes" : zero ? "zero" : missing ? "not asked for" : "none";
}

static const char *types(OpKind op) {
  if (op_has(op, OPF_source)) return "of the row";
  if (op_has(op, OPF_logical)) return "bool";
  if (op_has(op, OPF_compare)) return "all, gives bool";
  if (op_has(op, OPF_view)) return "all";
  if (op_has(op, OPF_library) || op_has(op, OPF_float)) return "floats";
  return op_has(op, OPF_bool) ? "all" : "floats, integers";
}

static const char *half_types(OpKind op) {
  if (op_has(op, OPF_source)) return "";
  if (op_has(op, OPF_full)) return "in f32";
  if (op_has(op, OPF_product) || op_has(op, OPF_half)) return "read by the call";
  return op_has(op, OPF_library) ? "through f32" : "read and stored";
}

static void print_status(Text *t) {
  text_add(t, "| op | forward | backward | types | bf16, fp16 | CPU | CUDA | proven by |\n"
              "|---|---|---|---|---|---|---|---|\n");
  for (int k = 1; k < OP_COUNT; k++) {
    OpKind op = (OpKind)k;
    const OpDef *d = op_def(op);
    const struct Proof *p = proof_of(op);
    bool source = op_has(op, OPF_source), body = op_has(op, OPF_decompose);
    bool sampled = d->domain || (d->sample && *d->sample);
    const char *cpu = source                    ? ""
                      : body                    ? "as its body"
                      : op_has(op, OPF_library) ? "call"
                                                : "loops";
    text_addf(t, "| `%s` | yes | %s | %s | %s | %s | not yet | ", d->name, backward(op), types(op),
              half_types(op), cpu);
    if (sampled) text_add(t, "`ops.table`, ");
    if (!source && sampled && (!strcmp(backward(op), "yes") || body)) text_add(t, "`ops.grad`, ");
    if (!source && sampled && !body) text_add(t, "`emit.op`, ");
    text_addf(t, p->torch ? "`live.ops`: %s |\n" : "%s |\n", p->text);
  }
}

int main(int argc, char **argv) {
  Text table = {0};
  print_status(&table);
  text_add(&table, "\n## Definitions\n\n");
  ops_print_table(&table);
  if (argc < 2) {
    fputs(table.at, stdout);
    return 0;
  }
  uint32_t file = source_read(argv[1]);
  if (!file) {
    perror(argv[1]);
    return 2;
  }
  const Source *page = source_get(file);
  if (page->length >= table.len && !strcmp(page->text + page->length - table.len, table.at))
    return 0;
  printf("%s does not end with the op tables; tools/pages writes these:\n%s", argv[1], table.at);
  return 1;
}
