/* Calls the C compiler of the host: DDPC_CC, else cc. Its messages are kept back and shown with what to
   do, since a text that ddpc wrote and a compiler refuses is never the user's fault. */
#include "host_cc.h"
#include "install.h"
#include "vec.h"
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

typedef VEC(char *) Args;

static void add(Arena *a, Args *args, const char *text) {
  vec_push(a, args, arena_strdup(a, text));
}
/* Several words in one text, as in DDPC_CC="ccache gcc". */
static void add_words(Arena *a, Args *args, const char *text) {
  char *copy = arena_strdup(a, text), *save = NULL;
  for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) add(a, args, w);
}

static const char *compiler_name(void) {
  const char *cc = getenv("DDPC_CC");
  return cc && *cc ? cc : "cc";
}

/* A text as a C string literal for -D. */
static const char *literal(Arena *a, const char *text) {
  char *out = arena_alloc(a, strlen(text) * 4 + 3), *at = out;
  *at++ = '"';
  for (; *text; text++) {
    if (*text == '"' || *text == '\\') *at++ = '\\';
    *at++ = *text;
  }
  *at++ = '"';
  return out;
}

/* The compiler, and what the program and the sources of operators have in common. */
static Args common_arguments(Arena *a, const HostCompile *c, const Install *where) {
  Args args = {0};
  add_words(a, &args, compiler_name());
  add_words(a, &args,
            "-std=gnu11 -O3 -fno-math-errno -fno-trapping-math -ffp-contract=off -fopenmp-simd");
  if (*c->march) add(a, &args, arena_printf(a, "-march=%s", c->march));
  add(a, &args, arena_printf(a, "-I%s", where->include));
  if (c->headers) add(a, &args, arena_printf(a, "-I%s", c->directory));
  return args;
}

static const char *object_name(Arena *a, const HostCompile *c, uint32_t i) {
  return arena_printf(a, "%s.%ld.op%u.o", c->output, (long)getpid(), i);
}

static Args native_arguments(Arena *a, const HostCompile *c, const Install *where, uint32_t i) {
  Args args = common_arguments(a, c, where);
  add(a, &args, "-c");
  add(a, &args, "-o");
  add(a, &args, object_name(a, c, i));
  add(a, &args, c->natives[i]);
  vec_push(a, &args, (char *)NULL);
  return args;
}

static Args arguments(Arena *a, const HostCompile *c, const Install *where) {
  Args args = common_arguments(a, c, where);
  add(a, &args, arena_printf(a, "-DDDP_JOB_DIRECTORY=%s", literal(a, c->directory)));
  if (where->plugins)
    add(a, &args, arena_printf(a, "-DDDP_PLUGIN_PATH=%s", literal(a, where->plugins)));
  add_words(a, &args, DDPC_JOB_DEFINITIONS);
  add(a, &args, "-o");
  add(a, &args, c->output);
  add(a, &args, c->source);
  for (uint32_t i = 0; i < c->n_natives; i++) add(a, &args, object_name(a, c, i));
  add(a, &args, arena_printf(a, "%s/libddp_runtime.a", where->library));
  add_words(a, &args, DDPC_JOB_LIBRARIES);
  vec_push(a, &args, (char *)NULL);
  return args;
}

static void show(const Args *args) {
  for (uint32_t i = 0; i + 1 < args->len; i++) fprintf(stderr, "%s%s", i ? " " : "", args->at[i]);
  fprintf(stderr, "\n");
}

static void copy_file(int from, FILE *to) {
  char buffer[4096];
  ssize_t n;
  lseek(from, 0, SEEK_SET);
  while ((n = read(from, buffer, sizeof buffer)) > 0) fwrite(buffer, 1, (size_t)n, to);
}

/* Exit status of the compiler; -1: it could not be started (errno). Messages go to file `messages`. */
static int run(const Args *args, int messages) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, messages, STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&actions, messages, STDOUT_FILENO);
  pid_t pid;
  int failed = posix_spawnp(&pid, args->at[0], &actions, NULL, args->at, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed) {
    errno = failed;
    return -1;
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static bool cannot_start(int status, const Args *args) {
  if (status >= 0 && status != 127) return false;
  fprintf(stderr,
          "ddpc: cannot run the C compiler `%s`: %s\n"
          "help: install gcc or clang, or name one with DDPC_CC=/path/to/cc\n",
          args->at[0], strerror(status < 0 ? errno : ENOENT));
  return true;
}

static void failure(int status, const Args *args, int messages, const char *native) {
  if (cannot_start(status, args)) return;
  if (native) {
    fprintf(stderr, "ddpc: `%s`, the source of an operator, does not compile:\n", native);
    copy_file(messages, stderr);
    return;
  }
  fprintf(stderr, "ddpc: the C compiler `%s` failed (exit status %d). It was called as\n  ",
          args->at[0], status);
  show(args);
  fprintf(stderr, "and said\n");
  copy_file(messages, stderr);
  fprintf(
      stderr,
      "help: a library that is not found belongs to ddpc's dependencies (tools/setup installs "
      "them);\n      a `-march` that is not known: choose one with --target cpu:MARCH;\n"
      "      a function that is not found, of a header that the job imports, belongs into the `.c` "
      "beside it;\n"
      "      anything about the C text itself is a fault of ddpc: please report it with the job "
      "and the\n      output of --emit=c\n");
}

/* `native`: the source of an operator that is compiled, or NULL. */
static bool compile(const HostCompile *c, const Args *args, const char *native) {
  if (c->verbose) show(args);
  char name[] = "/tmp/ddpc-messages-XXXXXX";
  int messages = mkstemp(name);
  if (messages < 0) {
    fprintf(stderr, "ddpc: cannot write %s: %s\n", name, strerror(errno));
    return false;
  }
  unlink(name);
  int status = run(args, messages);
  if (status != 0)
    failure(status, args, messages, native);
  else if (c->verbose || native) /* warnings of the user's own source */
    copy_file(messages, stderr);
  close(messages);
  return status == 0;
}

bool host_compile(Arena *a, const HostCompile *c) {
  const Install *where = install_find(a);
  if (!where) return false;
  bool good = true;
  for (uint32_t i = 0; i < c->n_natives && good; i++) {
    Args args = native_arguments(a, c, where, i);
    good = compile(c, &args, c->natives[i]);
  }
  if (good) {
    Args args = arguments(a, c, where);
    good = compile(c, &args, NULL);
  }
  for (uint32_t i = 0; i < c->n_natives; i++) unlink(object_name(a, c, i));
  return good;
}
