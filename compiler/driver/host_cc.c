/* Calls the C compiler of the host: DDPC_CC, else cc; for GPUs also nvcc (DDPC_NVCC) or, for the emulator, the C++
   compiler (DDPC_CXX, else c++). Their messages are kept back and shown with what to do, since a text that
   ddpc wrote and a compiler refuses is never the user's fault. */
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

typedef struct Tool {
  const char *what, *variable, *name; /* the variable names another one */
  const char *missing, *failed;       /* help where it cannot be started, and where it fails */
} Tool;

static const Tool cc = {
    "C compiler", "DDPC_CC", "cc", "install gcc or clang, or name one with DDPC_CC=/path/to/cc",
    "a library that is not found belongs to ddpc's dependencies (tools/setup installs them);\n"
    "      a `-march` that is not known: choose one with --target cpu:MARCH;\n"
    "      a function that is not found, of a header that the job imports, belongs into the `.c` "
    "beside it;\n"
    "      anything about the C text itself is a fault of ddpc: please report it with the job "
    "and the\n      output of --emit=c"};
static const Tool nvcc = {
    "CUDA compiler", "DDPC_NVCC", DDPC_NVCC_FOUND,
    "install NVIDIA's CUDA toolkit (12.8 or later), or name its compiler with "
    "DDPC_NVCC=/path/to/nvcc;\n"
    "      --target cuda:sim makes a program for the emulator, which needs a C++ compiler only",
    "an architecture that it does not know: choose others with --target cuda:sm_80,sm_90, or "
    "take a newer toolkit;\n"
    "      a host compiler that it does not take: name another one with NVCC_CCBIN;\n"
    "      anything about the text itself is a fault of ddpc: please report it with the job and "
    "the\n      output of --emit=cu"};
static const Tool cxx = {
    "C++ compiler", "DDPC_CXX", "c++",
    "install g++ or clang++, or name one with DDPC_CXX=/path/to/c++",
    "it must know C++20;\n"
    "      anything about the text itself is a fault of ddpc: please report it with the job and "
    "the\n      output of --emit=cu"};

static const char *tool_name(const Tool *t) {
  const char *other = getenv(t->variable);
  return other && *other ? other : t->name;
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
  add_words(a, &args, tool_name(&cc));
  add_words(a, &args,
            "-std=gnu11 -O3 -fno-math-errno -fno-trapping-math -ffp-contract=off -fopenmp-simd");
  /* beside a GPU's program there is nothing that is worth a binary for one processor alone */
  if (!c->device) add(a, &args, arena_printf(a, "-march=%s", c->target->march));
  add(a, &args, arena_printf(a, "-I%s", where->include));
  if (c->headers) add(a, &args, arena_printf(a, "-I%s", c->directory));
  return args;
}

static const char *object_name(Arena *a, const HostCompile *c, const char *part) {
  return arena_printf(a, "%s.%ld.%s.o", c->output, (long)getpid(), part);
}
static const char *native_object(Arena *a, const HostCompile *c, uint32_t i) {
  return object_name(a, c, arena_printf(a, "op%u", i));
}

static Args native_arguments(Arena *a, const HostCompile *c, const Install *where, uint32_t i) {
  Args args = common_arguments(a, c, where);
  add(a, &args, "-c");
  add(a, &args, "-o");
  add(a, &args, native_object(a, c, i));
  add(a, &args, c->natives[i]);
  vec_push(a, &args, (char *)NULL);
  return args;
}

static void add_source(Arena *a, Args *args, const HostCompile *c, const Install *where) {
  add(a, args, arena_printf(a, "-DDDP_JOB_DIRECTORY=%s", literal(a, c->directory)));
  if (where->plugins)
    add(a, args, arena_printf(a, "-DDDP_PLUGIN_PATH=%s", literal(a, where->plugins)));
  add_words(a, args, DDPC_JOB_DEFINITIONS);
  add(a, args, c->source);
}

static Args arguments(Arena *a, const HostCompile *c, const Install *where) {
  Args args = common_arguments(a, c, where);
  add(a, &args, "-o");
  add(a, &args, c->output);
  add_source(a, &args, c, where);
  for (uint32_t i = 0; i < c->n_natives; i++) add(a, &args, native_object(a, c, i));
  add(a, &args, arena_printf(a, "%s/libddp_runtime.a", where->library));
  add_words(a, &args, DDPC_JOB_LIBRARIES);
  vec_push(a, &args, (char *)NULL);
  return args;
}

/* ---------- programs for GPUs: two objects and a link ---------- */

static Args host_object_arguments(Arena *a, const HostCompile *c, const Install *where) {
  Args args = common_arguments(a, c, where);
  add_words(a, &args, "-c -o");
  add(a, &args, object_name(a, c, "host"));
  add_source(a, &args, c, where);
  vec_push(a, &args, (char *)NULL);
  return args;
}

static bool is_newest(const JobTarget *t, uint32_t i) {
  return i + 1 == t->archs.len;
}

/* Code for each architecture, and the newest one's intermediate code for those to come. */
static void add_architectures(Arena *a, Args *args, const JobTarget *t) {
  for (uint32_t i = 0; i < t->archs.len; i++) {
    const char *number = t->archs.at[i] + 3;
    add(a, args, "-gencode");
    add(a, args,
        is_newest(t, i)
            ? arena_printf(a, "arch=compute_%s,code=[sm_%s,compute_%s]", number, number, number)
            : arena_printf(a, "arch=compute_%s,code=sm_%s", number, number));
  }
}

/* Multiplications and additions are fused where the text says so, on all targets. */
static Args device_object_arguments(Arena *a, const HostCompile *c, const Install *where) {
  Args args = {0};
  if (c->target->emulated) {
    add_words(a, &args, tool_name(&cxx));
    add_words(a, &args, "-std=c++20 -O2 -ffp-contract=off -Wno-unknown-pragmas -x c++");
    add(a, &args, arena_printf(a, "-I%s/cudasim", where->include));
  } else {
    add_words(a, &args, tool_name(&nvcc));
    add_words(a, &args, "-std=c++20 -O3 -fmad=false --threads 0");
    add_architectures(a, &args, c->target);
  }
  add(a, &args, arena_printf(a, "-I%s", where->include));
  add_words(a, &args, "-c -o");
  add(a, &args, object_name(a, c, "device"));
  add(a, &args, c->device);
  vec_push(a, &args, (char *)NULL);
  return args;
}

/* The emulator's stand-ins of NVIDIA's libraries have the names of these, in a folder of their own, and find
   the emulator in the program. */
static Args link_arguments(Arena *a, const HostCompile *c, const Install *where) {
  Args args = {0};
  bool emulated = c->target->emulated;
  add_words(a, &args, tool_name(emulated ? &cxx : &nvcc));
  add(a, &args, "-o");
  add(a, &args, c->output);
  add(a, &args, object_name(a, c, "host"));
  add(a, &args, object_name(a, c, "device"));
  add(a, &args, arena_printf(a, "%s/libddp_cuda.a", where->library));
  add(a, &args, arena_printf(a, "%s/libddp_runtime.a", where->library));
  if (emulated) {
    add(a, &args, arena_printf(a, "%s/libcudasim.a", where->library));
    add_words(a, &args, "-rdynamic -Wl,--disable-new-dtags");
    add(a, &args, arena_printf(a, "-Wl,-rpath,%s/cudasim", where->library));
    add_words(a, &args, DDPC_SANITIZE);
  } else {
    add_words(a, &args, "-cudart static");
    if (*DDPC_SANITIZE) add_words(a, &args, "-Xcompiler " DDPC_SANITIZE);
  }
  add_words(a, &args, DDPC_RUNTIME_LIBRARIES);
  vec_push(a, &args, (char *)NULL);
  return args;
}

/* ---------- running them ---------- */

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

static bool cannot_start(int status, const Args *args, const Tool *tool) {
  if (status >= 0 && status != 127) return false;
  fprintf(stderr, "ddpc: cannot run the %s `%s`: %s\nhelp: %s\n", tool->what, args->at[0],
          strerror(status < 0 ? errno : ENOENT), tool->missing);
  return true;
}

static void failure(int status, const Args *args, const Tool *tool, int messages,
                    const char *native) {
  if (cannot_start(status, args, tool)) return;
  if (native) {
    fprintf(stderr, "ddpc: `%s`, the source of an operator, does not compile:\n", native);
    copy_file(messages, stderr);
    return;
  }
  fprintf(stderr, "ddpc: the %s `%s` failed (exit status %d). It was called as\n  ", tool->what,
          args->at[0], status);
  show(args);
  fprintf(stderr, "and said\n");
  copy_file(messages, stderr);
  fprintf(stderr, "help: %s\n", tool->failed);
}

/* `native`: the source of an operator that is compiled, or NULL. */
static bool compile(const HostCompile *c, const Args *args, const Tool *tool, const char *native) {
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
    failure(status, args, tool, messages, native);
  else if (c->verbose || native) /* warnings of the user's own source */
    copy_file(messages, stderr);
  close(messages);
  return status == 0;
}

static bool compile_device(Arena *a, const HostCompile *c, const Install *where) {
  const Tool *device = c->target->emulated ? &cxx : &nvcc;
  Args object = device_object_arguments(a, c, where), host = host_object_arguments(a, c, where),
       link = link_arguments(a, c, where);
  bool good = compile(c, &object, device, NULL) && compile(c, &host, &cc, NULL) &&
              compile(c, &link, device, NULL);
  unlink(object_name(a, c, "host"));
  unlink(object_name(a, c, "device"));
  return good;
}

bool host_compile(Arena *a, const HostCompile *c) {
  const Install *where = install_find(a);
  if (!where) return false;
  if (c->device) return compile_device(a, c, where);
  bool good = true;
  for (uint32_t i = 0; i < c->n_natives && good; i++) {
    Args args = native_arguments(a, c, where, i);
    good = compile(c, &args, &cc, c->natives[i]);
  }
  if (good) {
    Args args = arguments(a, c, where);
    good = compile(c, &args, &cc, NULL);
  }
  for (uint32_t i = 0; i < c->n_natives; i++) unlink(native_object(a, c, i));
  return good;
}
