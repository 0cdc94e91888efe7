/* `ddpc verify-restart JOB`: proves that a run which is broken off and resumed ends as one that is not. In:
   a job. Out: the job is trained once straight on, and again and again broken off at random moments and
   resumed; what the runs left is compared byte for byte. The seed decides kinds and moments, the machine's
   speed where in the training a moment falls. */
#include "command.h"
#include "diag.h"
#include "same_output.h"
#include "trial.h"
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
  int weight, ranks;
  const char *says;
} breaks[] = {
#define BREAK(name, weight, first, second, ranks, says) {weight, ranks, says},
#include "breaks.def"
};

typedef struct Verify {
  Run *r;
  Arena *arena;
  const char *folder, *program, *console;
  int64_t ranks, breaks, updates; /* as asked for; updates 0: the job's own number */
  uint64_t random;
  bool saves;        /* this command says when to save */
  bool weights_only; /* the job saves weights alone; here it does not */
  bool json;
  /* of the straight run */
  long long last;       /* update */
  double whole, before; /* seconds: all, and until training begins */
  int rounds, compared;
  json_t *list; /* of breaks */
  Lines wrong;
} Verify;

static uint64_t draw(Verify *v, uint64_t below) { /* splitmix64 */
  uint64_t z = v->random += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return (z ^ (z >> 31)) % (below ? below : 1);
}

static double uniform(Verify *v, double most) {
  return most * (double)draw(v, 1u << 30) / (double)(1u << 30);
}

/* ---------- the command line ---------- */

static bool number(const Run *r, OptionKind option, const char *name, int64_t low, int64_t *out) {
  const char *text = r->options.value[option];
  if (!text) return true;
  char *end;
  errno = 0;
  *out = strtoll(text, &end, 10);
  if (!errno && end != text && !*end && *out >= low) return true;
  fprintf(stderr, "ddpc: --%s=%s: must be a whole number from %lld on\n", name, text,
          (long long)low);
  return false;
}

static bool read_options(Verify *v) {
  const Run *r = v->r;
  int64_t seed = 1;
  v->ranks = 2;
  v->breaks = 8;
  v->json = run_switch(r, OPT_json);
  bool good = number(r, OPT_ranks, "ranks", 1, &v->ranks) &&
              number(r, OPT_breaks, "breaks", 1, &v->breaks) &&
              number(r, OPT_updates, "updates", 1, &v->updates) &&
              number(r, OPT_seed, "seed", 0, &seed);
  v->random = (uint64_t)seed;
  return good;
}

static bool make_folder(Verify *v) {
  const char *path = v->r->options.value[OPT_output], *base = getenv("TMPDIR");
  char *made = arena_printf(v->arena, "%s/ddpc-verify-XXXXXX", base && *base ? base : "/tmp");
  if (path && mkdir(path, 0777) == 0)
    made = arena_strdup(v->arena, path);
  else if (path || !mkdtemp(made)) {
    fprintf(stderr, "ddpc: cannot make the folder %s: %s\n", path ? path : made, strerror(errno));
    return false;
  }
  char *whole = realpath(made, NULL);
  v->folder = arena_strdup(v->arena, whole ? whole : made);
  free(whole);
  v->program = arena_printf(v->arena, "%s/train", v->folder);
  v->console = arena_printf(v->arena, "%s/console.txt", v->folder);
  return true;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *where) {
  (void)st, (void)type, (void)where;
  return remove(path);
}

static int compile(Verify *v, const char *file) {
  Run one = *v->r;
  one.options.command = COMMAND_compile;
  one.options.value[OPT_output] = v->program;
  one.options.value[OPT_json] = NULL;
  Job *job = run_analyse(v->r, file, false);
  if (!job) return run_flush(WRONG_JOB);
  v->saves = true; /* where the best checkpoint is loaded, saving follows evaluation */
  for (uint32_t i = 0; i < job->settings.len; i++) {
    const JobSetting *s = &job->settings.at[i];
    bool set = !strcmp(s->value, "true");
    if (!strcmp(s->key, "load_best_model_at_end") && set) v->saves = false;
    if (!strcmp(s->key, "save_only_model") && set) v->weights_only = true;
  }
  diag_reset();
  return cmd_compile(&one);
}

/* ---------- runs ---------- */

typedef VEC(const char *) Words;

static void add(Verify *v, Words *w, const char *flag, const char *value) {
  vec_push(v->arena, w, flag);
  vec_push(v->arena, w, value);
}

static Words command(Verify *v, const char *output, long long save_every) {
  Words w = {0};
  vec_push(v->arena, &w, v->program);
  if (v->ranks > 1)
    add(v, &w, "--nproc-per-node", arena_printf(v->arena, "%lld", (long long)v->ranks));
  add(v, &w, "--output_dir", output);
  if (v->updates) add(v, &w, "--max_steps", arena_printf(v->arena, "%lld", (long long)v->updates));
  if (v->weights_only) add(v, &w, "--save_only_model", "false");
  if (v->saves) {
    add(v, &w, "--save_strategy", "steps");
    add(v, &w, "--save_steps", arena_printf(v->arena, "%lld", save_every));
  }
  return w;
}

/* What the program said last. */
static void show_console(const Verify *v) {
  FILE *f = fopen(v->console, "r");
  char line[512];
  if (!f) return;
  if (fseek(f, -2000, SEEK_END) != 0) rewind(f);
  while (fgets(line, sizeof line, f))
    fprintf(stderr, "  | %s%s", line, strchr(line, '\n') ? "" : "\n");
  fclose(f);
}

/* Number of updates, and the seconds that training took, from the log. */
static bool read_log(Verify *v, const char *output) {
  FILE *f = fopen(arena_printf(v->arena, "%s/log.jsonl", output), "r");
  char *line = NULL;
  size_t room = 0;
  double trained = 0;
  while (f && getline(&line, &room, f) > 0) {
    json_t *j = json_loads(line, 0, NULL);
    json_t *n = json_object_get(j, "max_steps"), *t = json_object_get(j, "train_runtime");
    if (n) v->last = json_integer_value(n);
    if (t) trained = json_number_value(t);
    json_decref(j);
  }
  free(line);
  if (f) fclose(f);
  v->before = v->whole > trained ? v->whole - trained : 0;
  return v->last > 0;
}

static bool run_straight(Verify *v) {
  const char *output = arena_printf(v->arena, "%s/straight", v->folder);
  Words w = command(v, output, INT_MAX);
  vec_push(v->arena, &w, (const char *)NULL);
  Trial t = {.console = v->console, .words = w.at, .limit = 86400};
  if (!trial_run(&t)) return false;
  v->whole = t.seconds;
  if (t.code == 0 && read_log(v, output)) return true;
  fprintf(stderr, "ddpc: the straight run ended with exit code %d:\n", t.code);
  show_console(v);
  return false;
}

/* Update of the newest complete checkpoint, 0 if there is none. */
static long long newest(Verify *v, const char *output) {
  long long best = 0, n;
  DIR *d = opendir(output);
  for (struct dirent *e; d && (e = readdir(d));) {
    char rest;
    if (sscanf(e->d_name, "checkpoint-%lld%c", &n, &rest) != 1 || n <= best) continue;
    const char *manifest = arena_printf(v->arena, "%s/%.80s/manifest.json", output, e->d_name);
    if (access(manifest, F_OK) == 0) best = n;
  }
  if (d) closedir(d);
  return best;
}

static BreakKind draw_kind(Verify *v) {
  int all = 0;
  for (int i = 0; i < BREAK_COUNT; i++)
    if (breaks[i].ranks <= v->ranks) all += breaks[i].weight;
  int at = (int)draw(v, (uint64_t)all);
  for (int i = 0; i < BREAK_COUNT; i++) {
    if (breaks[i].ranks > v->ranks) continue;
    if (at < breaks[i].weight) return (BreakKind)i;
    at -= breaks[i].weight;
  }
  return BREAK_none;
}

static void wrong(Verify *v, const char *text) {
  vec_push(v->arena, &v->wrong, text);
}

/* What may not happen, however a run is broken off. */
static void judge(Verify *v, const Trial *t, int n, long long stop_at, long long reached) {
  Arena *a = v->arena;
  bool stop = t->how != BREAK_kill_rank && t->how != BREAK_kill_job;
  if (t->hung)
    wrong(v, arena_printf(a, "break %d: the run did not end within %.0f s", n, t->limit));
  if (t->left) wrong(v, arena_printf(a, "break %d: %d processes outlived the run", n, t->left));
  if (stop_at && (t->code != 9 || reached != stop_at))
    wrong(v, arena_printf(a,
                          "break %d: --stop_at_update %lld ended with exit code %d and checkpoint "
                          "%lld; 9 and %lld were expected",
                          n, stop_at, t->code, reached, stop_at));
  if (!t->hung && (t->code > 0 && t->code < 128 && t->code != 9) && stop)
    wrong(v, arena_printf(a, "break %d: exit code %d after %s", n, t->code, breaks[t->how].says));
}

static void tell(Verify *v, const Trial *t, int n, long long stop_at, long long reached) {
  char what[80];
  const char *says = breaks[t->how].says;
  if (stop_at)
    snprintf(what, sizeof what, "%s %lld", says, stop_at);
  else if (t->how == BREAK_kill_rank)
    snprintf(what, sizeof what, "kill -9 of rank %d after %.3f s", t->rank, t->after);
  else
    snprintf(what, sizeof what, "%s after %.3f s", says, t->after);
  if (v->json) {
    json_t *j = json_object();
    json_object_set_new(j, "what", run_json_text(what));
    json_object_set_new(j, "exit", json_integer(t->code));
    json_object_set_new(j, "checkpoint", json_integer(reached));
    json_array_append_new(v->list, j);
  } else {
    printf("%4d  %-38s exit %3d, goes on from %s%lld\n", n, what, t->code,
           reached ? "checkpoint-" : "update ", reached);
    fflush(stdout);
  }
}

/* Most moments lie in the training, some in the start. */
static void plan_break(Verify *v, Trial *t) {
  t->how = draw_kind(v);
  t->rank = (int)draw(v, (uint64_t)v->ranks);
  double training = v->whole - v->before;
  t->after = draw(v, 5) == 0 ? uniform(v, v->before) : v->before + uniform(v, training * 0.6);
  t->second = uniform(v, draw(v, 2) ? 0.02 : 0.2);
}

/* One run from the beginning to the end, broken off on the way; *n: breaks so far. False: no use to go on. */
static bool run_round(Verify *v, int *n) {
  Arena *a = v->arena;
  const char *output = arena_printf(a, "%s/broken-%d", v->folder, v->rounds + 1);
  size_t before = v->wrong.len;
  for (int idle = 0;;) {
    Words w = command(v, output, v->last / 20 > 0 ? v->last / 20 : 1);
    add(v, &w, "--resume_from_checkpoint", "true");
    Trial t = {.console = v->console, .limit = 60 + 20 * v->whole};
    long long at = newest(v, output), stop_at = 0;
    if (*n < v->breaks) plan_break(v, &t);
    if (t.how == BREAK_stop_at && at + 1 < v->last)
      stop_at = at + 1 + (long long)draw(v, (uint64_t)(v->last - at - 1));
    if (stop_at) add(v, &w, "--stop_at_update", arena_printf(a, "%lld", stop_at));
    vec_push(a, &w, (const char *)NULL);
    t.words = w.at;
    if (!trial_run(&t)) return false;
    if (t.code == 0) break;
    long long reached = newest(v, output);
    bool meant = t.broken || stop_at;
    if (meant) {
      ++*n;
      judge(v, &t, *n, stop_at, reached);
      tell(v, &t, *n, stop_at, reached);
    } else {
      wrong(v, arena_printf(a, "a run that goes on from %lld ended with exit code %d", at, t.code));
      show_console(v);
    }
    idle = reached > at ? 0 : idle + 1;
    if (!meant || v->wrong.len > before + 5) return false;
  }
  v->rounds++;
  v->compared =
      outputs_compare(a, arena_printf(a, "%s/straight", v->folder), output, v->last, &v->wrong);
  return v->wrong.len == before;
}

/* ---------- the report ---------- */

static int report(Verify *v) {
  bool same = !v->wrong.len;
  if (v->json) {
    json_t *j = json_object(), *list = json_array();
    for (uint32_t i = 0; i < v->wrong.len; i++)
      json_array_append_new(list, run_json_text(v->wrong.at[i]));
    json_object_set_new(j, "same", json_boolean(same));
    json_object_set_new(j, "ranks", json_integer(v->ranks));
    json_object_set_new(j, "updates", json_integer(v->last));
    json_object_set_new(j, "runs", json_integer(v->rounds));
    json_object_set_new(j, "breaks", v->list);
    json_object_set_new(j, "differences", list);
    if (!same) json_object_set_new(j, "folder", run_json_text(v->folder));
    run_write_json(NULL, j);
    return same ? DONE : WRONG_JOB;
  }
  for (uint32_t i = 0; i < v->wrong.len; i++) printf("wrong: %s\n", v->wrong.at[i]);
  if (same)
    printf(
        "the same: %d run%s of %lld updates on %lld rank%s, broken off %zu times in all, left the "
        "bytes of a straight run in %d files\n",
        v->rounds, v->rounds == 1 ? "" : "s", v->last, (long long)v->ranks,
        v->ranks == 1 ? "" : "s", (size_t)v->breaks, v->compared);
  else
    printf("not the same; all runs and what they said are in %s\n", v->folder);
  return same ? DONE : WRONG_JOB;
}

int cmd_verify_restart(Run *r) {
  Verify v = {.r = r, .arena = r->arena, .list = json_array()};
  const char *file = run_file(r);
  if (!file || !read_options(&v) || !make_folder(&v)) return WRONG_USE;
  int code = compile(&v, file), n = 0;
  if (code == DONE && !run_straight(&v)) code = WRONG_USE;
  if (code == DONE && !v.json)
    printf("straight on: %lld updates on %lld rank%s in %.2f s\n", v.last, (long long)v.ranks,
           v.ranks == 1 ? "" : "s", v.whole);
  while (code == DONE && n < v.breaks && run_round(&v, &n)) continue;
  if (code == DONE) code = report(&v);
  if (code == DONE && !r->options.value[OPT_output])
    nftw(v.folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
  return code;
}
