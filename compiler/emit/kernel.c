/* Functions that nests become: their parameters, their names, those with the same text once, and the
   calls of them. The bodies are the target's (nest_loops.c, nest_cuda.c). */
#include "kernel.h"
#include "die.h"
#include "op.h"

Val kernel_base(const Program *p, Val v) {
  while (p->places.at[v].home == HOME_alias) v = p->places.at[v].alias;
  Val source = p->places.at[v].updates;
  return source ? source : v;
}

Val kernel_named(const Program *p, Val v) {
  while (p->places.at[v].home == HOME_alias) v = p->places.at[v].alias;
  return p->places.at[v].home == HOME_block ? v : kernel_base(p, v);
}

static const char *parameter(Emit *e, const Program *p, const Operand *o, const char *index) {
  const Target *target = e->target;
  const char *pointer = arena_printf(e->arena, "*%s %s", target->restrict_word, o->name);
  switch (o->kind) {
  case OPERAND_memory: {
    DType t = value_at(p->g, o->val)->type.dtype;
    const char *type = p->places.at[o->val].home == HOME_out ? "double" : target->storage_type(t);
    return arena_printf(e->arena, "%s%s %s", o->written ? "" : "const ", type, pointer);
  }
  case OPERAND_sum:
    return arena_printf(e->arena, "double %s", pointer);
  case OPERAND_host:
    return arena_printf(e->arena, "%s %s", target->compute_type(value_at(p->g, o->val)->type.dtype),
                        o->name);
  case OPERAND_draw:
    return arena_printf(e->arena, "%s %s", target->draw_type, o->name);
  case OPERAND_batch:
    return arena_printf(e->arena, "%s B", index);
  case OPERAND_accumulate:
    return "bool accumulate";
  case OPERAND_more:
    return "bool more";
  case OPERAND_scalars:
    return arena_printf(e->arena, "const DdpScalars %s", pointer);
  case OPERAND_rates:
    return arena_printf(e->arena, "const DdpRates %s", pointer);
  case OPERAND_groups:
    return arena_printf(e->arena, "const uint16_t %s", pointer);
  case OPERAND_group:
    return "int group";
  case OPERAND_scratch:
    return arena_printf(e->arena, "void %s", pointer);
  case OPERAND_stream:
    break;
  }
  die("unknown operand");
}

void write_list(Text *t, const char *indent, const char *head, const char *const *args, uint32_t n,
                const char *tail) {
  size_t column = strlen(indent) + strlen(head), deep = column, begin = t->len;
  text_addf(t, "%s%s", indent, head);
  for (uint32_t i = 0; i < n; i++) {
    size_t need = strlen(args[i]) + (i + 1 < n ? 2 : strlen(tail));
    if (i && column + need > 100) {
      text_addf(t, "\n%*s", (int)deep, "");
      column = deep;
    }
    text_addf(t, "%s%s", args[i], i + 1 < n ? ", " : "");
    if (i + 1 < n) column += strlen(args[i]) + 2;
  }
  text_add(t, tail);
  /* a blank after a comma before a line break is none of ours */
  char *from = t->at + begin, *to = from;
  for (; *from; from++)
    if (!(from[0] == ' ' && from[1] == '\n')) *to++ = *from;
  *to = 0;
  t->len = (size_t)(to - t->at);
}

void write_call(Text *t, const char *indent, const char *head, const char *const *args, uint32_t n,
                const char *tail) {
  Text open = {0}, close = {0};
  text_addf(&open, "%s(", head);
  text_addf(&close, ")%s", tail);
  write_list(t, indent, open.at, args, n, close.at);
  text_free(&open);
  text_free(&close);
}

/* Operands in the order of the parameters: memory written, read, the rest as met; B and what all
   kernels of a step share last. */
static int operand_order(const Operand *o) {
  switch (o->kind) {
  case OPERAND_memory:
    return o->written ? 0 : 2;
  case OPERAND_sum:
    return 1;
  case OPERAND_host:
  case OPERAND_draw:
    return 3;
  case OPERAND_batch:
    return 4;
  default:
    return 5;
  }
}
static void sort_operands(Operands *o) {
  for (uint32_t i = 1; i < o->len; i++)
    for (uint32_t j = i; j > 0 && operand_order(&o->at[j]) < operand_order(&o->at[j - 1]); j--) {
      Operand swap = o->at[j];
      o->at[j] = o->at[j - 1];
      o->at[j - 1] = swap;
    }
}

static const char *place_text(Emit *e, const Kernel *k) {
  Text t = {0};
  write_place(&t, k->at);
  const char *s = t.at ? arena_strdup(e->arena, t.at) : "";
  text_free(&t);
  return s;
}

static Function *known_function(Emit *e, const char *key) {
  for (uint32_t i = 0; i < e->functions.len; i++)
    if (!strcmp(e->functions.at[i].key, key)) return &e->functions.at[i];
  return NULL;
}

static const char *function_name(Emit *e, const Kernel *k, const char *suffix) {
  /* a name of one word may be one of the C library's */
  const char *wanted = k->name && *k->name ? k->name : "fused";
  if (*suffix) return names_add(&e->globals, arena_printf(e->arena, "%s_%s", wanted, suffix));
  if (!strchr(wanted, '_')) wanted = arena_printf(e->arena, "%s_kernel", wanted);
  return names_add(&e->globals, wanted);
}

static void add_place(Emit *e, const Kernel *k, Function *f) {
  const char *at = place_text(e, k);
  bool known = !*at;
  for (uint32_t i = 0; i < f->at.len && !known; i++) known = !strcmp(f->at.at[i], at);
  if (!known) vec_push(e->arena, &f->at, at);
}

/* "y [B, 64] from x [B, 64]": where memory is as large as what the first call names. */
static const char *shapes_text(Emit *e, const Program *p, const Operands *o) {
  Text t = {0};
  for (int pass = 0; pass < 2; pass++) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < o->len; i++) {
      const Operand *x = &o->at[i];
      if (x->kind != OPERAND_memory || x->written == (pass == 1)) continue;
      if (p->places.at[x->val].home == HOME_out) continue;
      text_add(&t, n++ ? ", " : pass && t.len ? " from " : "");
      text_addf(&t, "%s ", x->name);
      write_shape(&t, value_at(p->g, x->shown)->type);
    }
  }
  const char *text = t.at ? arena_strdup(e->arena, t.at) : "";
  text_free(&t);
  return text;
}

void kernel_share(Emit *e, const Program *p, const Kernel *k, const char *suffix, const char *head,
                  const char *body, KernelCall *call) {
  Operands *o = &call->operands;
  sort_operands(o);
  Text key = {0};
  const char **parameters = ARENA_ARRAY(e->arena, const char *, o->len + 1);
  text_addf(&key, "%s ", head);
  for (uint32_t i = 0; i < o->len; i++) {
    parameters[i] = parameter(e, p, &o->at[i], call->index ? call->index : "int64_t");
    text_addf(&key, "%s, ", parameters[i]);
  }
  text_add(&key, body);
  Function *f = known_function(e, key.at);
  if (!f) {
    Function new = {.head = head,
                    .parameters = parameters,
                    .n_parameters = o->len,
                    .body = arena_strdup(e->arena, body),
                    .key = arena_strdup(e->arena, key.at)};
    new.name = function_name(e, k, suffix);
    new.shapes = shapes_text(e, p, o);
    vec_push(e->arena, &e->functions, new);
    f = &e->functions.at[e->functions.len - 1];
  }
  text_free(&key);
  add_place(e, k, f);
  call->function = f->name;
}

void kernel_functions(Emit *e, const Program *p, const Kernel *k, KernelCalls *calls) {
  e->target->nest(e, p, k, calls);
}

static void launch(Emit *e, const KernelCall *c, Text *out, const char *indent, OperandName name,
                   void *self) {
  VEC(const char *) args = {0};
  if (c->grid) {
    if (c->batch) name(self, OPERAND_batch, 0);
    vec_push(e->arena, &args, c->function);
    vec_push(e->arena, &args, c->grid);
    vec_push(e->arena, &args, c->block);
    vec_push(e->arena, &args, "0");
    vec_push(e->arena, &args, name(self, OPERAND_stream, 0));
  }
  for (uint32_t i = 0; i < c->operands.len; i++)
    vec_push(e->arena, &args, name(self, c->operands.at[i].kind, c->operands.at[i].shown));
  write_call(out, indent, c->grid ? "DDP_LAUNCH" : c->function, args.at, args.len, ";\n");
}

void kernel_launch(Emit *e, const KernelCalls *calls, Text *out, const char *indent,
                   OperandName name, void *self) {
  for (uint32_t i = 0; i < calls->len; i++) launch(e, &calls->at[i], out, indent, name, self);
}
