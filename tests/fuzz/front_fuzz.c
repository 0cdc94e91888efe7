/* The whole front end on mutated jobs: lexer, parser, names, evaluation, passes, plan, emission. Each job
   runs in a process of its own, with a limit on time and memory.
     front_fuzz SECONDS SEED FOLDER WORDS FILE...
   FOLDER is made; it gets empty files for the data that the FILEs name, and every job that ended in
   any other way than with diagnostics or a program, as found-N.ddp with what it printed beside it.
   The same seed gives the same jobs. Exit 1 when something was found. */
#include "diag.h"
#include "emit.h"
#include "front_mutate.h"
#include "pipeline.h"
#include "sema.h"
#include "text.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The evaluator's limit of a million turns takes 750 MiB; sanitizers make everything several times slower
   and larger. */
#if defined(__SANITIZE_ADDRESS__)
enum { SECONDS_MOST = 30, MEBIBYTES_MOST = 2500 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
enum { SECONDS_MOST = 30, MEBIBYTES_MOST = 2500 };
#else
enum { SECONDS_MOST = 10, MEBIBYTES_MOST = 1000 };
#endif
#else
enum { SECONDS_MOST = 10, MEBIBYTES_MOST = 1000 };
#endif

static const char *const job_path = "job.ddp", *const said_path = "said.txt";

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void write_file(const char *path, const char *text, size_t n) {
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(text, 1, n, f) != n || fclose(f)) {
    perror(path);
    exit(2);
  }
}

/* What ddpc does, but for the C compiler. */
static int front_end(void) {
  Arena *arena = arena_new();
  SemaOptions how = {.check_only = true};
  Job *job = sema_analyse(arena, job_path, &how);
  /* what is not supported yet leaves graphs incomplete */
  if (job && job->train && job->eval && !diag_errors() && !diag_later()) {
    Plan *plan = pipeline_run(job, NULL, NULL);
    Text text = {0};
    EmitOptions as = {.target = &target_cpu, .compiler_version = "0", .march = "native"};
    if (plan && !diag_errors()) emit_program(&text, NULL, plan, &as);
    text_free(&text);
  }
  diag_flush(stderr, false);
  arena_free(arena);
  return diag_errors() ? 1 : 0;
}

/* Empty files for the names of data in a text. */
static void make_data(const char *text) {
  for (const char *at = text; (at = strchr(at, '"'));) {
    const char *end = strchr(++at, '"');
    if (!end) return;
    char name[256];
    size_t n = (size_t)(end - at);
    if (n && n < sizeof name && *at != '/' && *at != '.' && !memchr(at, '\n', n) &&
        memchr(at, '.', n) && !(n > 4 && !memcmp(end - 4, ".ddp", 4))) {
      memcpy(name, at, n);
      name[n] = 0;
      for (char *slash = name; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = 0;
        mkdir(name, 0777);
      }
      int f = open(name, O_WRONLY | O_CREAT, 0666);
      if (f >= 0) close(f);
    }
    at = end + 1;
  }
}

typedef struct Ending {
  int status;
  double seconds;
  long mebibytes;
} Ending;

static Ending run_once(void) {
  double started = now();
  pid_t pid = fork();
  if (pid < 0) {
    perror("fork");
    exit(2);
  }
  if (!pid) {
    int out = open(said_path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (out < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0) _exit(99);
    alarm(SECONDS_MOST);
    struct rlimit cores = {0, 0};
    setrlimit(RLIMIT_CORE, &cores);
    exit(front_end()); /* exit: the leak checker looks */
  }
  Ending e = {0};
  struct rusage used;
  while (wait4(pid, &e.status, 0, &used) < 0)
    if (errno != EINTR) exit(2);
  e.seconds = now() - started;
  e.mebibytes = used.ru_maxrss / 1024;
  return e;
}

static bool is_good(const Ending *e) {
  return WIFEXITED(e->status) && WEXITSTATUS(e->status) <= 1 && e->mebibytes <= MEBIBYTES_MOST;
}

static void keep(int number, const Ending *e, const char *job, size_t n) {
  char name[64];
  snprintf(name, sizeof name, "found-%d.ddp", number);
  write_file(name, job, n);
  snprintf(name, sizeof name, "found-%d.txt", number);
  rename(said_path, name);
  if (WIFSIGNALED(e->status)) {
    bool slow = WTERMSIG(e->status) == SIGALRM;
    printf("found-%d.ddp: %s (signal %d)\n", number, slow ? "too slow" : "crash",
           WTERMSIG(e->status));
  } else {
    printf("found-%d.ddp: exit %d, %ld MiB\n", number, WEXITSTATUS(e->status), e->mebibytes);
  }
  fflush(stdout);
}

int main(int argc, char **argv) {
  if (argc < 6) {
    fprintf(stderr, "usage: front_fuzz JOBS|SECONDSs SEED FOLDER WORDS FILE...\n");
    return 2;
  }
  char *unit = NULL;
  double limit = strtod(argv[1], &unit), started = now(), slowest = 0;
  bool timed = *unit == 's'; /* a number of jobs is the same work on every machine */
  long largest = 0, jobs = 0, whole = 0;
  Mutator *m = mutator_new(strtoull(argv[2], NULL, 10), argv[4], argv + 5, argc - 5);
  if (mkdir(argv[3], 0777) && errno != EEXIST) return perror(argv[3]), 2;
  if (chdir(argv[3])) return perror(argv[3]), 2;
  for (int i = 0; i < argc - 5; i++) make_data(mutator_text(m, i));
  int found = 0;
  for (; (timed ? now() - started : (double)jobs) < limit && found < 20; jobs++) {
    size_t n = 0;
    const char *job = mutator_next(m, &n);
    write_file(job_path, job, n);
    Ending e = run_once();
    if (e.seconds > slowest) slowest = e.seconds;
    if (e.mebibytes > largest) largest = e.mebibytes;
    whole += WIFEXITED(e.status) && !WEXITSTATUS(e.status);
    if (!is_good(&e)) keep(found++, &e, job, n);
  }
  printf("%ld jobs (%ld without an error), slowest %.2f s, largest %ld MiB, %d found\n", jobs,
         whole, slowest, largest, found);
  mutator_free(m);
  return found || !jobs ? 1 : 0;
}
