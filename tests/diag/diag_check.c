/* Runs the front end on one wrong job and compares what it reports with what the file says.
   In: a .ddp file. A line that is wrong ends with
     # error E0301: unknown name `relo` | did you mean `relu`?
   (`warning W...` likewise; the text after " | " is the help and may be left out). Places that carry no
   comment stand in the head:  # expect PATH:LINE error E0713: text   and  # run -D name=value.
   `# run check` asks as `ddpc check` does, `# run --target NAME` for a target.
   Exactly these diagnostics must come, by path, line, code and message. Exit 0, or 1 with both lists. */
#include "diag.h"
#include "passes.h"
#include "sema.h"
#include "text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX = 64 };

typedef struct Report {
  char where[256]; /* PATH:LINE */
  char text[1024]; /* "error E0301: message" */
  char help[512];  /* "" where none is given or asked for */
  bool met;
} Report;

typedef struct Reports {
  Report at[MAX];
  int n;
} Reports;

static Report *push(Reports *r) {
  if (r->n == MAX) exit(2);
  return &r->at[r->n++];
}

static void trim(char *s) {
  size_t n = strlen(s);
  while (n && (s[n - 1] == ' ' || s[n - 1] == '\n')) s[--n] = 0;
}

static void copy(char *to, size_t room, const char *from) {
  size_t n = strlen(from);
  if (n >= room) exit(2);
  memcpy(to, from, n + 1);
}

/* "error E0301: text | help" */
static void take(Report *r, const char *spec) {
  copy(r->text, sizeof(r->text), spec);
  char *bar = strstr(r->text, " | ");
  if (bar) {
    copy(r->help, sizeof(r->help), bar + 3);
    *bar = 0;
  }
  trim(r->text);
  trim(r->help);
}

static SemaDefine defines[8];
static int n_defines;
static bool check_only;
static const char *target;

static void read_define(const char *text) {
  const char *eq = strchr(text, '=');
  if (!eq || n_defines == 8) exit(2);
  char *value = strdup(eq + 1);
  trim(value);
  defines[n_defines++] = (SemaDefine){text_intern_n(text, (size_t)(eq - text)), value};
}

static char *next_mark(char *line) {
  char *error = strstr(line, "# error E"), *warning = strstr(line, "# warning W");
  return !error || (warning && warning < error) ? warning : error;
}

static void read_expected(const char *path, Reports *out) {
  FILE *f = fopen(path, "r");
  char line[2048];
  if (!f) exit(2);
  for (int n = 1; fgets(line, sizeof(line), f); n++) {
    if (!strncmp(line, "# run -D ", 9)) {
      read_define(line + 9);
      continue;
    }
    if (!strncmp(line, "# run --target ", 15)) {
      char *name = strdup(line + 15);
      trim(name);
      target = name;
      continue;
    }
    if (!strcmp(line, "# run check\n")) {
      check_only = true;
      continue;
    }
    if (!strncmp(line, "# expect ", 9)) {
      char *severity = strstr(line, " error ");
      if (!severity) severity = strstr(line, " warning ");
      if (!severity) exit(2);
      Report *r = push(out);
      *severity = 0;
      copy(r->where, sizeof(r->where), line + 9);
      take(r, severity + 1);
      continue;
    }
    const char *slash = strrchr(path, '/');
    for (char *mark = next_mark(line); mark;) { /* one comment after another */
      char *rest = next_mark(mark + 1);
      if (rest) rest[-1] = 0;
      Report *r = push(out);
      snprintf(r->where, sizeof(r->where), "%.200s:%d", slash ? slash + 1 : path, n);
      take(r, mark + 2);
      mark = rest;
    }
  }
  fclose(f);
}

/* path:line:col: error[E0301]: message */
static bool read_report(const char *line, Report *r) {
  const char *bracket = strstr(line, ": error[");
  if (!bracket) bracket = strstr(line, ": warning[");
  if (!bracket) return false;
  char where[256];
  if ((size_t)(bracket - line) >= sizeof(where)) exit(2);
  memcpy(where, line, (size_t)(bracket - line));
  where[bracket - line] = 0;
  char *column = strrchr(where, ':');
  if (!column) return false;
  *column = 0;
  const char *slash = strrchr(where, '/');
  copy(r->where, sizeof(r->where), slash ? slash + 1 : where);
  const char *code = strchr(bracket, '['), *end = strchr(code, ']');
  snprintf(r->text, sizeof(r->text), "%.*s %.*s%s", (int)(code - bracket - 2), bracket + 2,
           (int)(end - code - 1), code + 1, end + 1);
  trim(r->text);
  return true;
}

static void read_reports(char *output, Reports *out) {
  Report *last = NULL;
  for (char *line = strtok(output, "\n"); line; line = strtok(NULL, "\n")) {
    Report r = {0};
    if (read_report(line, &r)) {
      last = push(out);
      *last = r;
    } else if (last && !strncmp(line, "help: ", 6) && !last->help[0]) {
      copy(last->help, sizeof(last->help), line + 6);
    }
  }
}

static bool matches(const Report *want, const Report *have) {
  return !strcmp(want->where, have->where) && !strcmp(want->text, have->text) &&
         (!want->help[0] || !strcmp(want->help, have->help));
}

static int compare(Reports *want, Reports *have) {
  int bad = 0;
  for (int i = 0; i < want->n; i++) {
    for (int k = 0; k < have->n && !want->at[i].met; k++) {
      if (have->at[k].met || !matches(&want->at[i], &have->at[k])) continue;
      want->at[i].met = have->at[k].met = true;
    }
    if (want->at[i].met) continue;
    printf("missing:  %s %s%s%s\n", want->at[i].where, want->at[i].text,
           want->at[i].help[0] ? " | " : "", want->at[i].help);
    bad = 1;
  }
  for (int k = 0; k < have->n; k++) {
    if (have->at[k].met) continue;
    printf("reported: %s %s%s%s\n", have->at[k].where, have->at[k].text,
           have->at[k].help[0] ? " | " : "", have->at[k].help);
    bad = 1;
  }
  return bad;
}

int main(int argc, char **argv) {
  static Reports want, have;
  if (argc != 2) return 2;
  read_expected(argv[1], &want);
  Arena *arena = arena_new();
  SemaOptions options = {
      .defines = defines, .n_defines = n_defines, .target = target, .check_only = check_only};
  Job *job = sema_analyse(arena, argv[1], &options);
  bool whole = job && job->train && job->eval && !diag_later();
  if (whole) pass_means(job);
  if (whole && !diag_errors()) pass_grad(job);
  char *output = NULL;
  size_t length = 0;
  FILE *memory = open_memstream(&output, &length);
  diag_flush(memory, false);
  fclose(memory);
  read_reports(output, &have);
  int bad = compare(&want, &have);
  if (!want.n) printf("nothing is expected of %s\n", argv[1]);
  bad |= !want.n;
  arena_free(arena);
  free(output);
  return bad;
}
