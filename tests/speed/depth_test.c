/* A deep model is no bigger program than a shallow one but for its calls: a GPT-2 of 12 and of 48 blocks
   has the same kernels, each once, and the compiler's memory grows with the number of blocks. Counts
   only; bench/front measures times. */
#include "diag.h"
#include "emit.h"
#include "pipeline.h"
#include "sema.h"
#include "text.h"
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const char job_text[] = "edition 1\n\n"
                               "import \"std/models/gpt2.ddp\" as gpt2\n\n"
                               "dataset words {\n"
                               "  let rows = csv(\"tokens.csv\")\n"
                               "  field ids: int64[64] in 0..1000\n"
                               "  split train = rows\n"
                               "  split validation = rows\n"
                               "}\n\n"
                               "model net = gpt2.GPT2LMHead(1000, 64, 128, %d, 4, 0.1)\n\n"
                               "objective {\n"
                               "  loss = causal_lm_loss(net(words.ids), words.ids)\n"
                               "}\n\n"
                               "train {\n"
                               "  output_dir = \"runs/depth\"\n"
                               "  per_device_train_batch_size = 4\n%s"
                               "}\n";

typedef struct Counts {
  double kernels;   /* of the training step */
  double functions; /* of them that are different */
  double text;      /* bytes of the emitted functions of kernels: all before forward_backward() */
  double whole;     /* bytes of the emitted program */
  double bytes;     /* that the compiler asked for */
} Counts;

static double count_functions(Arena *a, const Program *p) {
  VEC(uint64_t) keys = {0};
  for (uint32_t i = 0; i < p->kernels.len; i++) {
    const Kernel *k = &p->kernels.at[i];
    bool known = !k->nest;
    for (uint32_t j = 0; j < keys.len && !known; j++) known = keys.at[j] == k->key;
    if (!known) vec_push(a, &keys, k->key);
  }
  return keys.len;
}

static Counts compile(int blocks, const char *settings) {
  Text t = {0};
  text_addf(&t, job_text, blocks, settings);
  FILE *f = fopen("depth.ddp", "w"), *rows = fopen("tokens.csv", "w");
  if (!f || !rows || fwrite(t.at, 1, t.len, f) != t.len || fclose(f) || fclose(rows)) _exit(2);
  struct mallinfo2 before = mallinfo2();
  Arena *arena = arena_new();
  Job *job = sema_analyse(arena, "depth.ddp", &(SemaOptions){.check_only = false});
  Plan *plan = job ? pipeline_run(job, NULL, NULL) : NULL;
  diag_flush(stderr, false);
  if (!plan || diag_errors()) _exit(1);
  Text out = {0};
  EmitOptions how = {.target = &target_cpu, .compiler_version = "0", .march = "native"};
  emit_program(&out, NULL, plan, &how);
  struct mallinfo2 after = mallinfo2();
  const char *kernels = strstr(out.at, "\nstatic void "),
             *calls = strstr(out.at, "\nstatic void forward_backward(");
  if (!kernels || !calls) _exit(1);
  return (Counts){.kernels = plan->train.kernels.len,
                  .functions = count_functions(arena, &plan->train),
                  .text = (double)(calls - kernels),
                  .whole = (double)out.len,
                  .bytes = (double)(after.uordblks + after.hblkhd) -
                           (double)(before.uordblks + before.hblkhd)};
}

/* In a process of its own: memory of an earlier job would count. */
static Counts measure(int blocks, const char *settings) {
  int ends[2];
  Counts c = {0};
  if (pipe(ends)) exit(2);
  pid_t pid = fork();
  if (pid < 0) exit(2);
  if (!pid) {
    c = compile(blocks, settings);
    _exit(write(ends[1], &c, sizeof c) == sizeof c ? 0 : 2);
  }
  int status = 0;
  if (read(ends[0], &c, sizeof c) != sizeof c || waitpid(pid, &status, 0) < 0 || status) exit(1);
  close(ends[0]);
  close(ends[1]);
  return c;
}

/* `segments`: backward computes runs of blocks again, whose length depends on the depth: as few as hold the
   memory down. Kernels at their ends may differ, and a block more is computed again. */
static int check(const char *name, const char *settings, bool segments) {
  Counts one = measure(1, settings), few = measure(12, settings), many = measure(48, settings);
  double calls = (many.kernels - few.kernels) / (few.kernels - one.kernels) * 11 / 36;
  double bytes = (many.bytes - few.bytes) / (few.bytes - one.bytes) * 11 / 36;
  printf("%s: %.0f and %.0f kernels, %.0f and %.0f functions of %.0f and %.0f bytes; programs of "
         "%.0f and "
         "%.0f bytes; growth a block: kernels %.3f, memory of the compiler %.3f\n",
         name, few.kernels, many.kernels, few.functions, many.functions, few.text, many.text,
         few.whole, many.whole, calls, bytes);
  int bad = 0;
  if (many.functions > few.functions + (segments ? 2 : 0))
    bad |= printf("%s: kernels that differ by depth\n", name);
  if (many.text > 1.3 * few.text) bad |= printf("%s: the kernels' text grows with depth\n", name);
  if (calls > (segments ? 1.1 : 1.01))
    bad |= printf("%s: more kernels a block where there are more blocks\n", name);
  if (bytes > 1.1) bad |= printf("%s: memory grows faster than the blocks\n", name);
  return bad != 0;
}

int main(void) {
  int bad = check("gpt2", "", false);
  return bad | check("gpt2, checkpointing", "  gradient_checkpointing = true\n", true);
}
