/* Evaluates a fragment and prints what came out. In: a .ddp file with definitions and directives in
   its comments:
     # model EXPR            an instance called `net`
     # input NAME TYPE       a tensor of the graph: f32[B,64]
     # graph EXPR            builds the graph of an expression over net and the inputs, and prints it
     # type EXPR             builds it and prints only the types of its results
     # run EXPR              builds it and prints its values for a batch of 4: floats hold
                             2 sin(1.3 j + 0.7 k), parameters sin(0.9 j + 0.3 k), ints (7 j + k) % 5
     # show EXPR             prints a compile-time value
     # training false        what `training` is from here on
     # error E0405: text    this line is wrong: the message begins with text (may be left out)
   Out: leaves, draws, graphs, values. sema_dump FILE OUT compares them with a file. Exit status 1 when
   the output differs, or when other diagnostics came than the lines ask for. */
#include "diag.h"
#include "eval.h"
#include "ir_text.h"
#include "ops.h"
#include "parse.h"
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Session {
  Arena *arena;
  Program *program;
  File *file;
  LeafStore leaves;
  Env *env;
  Instance *net;
  Job job;
  Graph *graph;
  Build *build;
  int inputs;
  bool training;
  uint32_t source;
  bool library; /* may do what only the library may: @kernel on functions */
  FILE *out;
} Session;

static const Expr *parse_text(Session *s, const char *text) {
  return parse_expression(s->arena, source_add("<directive>", text, strlen(text)));
}

static Attr dims_attr(Type t) {
  Attr a = {0};
  a.as.dims.len = t.rank;
  for (int i = 0; i < t.rank; i++) a.as.dims.at[i] = t.dim[i];
  return a;
}

/* f32[B,64] */
static bool parse_type(const char *text, Type *out) {
  char name[16] = {0};
  size_t n = strcspn(text, "[");
  if (n >= sizeof name || !text[n]) return false;
  memcpy(name, text, n);
  *out = (Type){.rank = 0};
  if (!dtype_parse(name, &out->dtype)) return false;
  for (const char *p = text + n + 1; *p && *p != ']';) {
    if (out->rank == IR_MAX_RANK || !(isdigit((unsigned char)*p) || *p == 'B')) return false;
    int64_t k = isdigit((unsigned char)*p) ? strtoll(p, (char **)&p, 10) : 1;
    bool batch = *p == 'B';
    if (k < 1 || k > 1000000) return false;
    out->dim[out->rank++] = batch ? (Dim){k, 0} : dim_of(k);
    p += batch;
    if (*p == ',') p++;
    while (*p == ' ') p++;
  }
  return true;
}

static void new_graph(Session *s) {
  s->graph = graph_new(s->arena, s->training ? "train" : "eval", s->training);
  s->build = build_new(s->arena, s->graph, &s->leaves);
}

static void print_leaves(Session *s) {
  Text t = {0};
  for (uint32_t i = 0; i < s->job.leaves.len; i++) {
    const Leaf *l = &s->job.leaves.at[i];
    text_addf(&t, "leaf %u %s %s ", i, l->buffer ? "buffer" : "param", l->name);
    type_print(&t, l->type);
    if (l->tied_to >= 0) text_addf(&t, " = %d", l->tied_to);
    text_add(&t, "\n");
  }
  for (uint32_t i = 0; i < s->job.init.len; i++) {
    const InitStep *d = &s->job.init.at[i];
    text_addf(&t, "draw %d %s %lld", d->leaf, init_kind_name(d->kind), (long long)d->elements);
    text_addf(&t, " %.9g %.9g\n", d->a, d->b);
  }
  fputs(t.at ? t.at : "", s->out);
  text_free(&t);
}

static void make_model(Session *s, const char *text) {
  Eval e = eval_new(s->program, NULL, &s->leaves, s->training);
  const Expr *x = parse_text(s, text);
  if (!x) return;
  s->leaves = (LeafStore){0}; /* one model at a time */
  s->job = (Job){.arena = s->arena};
  if (s->build) s->build->leaf_value.len = s->build->written.len = 0;
  env_define(s->arena, s->env, text_intern("net"), datum_error(), BIND_local, x->span);
  Datum d = eval_expr(&e, x, env_new(s->arena, NULL, s->file));
  if (d.kind == DATUM_error) return;
  s->net = module_instantiate(&e, d, "", "net", x->span);
  if (!s->net) return;
  leaves_number(&e, &s->leaves, &s->net, 1, &s->job);
  env_define(s->arena, s->env, text_intern("net"), datum_instance(s->net), BIND_local, x->span);
  print_leaves(s);
}

static void add_input(Session *s, char *text) {
  char *name = strtok(text, " "), *type = strtok(NULL, "");
  Type t;
  if (!name || !type || !parse_type(type, &t)) {
    fprintf(stderr, "bad input directive\n");
    exit(2);
  }
  if (!s->graph) new_graph(s);
  Attr attr[IR_MAX_ATTRS] = {0};
  attr[op_attr(OP_input, "field")].as.i = s->inputs++;
  attr[op_attr(OP_input, "dtype")].as.i = t.dtype;
  attr[op_attr(OP_input, "shape")] = dims_attr(t);
  Span at = {0};
  Val v = ir_must(s->graph, OP_input, NULL, 0, attr, at, 0);
  env_define(s->arena, s->env, text_intern(name), datum_tensor(v), BIND_local, at);
}

static void output(Session *s, Eval *e, Datum d, int *n, Span at) {
  if (d.kind == DATUM_tuple || d.kind == DATUM_list) {
    for (uint32_t i = 0; i < d.as.list.len; i++) output(s, e, d.as.list.at[i], n, at);
    return;
  }
  Val v;
  if (need_tensor(e, d, at, "the result", &v)) graph_output(s->graph, OUT_value, (*n)++, v);
}

static void print_graph(Session *s, const char *text) {
  if (!s->graph) new_graph(s);
  Eval e = eval_new(s->program, s->build, &s->leaves, s->training);
  const Expr *x = parse_text(s, text);
  if (!x) return;
  int n = 0;
  output(s, &e, eval_expr(&e, x, s->env), &n, x->span);
  build_buffers(s->build);
  if (diag_errors()) return;
  ir_verify(s->graph, "sema_dump");
  Text t = {0};
  ir_print(&t, s->graph);
  fputs(t.at ? t.at : "", s->out);
  text_free(&t);
}

static void print_types(Session *s, Eval *e, Datum d) {
  if (d.kind == DATUM_tuple || d.kind == DATUM_list) {
    for (uint32_t i = 0; i < d.as.list.len; i++) print_types(s, e, d.as.list.at[i]);
    return;
  }
  if (d.kind == DATUM_error) return;
  fprintf(s->out, " %s", datum_describe(e, d));
}

static void type_of(Session *s, const char *text) {
  if (!s->graph) new_graph(s);
  Eval e = eval_new(s->program, s->build, &s->leaves, s->training);
  const Expr *x = parse_text(s, text);
  if (!x) return;
  Datum d = eval_expr(&e, x, s->env);
  fprintf(s->out, "%s:", text);
  print_types(s, &e, d);
  fputs("\n", s->out);
}

static void fill(void *self, const Graph *g, Val v, double *out) {
  const Value *x = value_at(g, v);
  double k = (double)x->attr[0].as.i;
  int64_t n = type_elements_at(x->type, 4);
  (void)self;
  for (int64_t j = 0; j < n; j++) {
    double wave =
        x->op == OP_param ? sin(0.9 * (double)j + 0.3 * k) : 2 * sin(1.3 * (double)j + 0.7 * k);
    out[j] = dtype_category(x->type.dtype) == 'f' ? wave : (double)((7 * j + x->attr[0].as.i) % 5);
  }
}

static void run_values(Session *s, const char *text) {
  if (!s->graph) new_graph(s);
  Eval e = eval_new(s->program, s->build, &s->leaves, s->training);
  const Expr *x = parse_text(s, text);
  if (!x) return;
  int n = 0;
  uint32_t first = s->graph->outputs.len;
  output(s, &e, eval_expr(&e, x, s->env), &n, x->span);
  if (diag_errors()) return;
  Interp how = {.batch = 4, .source = fill};
  double **values = interp_run(s->arena, s->graph, &how);
  fprintf(s->out, "%s:", text);
  for (uint32_t i = first; i < s->graph->outputs.len; i++) {
    Val v = s->graph->outputs.at[i].value;
    int64_t count = type_elements_at(value_at(s->graph, v)->type, 4);
    for (int64_t j = 0; j < count; j++) fprintf(s->out, " %.5g", values[v][j] + 0.0);
  }
  fputs("\n", s->out);
}

static void show(Session *s, const char *text) {
  Eval e = eval_new(s->program, s->build, &s->leaves, s->training);
  const Expr *x = parse_text(s, text);
  if (!x) return;
  Datum d = eval_expr(&e, x, s->env);
  if (d.kind == DATUM_error) return;
  Text t = {0};
  datum_print(&t, d);
  fprintf(s->out, "%s = %s\n", text, t.at);
  text_free(&t);
}

static void directive(Session *s, char *line) {
  static const char *const words[] = {"model ",    "input ", "graph ", "show ",
                                      "training ", "type ",  "run "};
  int k = 0;
  while (k < 7 && strncmp(line, words[k], strlen(words[k])) != 0) k++;
  if (k == 7) return;
  char *rest = line + strlen(words[k]);
  switch (k) {
  case 0:
    make_model(s, rest);
    break;
  case 1:
    add_input(s, rest);
    break;
  case 2:
    print_graph(s, rest);
    break;
  case 3:
    show(s, rest);
    break;
  case 5:
    type_of(s, rest);
    break;
  case 6:
    run_values(s, rest);
    break;
  default:
    s->training = !strcmp(rest, "true");
    break;
  }
}

/* ---------- expectations ---------- */

static bool line_expects(const char *line, const char *end, const char *code, const char *message) {
  for (const char *p = line; (p = strstr(p, "# error ")) && p < end; p++) {
    if (strncmp(p + 8, code, 5) != 0) continue;
    if (p[13] != ':') return true;
    const char *text = p + 15;
    size_t n = (size_t)(end - text);
    if (!strncmp(text, message, n)) return true;
  }
  return false;
}

/* Every message is asked for by its line, and as many came as are asked for. */
static bool as_expected(const char *text, char *messages) {
  int wanted = 0, came = 0;
  bool ok = true;
  for (const char *p = text; (p = strstr(p, "# error E")); p++) wanted++;
  for (char *m = strtok(messages, "\n"); m; m = strtok(NULL, "\n")) {
    char *error = strstr(m, ": error[");
    if (!error) continue;
    came++;
    int number = 0;
    char *colon = error;
    while (colon > m && *--colon != ':') continue;
    while (colon > m && *--colon != ':') continue;
    number = atoi(colon + 1);
    const char *line = text;
    for (int k = 1; k < number && line; k++)
      line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL;
    const char *end = line ? strchrnul(line, '\n') : NULL;
    if (line && line_expects(line, end, error + 8, error + 16)) continue;
    fprintf(stderr, "not expected: %s\n", m);
    ok = false;
  }
  if (ok && came != wanted) fprintf(stderr, "%d errors expected, %d came\n", wanted, came);
  return ok && came == wanted;
}

/* Lines of the library move when it is edited: std/prelude.ddp:67 is compared as std/prelude.ddp:. */
static char *without_library_lines(Arena *a, const char *text) {
  char *out = arena_strdup(a, text), *to = out;
  bool library = false;
  for (const char *c = text; *c; c++) {
    if (!strncmp(c, " std/", 5)) library = true;
    *to++ = *c;
    if (library && *c == ':') {
      while (c[1] >= '0' && c[1] <= '9') c++;
      library = false;
    }
  }
  *to = 0;
  return out;
}

static bool same_as(const char *path, const char *got) {
  char *want = NULL;
  size_t cap = 0;
  FILE *f = fopen(path, "r");
  if (!f) return perror(path), false;
  ssize_t n = getdelim(&want, &cap, 0, f);
  fclose(f);
  Arena *a = arena_new();
  bool same = !strcmp(without_library_lines(a, n < 0 ? "" : want), without_library_lines(a, got));
  arena_free(a);
  if (!same) fprintf(stderr, "--- expected\n%s--- got\n%s", n < 0 ? "" : want, got);
  free(want);
  return same;
}

static void run(Session *s, const char *source_text) {
  AstFile *ast = parse_source(s->arena, s->source);
  s->file = program_add(s->program, ast, s->library);
  if (!diag_errors()) resolve_file(s->program, s->file);
  s->env = env_new(s->arena, NULL, s->file);
  char *text = arena_strdup(s->arena, source_text);
  for (char *line = text, *next; line; line = next) {
    next = strchr(line, '\n');
    if (next) *next++ = 0;
    if (!strncmp(line, "# ", 2)) directive(s, line + 2);
  }
}

int main(int argc, char **argv) {
  bool library = argc > 1 && !strcmp(argv[1], "--library");
  argc -= library;
  argv += library;
  if (argc < 2 || argc > 3)
    return fprintf(stderr, "usage: sema_dump [--library] FILE.ddp [OUT]\n"), 2;
  Session s = {.arena = arena_new(), .training = true, .library = library};
  uint32_t read = source_read(argv[1]);
  if (!read) return perror(argv[1]), 2;
  const char *slash = strrchr(argv[1], '/'); /* the same output from every folder */
  s.source =
      source_add(slash ? slash + 1 : argv[1], source_get(read)->text, source_get(read)->length);
  char *messages = NULL, *got = NULL;
  size_t n;
  s.out = argc == 3 ? open_memstream(&got, &n) : stdout;
  s.program = program_new(s.arena);
  s.job.arena = s.arena;
  const char *text = source_get(s.source)->text;
  run(&s, text);
  if (argc == 3) fclose(s.out);
  bool asks = strstr(text, "# error E");
  FILE *to = asks ? open_memstream(&messages, &n) : stderr;
  diag_flush(to, false);
  if (!asks) return diag_errors() || (argc == 3 && !same_as(argv[2], got));
  fclose(to);
  return !as_expected(text, messages);
}
