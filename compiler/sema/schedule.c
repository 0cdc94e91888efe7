/* The learning-rate schedule. In: lr_scheduler_type and its arguments. Out: Job.schedule, a graph of
   double scalars over host "step", "warmup", "total", "base_lr" whose value 0 is the factor. A definition
   with `@kernel` looks at measured values: the runtime carries it out with the numbers that it gives. */
#include "analysis.h"
#include "diag.h"
#include "die.h"

static CallArg host_arg(Analysis *a, Graph *g, const char *name, bool is_int, Span at) {
  HostValue *v = ARENA_NEW(a->arena, HostValue);
  *v = (HostValue){.is_int = is_int};
  Attr attrs[2] = {{.as.text = text_intern(name)}, {.as.i = DT_f64}};
  CallArg arg = {.name = text_intern(name), .value = {.kind = DATUM_host}, .at = at};
  arg.value.as.host.value = v;
  arg.value.as.host.val = ir_must(g, OP_host, NULL, 0, attrs, at, 0);
  return arg;
}

static Val as_f64(Graph *g, Val v, Span at) {
  if (value_at(g, v)->type.dtype == DT_f64) return v;
  Attr attr = {.as.i = DT_f64};
  return ir_must(g, OP_cast, &v, 1, &attr, at, 0);
}

/* The numbers of a measured schedule, in the order in which its definition gives them. */
static bool take_numbers(Analysis *a, Eval *e, const Decl *decl, Datum d, Span at) {
  for (uint32_t i = 0; d.kind == DATUM_tuple && i < d.as.list.len; i++) {
    double number = 0;
    if (!datum_number(d.as.list.at[i], &number)) break;
    vec_push(a->arena, &a->job->measured_numbers, number);
  }
  if (d.kind == DATUM_tuple && a->job->measured_numbers.len == d.as.list.len) {
    a->job->measured = decl->kernel;
    return true;
  }
  diag_report(DIAG_E0501, at, "`%s` gives numbers to the runtime, not %s", decl->name.text,
              datum_describe(e, d));
  return false;
}

void schedule_make(Analysis *a) {
  SettingSlot *slot = settings_slot(a->settings, "lr_scheduler_type");
  SettingSlot *kwargs = settings_slot(a->settings, "lr_scheduler_kwargs");
  const char *name = settings_value(a->settings, "lr_scheduler_type")->text;
  Span at = slot->expr ? slot->at : a->train ? a->train->span : (Span){0};
  Eval e = analysis_eval(a);
  Datum f = definition_find(a, &e, "lr_scheduler_type", "std/schedule.ddp", slot->expr, name,
                            slot->file ? slot->file : a->root, at);
  if (f.kind != DATUM_function) return;
  Graph *g = graph_new(a->arena, "schedule", true);
  Build *b = build_new(a->arena, g, NULL);
  b->host_dtype = DT_f64;
  b->compute = DT_f64;
  DefinitionArgs args = {0};
  if (!definition_args(a, f, settings_value(a->settings, "lr_scheduler_kwargs"), kwargs->at,
                       &args)) {
    return;
  }
  static const char *const names[] = {"step", "warmup", "total", "base_lr"};
  const Decl *decl = f.as.closure->decl;
  for (int i = 0; i < 4 && !decl->kernel; i++) {
    bool given = !closure_accepts(f, names[i]);
    for (uint32_t k = 0; k < args.args.len; k++) given |= !strcmp(args.args.at[k].name, names[i]);
    if (!given) vec_push(a->arena, &args.args, host_arg(a, g, names[i], i < 3, at));
  }
  if (!definition_complete(f, &args, "lr_scheduler_kwargs", at)) return;
  Eval ev = eval_new(a->program, b, NULL, true);
  Datum d = eval_call(&ev, f, (CallArgs){args.args.at, args.args.len}, at);
  if (d.kind == DATUM_error) return;
  Val v = NO_VAL;
  double number = 0;
  if (decl->kernel) {
    if (!take_numbers(a, &ev, decl, d, at)) return;
    v = ir_const(g, 1, DT_f64, at, 0);
  } else if (datum_number(d, &number))
    v = ir_const(g, number, DT_f64, at, 0);
  else if (d.kind == DATUM_host)
    v = host_node(&ev, d, at);
  else if (d.kind == DATUM_tensor && value_at(g, d.as.tensor)->type.rank == 0)
    v = d.as.tensor;
  if (v == NO_VAL) {
    diag_report(DIAG_E0501, at, "a schedule gives one number, and `%s` gives %s", name,
                datum_describe(&ev, d));
    return;
  }
  graph_output(g, OUT_value, 0, as_f64(g, v, at));
  a->job->schedule = g;
}
