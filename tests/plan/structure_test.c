/* Structure by counts: every cases/NAME.ir begins with lines
     ; expect kernels=7 calls=3 block=4096 stages=5 ready=2,1,0 chunk=3+4
   Each pair is compared with the plan of the file's graph (block is exact bytes; stages: the most of one kernel;
   epilogues: of products, in order, for a target that has them; chunk: the first kernel of the loss in chunks and
   how many, 0+0: there are none). A line `; chunks of 2` asks for these with so many samples (-1: by size),
   `; batch 1000` for a plan at that batch, else at 64. The program must also compute what the interpreter says; with
   epilogues in both ways.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <math.h>
#include <stdlib.h>

#include "diag.h"
#include "fuse.h"
#include "program_eval.h"

enum { PLAN_BATCH = 64, RUN_BATCH = 5, MAX_CASES = 64 };
static const char *folder;

static const char *epilogues(Arena *a, const Program *p) {
  const char *s = "";
  for (uint32_t i = 0; i < p->kernels.len; i++) {
    const Epilogue *e = &p->kernels.at[i].epilogue;
    if (e->kind) s = arena_printf(a, "%s%s%s", s, *s ? "," : "", plan_epilogue_text(e, a));
  }
  return *s ? s : "none";
}

static const char *actual(Arena *a, const Program *p, const char *key) {
  int64_t calls = 0, stages = 0, roots = 0;
  const char *ready = "";
  for (uint32_t i = 0; i < p->kernels.len; i++) {
    const Kernel *k = &p->kernels.at[i];
    calls += k->kind == KERNEL_call;
    if (k->nest && k->nest->stages.len > stages) stages = k->nest->stages.len;
    if (k->nest && k->nest->roots.len > roots) roots = k->nest->roots.len;
    for (uint32_t r = 0; r < k->grads_ready.len; r++)
      ready = arena_printf(a, "%s%s%d", ready, *ready ? "," : "", (int)k->grads_ready.at[r]);
  }
  if (!strcmp(key, "kernels")) return arena_printf(a, "%u", p->kernels.len);
  if (!strcmp(key, "calls")) return arena_printf(a, "%lld", (long long)calls);
  if (!strcmp(key, "stages")) return arena_printf(a, "%lld", (long long)stages);
  if (!strcmp(key, "roots")) return arena_printf(a, "%lld", (long long)roots);
  if (!strcmp(key, "block")) return arena_printf(a, "%lld", (long long)p->block_bytes);
  if (!strcmp(key, "ready")) return ready;
  if (!strcmp(key, "epilogues")) return epilogues(a, p);
  if (!strcmp(key, "chunk")) return arena_printf(a, "%u+%u", p->chunk.first, p->chunk.count);
  if (!strcmp(key, "samples")) return arena_printf(a, "%lld", (long long)p->chunk.samples);
  return "an unknown key";
}

static void check_expectations(Arena *a, const char *text, const Program *p) {
  int pairs = 0;
  for (const char *line = text; line && *line == ';'; line = strchr(line, '\n') + 1) {
    if (strncmp(line, "; expect ", 9)) continue;
    const char *end = strchr(line, '\n');
    char *words = arena_strndup(a, line + 9, (size_t)(end - line - 9)), *rest = NULL;
    for (char *w = strtok_r(words, " ", &rest); w; w = strtok_r(NULL, " ", &rest), pairs++) {
      char *value = strchr(w, '=');
      assert_non_null(value);
      *value++ = 0;
      const char *is = actual(a, p, w);
      if (strcmp(is, value)) print_error("%s is %s, not %s\n", w, is, value);
      assert_string_equal(is, value);
    }
  }
  assert_true(pairs > 0);
}

static void check_numbers(Arena *a, const Graph *g, const Program *p, bool together) {
  double **want = graph_eval(a, g, RUN_BATCH);
  Results got = program_eval(a, p, RUN_BATCH, together);
  if (got.fault) print_error("%s\n", got.fault);
  assert_null(got.fault);
  for (uint32_t i = 0; i < g->outputs.len; i++) {
    int64_t n = type_elements_at(value_at(g, g->outputs.at[i].value)->type, RUN_BATCH);
    for (int64_t k = 0; k < n; k++)
      assert_true(fabs(want[i][k] - got.at[i][k]) <= 1e-9 * (1 + fabs(want[i][k])));
  }
}

static int64_t asked(const char *text, const char *what, int64_t otherwise) {
  const char *at = strstr(text, what);
  return at ? atoll(at + strlen(what)) : otherwise;
}

static void run_case(void **state) {
  Arena *a = arena_new();
  const char *path = arena_printf(a, "%s/%s", folder, (const char *)*state);
  uint32_t file = source_read(path);
  assert_true(file);
  Graph *g = ir_parse(a, file);
  if (!g) diag_flush(stderr, false);
  assert_non_null(g);
  Program p = {0};
  bool epilogues = strstr(source_get(file)->text, " epilogues=") != NULL;
  ProgramOptions options = {.epilogues = epilogues};
  options.chunk = asked(source_get(file)->text, "; chunks of ", 0);
  options.batch_max = asked(source_get(file)->text, "; batch ", PLAN_BATCH);
  plan_program(&p, a, g, &options);
  if (getenv("PLAN_TEST_SHOW"))
    for (uint32_t i = 0; i < p.kernels.len; i++) {
      Text t = {0};
      text_addf(&t, "kernel %u\n", i);
      if (p.kernels.at[i].nest)
        nest_print(&t, p.kernels.at[i].nest);
      else
        text_addf(&t, "call %%%u\n", p.kernels.at[i].call);
      print_message("%s", t.at);
      text_free(&t);
    }
  check_numbers(a, g, &p, false);
  if (epilogues) check_numbers(a, g, &p, true);
  check_expectations(a, source_get(file)->text, &p);
  arena_free(a);
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const struct CMUnitTest *)a)->name, ((const struct CMUnitTest *)b)->name);
}

int main(int argc, char **argv) {
  static struct CMUnitTest tests[MAX_CASES];
  size_t n = 0;
  folder = argc > 1 ? argv[1] : "cases";
  DIR *dir = opendir(folder);
  for (struct dirent *e; dir && (e = readdir(dir)) && n < MAX_CASES;) {
    size_t len = strlen(e->d_name);
    if (len < 4 || strcmp(e->d_name + len - 3, ".ir")) continue;
    const char *name = text_intern(e->d_name);
    void *state = NULL;
    memcpy(&state, &name, sizeof state);
    tests[n++] = (struct CMUnitTest){name, run_case, NULL, NULL, state};
  }
  if (dir) closedir(dir);
  qsort(tests, n, sizeof *tests, by_name);
  return n == 0 ? 1 : _cmocka_run_group_tests("structure", tests, n, NULL, NULL);
}
