/* Optimizer steps. `@kernel("NAME")` in the library chooses a row of the table below, if every argument
   the kernel needs is known and none asks for what it cannot do; otherwise the graph is emitted. */
#include "die.h"
#include "program.h"
#include "kernels/scratch.h"

typedef struct KernelArg {
  const char *name; /* formal of the optimizer */
  const char *from; /* where a run has it when it is no compile-time number; NULL: nowhere */
  double missing;   /* value where the optimizer has no such formal */
} KernelArg;

typedef struct OptimizerKernel {
  const char *name;
  int states;                  /* pointers passed; those beyond the optimizer's own are NULL */
  const KernelArg args[4];     /* in the order of the C parameters, after lr and weight_decay */
  const char *must_be_zero[2]; /* compile-time formals that the kernel does not cover */
  const char *scratch;         /* devices: bytes of it that a step needs, or NULL */
  int64_t scratch_bytes;
} OptimizerKernel;

static const OptimizerKernel kernels[] = {
    {"adamw",
     2,
     {{"beta1", "s->settings->adam_beta1", 0.9},
      {"beta2", "s->settings->adam_beta2", 0.999},
      {"eps", "s->settings->adam_epsilon", 1e-8}},
     {"amsgrad", "maximize"},
     "ddp_adamw_scratch",
     ddp_adamw_scratch},
    {"sgd",
     1,
     {{"momentum", NULL, 0}, {"dampening", NULL, 0}, {"nesterov", NULL, 0}},
     {"maximize"},
     NULL,
     0},
};

static bool constant(const Optimizer *o, const char *name, double *value) {
  for (uint32_t i = 0; i < o->constants.len; i++)
    if (!strcmp(o->constants.at[i].name, name)) {
      *value = o->constants.at[i].value;
      return true;
    }
  return false;
}

static const OptimizerKernel *find_kernel(const Optimizer *o) {
  for (size_t i = 0; o->kernel && !o->whole && i < sizeof kernels / sizeof *kernels; i++) {
    const OptimizerKernel *k = &kernels[i];
    double v = 0;
    if (strcmp(k->name, o->kernel) || o->states.len > (uint32_t)k->states) continue;
    bool covered = true;
    for (int m = 0; m < 2 && k->must_be_zero[m]; m++)
      covered = covered && !(constant(o, k->must_be_zero[m], &v) && v != 0);
    if (covered) return k;
  }
  return NULL;
}

/* A number that the job fixes, else where the run has it. */
static const char *argument(Emit *e, const Optimizer *o, const char *name, const char *from,
                            double missing) {
  double v = missing;
  if (!constant(o, name, &v) && from) return from;
  Text t = {0};
  text_addf(&t, "/* %s */ ", name);
  if (v == 0 || v == 1)
    text_addf(&t, "%d", (int)v);
  else
    write_double(&t, v);
  const char *text = arena_strdup(e->arena, t.at);
  text_free(&t);
  return text;
}

/* Devices read the rates of an update in their memory, where no number of the job takes their place. */
static void write_kernel_step(Emit *e, const Optimizer *o, const OptimizerKernel *k, Text *out) {
  bool device = e->target->scalars_in_memory;
  VEC(const char *) args = {0};
  if (device) {
    vec_push(e->arena, &args, "s");
    if (k->scratch) emit_scratch_known(e, k->scratch, k->scratch_bytes);
  } else {
    vec_push(e->arena, &args, "s->p");
    vec_push(e->arena, &args, "s->g");
    for (uint32_t i = 0; i < (uint32_t)k->states; i++)
      vec_push(e->arena, &args,
               i < o->states.len ? arena_printf(e->arena, "s->state[%u]", i) : "NULL");
    vec_push(e->arena, &args, "s->n");
  }
  vec_push(e->arena, &args, argument(e, o, "lr", device ? "/* lr */ NAN" : "s->lr", 0));
  vec_push(
      e->arena, &args,
      argument(e, o, "weight_decay", device ? "/* weight_decay */ NAN" : "s->weight_decay", 0));
  for (const KernelArg *a = k->args; a->name; a++)
    vec_push(e->arena, &args, argument(e, o, a->name, a->from, a->missing));
  if (!device) vec_push(e->arena, &args, "s->step");
  write_call(out, "  ", arena_printf(e->arena, "ddp_%s", k->name), args.at, args.len, ";\n");
}

const char *optimizer_function(Emit *e, int32_t number) {
  const char *name = e->plan->job->optimizers.at[number].name;
  return number == 0 ? arena_printf(e->arena, "%s_step", name)
                     : arena_printf(e->arena, "%s_step_%d", name, number + 1);
}

void optimizer_write(Emit *e, int32_t number, Text *out) {
  const Optimizer *o = &e->plan->job->optimizers.at[number];
  const OptimizerKernel *k = find_kernel(o);
  if (o->whole) {
    text_add(out, "/* One update of one parameter of ");
    write_shape(out, o->tensor);
    text_add(out, ". */\n");
  } else {
    text_add(out,
             e->target->scalars_in_memory
                 ? "/* One update of a range of the arenas, with all parameters in it. */\n"
                 : "/* One update of one parameter, or of a part of it that begins at a multiple "
                   "of 8. */\n");
  }
  if (!k) {
    program_write(e, &e->plan->optimizers.at[number], ROLE_optimizer, number, out);
    return;
  }
  text_addf(out, "%s void %s(const DdpSegment *s) {\n", e->target->function_head,
            optimizer_function(e, number));
  write_kernel_step(e, o, k, out);
  text_add(out, "}\n");
}
