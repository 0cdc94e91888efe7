/* Runs passes over a file of textual IR: ir_filter NAME.ir [NAME.out]
   The file's comments say what to do:
     ; passes fold cse         in this order, each verified
     ; field i64 0 10          declares field 0, 1, ... with its range [0, 10)
   Prints the graphs; with NAME.out compares instead, and shows both texts if they differ. */
#include "diag.h"
#include "passes.h"
#include <stdio.h>
#include <string.h>

static Job job = {.train_batch = 4, .recompute.on = true};

static Graph *run_fold(Graph *g) {
  return pass_fold(g, &job);
}
static Graph *run_cast(Graph *g) {
  return cast_graph(g, DT_bf16, false);
}
static Graph *run_cast_all(Graph *g) {
  return cast_graph(g, DT_bf16, true);
}
static Graph *run_recompute(Graph *g) {
  job.train = g;
  pass_recompute(&job);
  return job.train;
}
static Graph *run_layout(Graph *g) {
  return pass_layout(g, &job);
}
static Graph *for_gpu(Graph *(*pass)(Graph *g, const Job *job), Graph *g) {
  job.target.cuda = true;
  g = pass(g, &job);
  job.target.cuda = false;
  return g;
}
static Graph *run_layout_gpu(Graph *g) {
  return for_gpu(pass_layout, g);
}
static Graph *run_widen(Graph *g) {
  return pass_widen(g, &job);
}
static Graph *run_widen_gpu(Graph *g) {
  return for_gpu(pass_widen, g);
}
static const struct {
  const char *name;
  Graph *(*run)(Graph *);
} passes[] = {{"fold", run_fold},
              {"cse", pass_cse},
              {"dce", pass_dce},
              {"decompose", pass_decompose},
              {"layout", run_layout},
              {"layout_gpu", run_layout_gpu},
              {"cast", run_cast},
              {"cast_all", run_cast_all},
              {"widen", run_widen},
              {"widen_gpu", run_widen_gpu},
              {"recompute", run_recompute},
              {NULL, NULL}};

static void declare_field(Arena *a, const char *line) {
  Field f = {.name = "field", .has_range = true};
  char dtype[16];
  if (sscanf(line, "%15s %lf %lf", dtype, &f.low, &f.high) == 3 &&
      dtype_parse(dtype, &f.type.dtype))
    vec_push(a, &job.dataset.fields, f);
}

static Graph *run_pass(const char *name, Graph *g) {
  for (int i = 0; passes[i].name; i++) {
    if (strcmp(passes[i].name, name) != 0) continue;
    g = passes[i].run(g);
    ir_verify(g, name);
    return g;
  }
  fprintf(stderr, "ir_filter: no pass `%s`\n", name);
  return NULL;
}

static Graph *run_line(const char *line, Graph *g) {
  char name[32];
  int used;
  while (g && sscanf(line, "%31s%n", name, &used) == 1) {
    line += used;
    g = run_pass(name, g);
  }
  return g;
}

/* The rest of the line that starts with this word, or NULL. */
static char *directive(Arena *a, const char *line, const char *word) {
  if (strncmp(line, word, strlen(word)) != 0) return NULL;
  line += strlen(word);
  return arena_strndup(a, line, strcspn(line, "\n"));
}

static bool filter(Arena *a, uint32_t file, Text *out) {
  enum { MAX = 16 };
  Graph *graphs[MAX];
  const char *todo = "";
  for (const char *at = source_get(file)->text; at; at = strchr(at, '\n')) {
    at += *at == '\n';
    char *field = directive(a, at, "; field "), *line = directive(a, at, "; passes ");
    if (field) declare_field(a, field);
    if (line) todo = line;
    if (!*at) break;
  }
  int n = ir_parse_all(a, file, graphs, MAX);
  for (int i = 0; i < n; i++) {
    ir_verify(graphs[i], "parse");
    Graph *g = run_line(todo, graphs[i]);
    if (!g) return false;
    ir_print(out, g);
  }
  diag_flush(stderr, false);
  return n > 0 && diag_errors() == 0;
}

int main(int argc, char **argv) {
  Arena *a = arena_new();
  Text out = {0};
  uint32_t file = argc > 1 ? source_read(argv[1]) : 0, want = argc > 2 ? source_read(argv[2]) : 0;
  if (!file || (argc > 2 && !want)) {
    fprintf(stderr, "usage: ir_filter NAME.ir [NAME.out]\n");
    return 2;
  }
  text_add(&out, "");
  if (!filter(a, file, &out)) return 1;
  bool same = !want || !strcmp(out.at, source_get(want)->text);
  if (!want) fputs(out.at, stdout);
  if (!same) printf("expected:\n%sgot:\n%s", source_get(want)->text, out.at);
  text_free(&out);
  arena_free(a);
  return same ? 0 : 1;
}
