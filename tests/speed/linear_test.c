/* What the front end keeps in memory grows with the number of layers, not faster: jobs of N and of 30 N
   layers, written out one by one and made by a loop. Counts only, so that the verdict is the same on every
   machine: values of the graphs after the gradients, and bytes that the process asked for. */
#include "diag.h"
#include "pipeline.h"
#include "sema.h"
#include "text.h"
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const char head[] = "edition 1\n\n"
                           "dataset d {\n"
                           "  let rows = csv(\"rows.csv\")\n"
                           "  field x: float[64]\n"
                           "  field y: int64 in 0..10\n"
                           "  split train = rows\n"
                           "}\n\n"
                           "objective {\n"
                           "  loss = cross_entropy(net(d.x), d.y)\n"
                           "}\n\n"
                           "train {\n"
                           "  output_dir = \"runs/linear\"\n"
                           "}\n\n";

static void by_loop(Text *t, int n) {
  text_addf(t,
            "module Net() {\n"
            "  layers = [Sequential(LayerNorm(64), Linear(64, 64), GELU()) for _i in 0..%d]\n"
            "  head = Linear(64, 10)\n\n"
            "  forward(x: [B, 64]) -> [B, 10] {\n"
            "    for layer in layers {\n"
            "      x = x + layer(x)\n"
            "    }\n"
            "    return head(x)\n"
            "  }\n"
            "}\n\n"
            "model net = Net()\n",
            n);
}

static void written_out(Text *t, int n) {
  text_add(t, "module Net() {\n");
  for (int i = 0; i < n; i++) text_addf(t, "  fc_%d = Linear(64, 64)\n", i);
  text_add(t, "  head = Linear(64, 10)\n\n  forward(x: [B, 64]) -> [B, 10] {\n");
  for (int i = 0; i < n; i++) text_addf(t, "    x = x + relu(fc_%d(x))\n", i);
  text_add(t, "    return head(x)\n  }\n}\n\nmodel net = Net()\n");
}

typedef void (*Family)(Text *t, int n);

typedef struct Counts {
  double values, bytes;
} Counts;

/* In a process of its own: memory of an earlier job would count. */
static Counts measure(Family family, int n) {
  int ends[2];
  Counts c = {0};
  if (pipe(ends)) exit(2);
  pid_t pid = fork();
  if (pid < 0) exit(2);
  if (!pid) {
    Text t = {0};
    text_add(&t, head);
    family(&t, n);
    FILE *f = fopen("linear.ddp", "w"), *rows = fopen("rows.csv", "w");
    if (!f || !rows || fwrite(t.at, 1, t.len, f) != t.len || fclose(f) || fclose(rows)) _exit(2);
    struct mallinfo2 before = mallinfo2();
    Arena *arena = arena_new();
    Job *job = sema_analyse(arena, "linear.ddp", &(SemaOptions){.check_only = true});
    if (job) pipeline_check(job);
    diag_flush(stderr, false);
    if (!job || diag_errors()) _exit(1);
    struct mallinfo2 after = mallinfo2();
    c.values = (double)job->train->values.len + (double)job->eval->values.len;
    c.bytes = (double)(after.uordblks + after.hblkhd) - (double)(before.uordblks + before.hblkhd);
    if (write(ends[1], &c, sizeof c) != sizeof c) _exit(2);
    _exit(0);
  }
  int status = 0;
  if (read(ends[0], &c, sizeof c) != sizeof c || waitpid(pid, &status, 0) < 0 || status) exit(1);
  close(ends[0]);
  close(ends[1]);
  return c;
}

/* Growth from n to 30 n, per layer, what no layer needs taken away. */
static int check(const char *name, Family family, double most_bytes) {
  enum { FEW = 20, MANY = 600 };
  Counts none = measure(family, 1), few = measure(family, FEW), many = measure(family, MANY);
  double values =
      (many.values - none.values) / (MANY - 1) / ((few.values - none.values) / (FEW - 1));
  double bytes = (many.bytes - none.bytes) / (MANY - 1);
  printf("%s: %.1f values and %.0f bytes a layer; values grow by %.3f\n", name,
         (many.values - none.values) / (MANY - 1), bytes, values);
  if (values > 1.01) return printf("%s: values grow faster than layers\n", name), 1;
  if (bytes > most_bytes) return printf("%s: more than %.0f bytes a layer\n", name, most_bytes), 1;
  return 0;
}

int main(void) {
  int bad = check("by a loop", by_loop, 800e3);
  bad |= check("written out", written_out, 300e3);
  return bad;
}
