/* Targets of a job. In: the `target` blocks and --target. Out: Job.target. All blocks are checked; the
   one that --target names is taken, or `cpu`, `cpu:MARCH`, `cuda`, `cuda:ARCH[,ARCH]`, `cuda:sim` without
   a block. ddp_backend must be one that the target has, and so must
   tf32. */
#include "analysis.h"
#include "diag.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef enum TargetKey {
  KEY_backend,
  KEY_arch,
  KEY_march,
  KEY_world_size,
  KEY_memory,
  KEYS
} TargetKey;
static const char *const key_names[KEYS] = {"backend", "arch", "march", "world_size", "memory"};

typedef struct Block {
  Analysis *a;
  const Decl *decl;
  const Setting *line[KEYS];
  JobTarget out;
  bool ok;
} Block;

/* ---------- values ---------- */

static Datum value_of(Block *b, const Expr *x) {
  bool word = x->kind == EXPR_name && !file_find(b->a->root, x->as.name.text);
  if (word) return datum_text(x->as.name.text);
  Eval e = analysis_eval(b->a);
  return eval_expr(&e, x, env_new(b->a->arena, NULL, b->a->root));
}

static bool text_of(Block *b, const Expr *x, const char *what, const char **out) {
  Eval e = analysis_eval(b->a);
  return need_text(&e, value_of(b, x), x->span, what, out);
}

/* sm_90, sm_90a */
static bool is_arch(const char *s) {
  if (strncmp(s, "sm_", 3) != 0 || !isdigit((unsigned char)s[3])) return false;
  size_t n = strspn(s + 3, "0123456789");
  return n >= 2 && n <= 3 && (!s[3 + n] || (islower((unsigned char)s[3 + n]) && !s[4 + n]));
}

/* What the C compiler may be given. */
static bool is_march(const char *s) {
  if (!*s) return false;
  for (; *s; s++) {
    if (*s <= ' ' || *s == '"' || *s == '\\' || *s == '\'') return false;
  }
  return true;
}

/* Kernels use bfloat16 and its tensor cores. */
enum { OLDEST_ARCH = 80 };
static const char *const default_archs[] = {"sm_80", "sm_90", "sm_100"}; /* A100, H100, B200 */

static int arch_number(const char *arch) {
  return atoi(arch + 3);
}

/* Kept in order of age. */
static bool add_arch(Analysis *a, JobTarget *t, const char *arch, Span at) {
  if (!strcmp(arch, "sim")) return t->emulated = true;
  if (!is_arch(arch)) {
    diag_report(DIAG_E0711, at, "`%s` is no architecture of CUDA", arch);
    diag_help("for example `sm_90`");
    return false;
  }
  if (arch_number(arch) < OLDEST_ARCH) {
    diag_report(DIAG_E0711, at, "`%s` is older than sm_%d, the oldest that programs run on", arch,
                OLDEST_ARCH);
    return false;
  }
  vec_push(a->arena, &t->archs, arch);
  for (uint32_t i = t->archs.len - 1; i > 0; i--) {
    const char **pair = &t->archs.at[i - 1];
    if (!strcmp(pair[0], pair[1])) {
      diag_report(DIAG_E0711, at, "`%s` is named twice", arch);
      return false;
    }
    if (arch_number(pair[0]) <= arch_number(pair[1])) break;
    pair[1] = pair[0];
    pair[0] = arch;
  }
  return true;
}

/* The emulator takes the place of all. */
static bool settle_archs(Analysis *a, JobTarget *t, Span at) {
  if (!t->cuda) return true;
  if (t->emulated && t->archs.len) {
    diag_report(DIAG_E0711, at, "`sim`, the emulator, stands alone");
    return false;
  }
  if (t->archs.len) return true;
  for (size_t i = 0; i < sizeof default_archs / sizeof *default_archs; i++)
    vec_push(a->arena, &t->archs, default_archs[i]);
  return true;
}

/* ---------- a block ---------- */

static void find_lines(Block *b) {
  for (uint32_t i = 0; i < b->decl->settings.len; i++) {
    const Setting *line = &b->decl->settings.at[i];
    TextNearest near = {.wanted = line->key ? line->key : ""};
    int k = 0;
    if (!line->key) continue; /* dropped by recovery */
    while (k < KEYS && strcmp(key_names[k], line->key) != 0) text_offer(&near, key_names[k++]);
    if (k == KEYS) {
      diag_report(DIAG_E0701, line->key_span, "`target` has no key `%s`", line->key);
      if (near.best) diag_help("did you mean `%s`?", near.best);
      b->ok = false;
    } else if (b->line[k]) {
      diag_report(DIAG_E0704, line->key_span, "`%s` is set twice", line->key);
      diag_note(b->line[k]->key_span, "first set here");
      b->ok = false;
    } else {
      b->line[k] = line;
    }
  }
}

static bool read_backend(Block *b) {
  const Setting *line = b->line[KEY_backend];
  const char *word = NULL;
  if (!line) {
    diag_report(DIAG_E0711, b->decl->name.span, "target `%s` has no `backend`", b->out.name);
    diag_help("add `backend = cpu` or `backend = cuda`");
    return false;
  }
  if (!text_of(b, line->value, "backend", &word)) return false;
  b->out.cuda = !strcmp(word, "cuda");
  if (b->out.cuda || !strcmp(word, "cpu")) return true;
  diag_report(DIAG_E0711, line->value->span, "`backend` is cpu or cuda, not `%s`", word);
  return false;
}

static bool read_arch(Block *b) {
  const Setting *line = b->line[KEY_arch];
  const char *arch = NULL;
  if (!line) return true;
  if (!b->out.cuda) {
    diag_report(DIAG_E0708, line->key_span, "`arch` needs `backend = cuda`");
    diag_help("a CPU has `march`");
    return false;
  }
  bool list = line->value->kind == EXPR_list;
  uint32_t n = list ? line->value->as.items.len : 1;
  bool ok = true;
  for (uint32_t i = 0; i < n; i++) {
    const Expr *x = list ? line->value->as.items.at[i] : line->value;
    ok &= text_of(b, x, "arch", &arch) && add_arch(b->a, &b->out, arch, x->span);
  }
  return ok;
}

static bool read_march(Block *b) {
  const Setting *line = b->line[KEY_march];
  if (!line) return true;
  if (b->out.cuda) {
    diag_report(DIAG_E0708, line->key_span, "`march` needs `backend = cpu`");
    diag_help("a device has `arch`");
    return false;
  }
  if (!text_of(b, line->value, "march", &b->out.march)) return false;
  if (is_march(b->out.march)) return true;
  diag_report(DIAG_E0711, line->value->span, "this is no -march of a C compiler");
  return false;
}

static bool read_numbers(Block *b) {
  const Setting *world = b->line[KEY_world_size], *memory = b->line[KEY_memory];
  Eval e = analysis_eval(b->a);
  if (world) {
    if (!need_int(&e, value_of(b, world->value), world->value->span, "world_size",
                  &b->out.world_size)) {
      return false;
    }
    if (b->out.world_size < 1) {
      diag_report(DIAG_E0702, world->value->span, "`world_size` must be at least 1");
      return false;
    }
  }
  if (!memory) return true;
  Datum d = value_of(b, memory->value);
  if (d.kind == DATUM_error) return false;
  if (d.kind == DATUM_int && d.as.i > 0) return b->out.memory = d.as.i, true;
  if (d.kind == DATUM_text && text_parse_size(d.as.text.at, &b->out.memory)) return true;
  diag_report(DIAG_E0702, memory->value->span,
              "`memory` is a number of bytes, or a size such as "
              "\"80GiB\"");
  return false;
}

static Block read_block(Analysis *a, const Decl *decl) {
  Block b = {.a = a, .decl = decl, .ok = true};
  b.out = (JobTarget){.name = decl->name.text, .march = "native", .at = decl->name.span};
  find_lines(&b);
  bool backend = read_backend(&b);
  b.ok &= backend && read_arch(&b) && read_march(&b) && settle_archs(a, &b.out, decl->name.span);
  if (!read_numbers(&b)) b.ok = false;
  return b;
}

/* ---------- --target ---------- */

static bool same_name(const Decl *d, const char *name, size_t n) {
  return strlen(d->name.text) == n && !strncmp(d->name.text, name, n);
}

static void unknown_target(Analysis *a, const char *given, Span at) {
  TextNearest near = {.wanted = given};
  text_offer(&near, "cpu");
  text_offer(&near, "cuda");
  for (uint32_t i = 0; i < a->root->ast->decls.len; i++) {
    const Decl *d = a->root->ast->decls.at[i];
    if (d->kind == DECL_target) text_offer(&near, d->name.text);
  }
  diag_report(DIAG_E0711, at, "there is no target `%s`", given);
  if (near.best)
    diag_help("did you mean `%s`?", near.best);
  else
    diag_help("the name of a `target` of the job, cpu, cpu:MARCH, cuda, cuda:ARCH or cuda:sim");
}

/* False where there is none of that name; what is wrong with its architectures is reported. */
static bool builtin_target(Analysis *a, const char *given, Span at, JobTarget *out) {
  const char *colon = strchr(given, ':');
  size_t n = colon ? (size_t)(colon - given) : strlen(given);
  *out = (JobTarget){.name = given, .march = "native", .at = at};
  out->cuda = n == 4 && !strncmp(given, "cuda", 4);
  if (!out->cuda && (n != 3 || strncmp(given, "cpu", 3) != 0)) return false;
  if (!out->cuda) return !colon || (out->march = colon + 1, is_march(colon + 1));
  bool ok = true;
  for (const char *s = colon ? colon + 1 : NULL; s && ok;) {
    size_t len = strcspn(s, ",");
    ok = add_arch(a, out, arena_strndup(a->arena, s, len), at);
    s = s[len] ? s + len + 1 : NULL;
  }
  if (ok) settle_archs(a, out, at);
  return true;
}

static Span option_span(Analysis *a, const char *given) {
  size_t n = strlen(given);
  uint32_t source = source_add("--target", arena_strdup(a->arena, given), n);
  return (Span){source, 0, (uint32_t)n};
}

static const struct Backend {
  const char *name, *target, *devices, *library;
} backends[] = {
#define BACKEND(name, state, target, devices, file, library, ...) {#name, target, devices, library},
#include "backend.def"
};

static void check_backend(Analysis *a) {
  const SettingValue *v = settings_value(a->settings, "ddp_backend");
  const SettingSlot *slot = settings_slot(a->settings, "ddp_backend");
  const JobTarget *t = &a->job->target;
  const struct Backend *b = backends;
  if (v->kind != VALUE_text) return;
  while (strcmp(b->name, v->text) != 0) b++; /* settings.def has the same names */
  if (!strcmp(b->target, "cpu") || (t->cuda && !strcmp(b->target, "cuda"))) return;
  diag_report(DIAG_E0707, slot->at,
              "`ddp_backend = %s` sends between %s, by %s, and the target `%s` has %s", b->name,
              b->devices, b->library, t->name, t->cuda ? "NVIDIA GPUs" : "CPUs only");
  diag_help("`-D train.ddp_backend=gloo` overrides it");
}

/* As the Trainer: an error where it cannot be had. */
static void check_tf32(Analysis *a) {
  const SettingValue *v = settings_value(a->settings, "tf32");
  const JobTarget *t = &a->job->target;
  if (v->kind != VALUE_bool || !v->b || t->cuda) return;
  diag_report(DIAG_E0707, settings_slot(a->settings, "tf32")->at,
              "`tf32 = true` is for NVIDIA GPUs, and the target `%s` has CPUs only", t->name);
  diag_help("`--target cuda` makes a program for GPUs; `-D train.tf32=false` overrides it");
}

/* Where nobody chose a target, a check does not: the job may be meant for another machine. */
static void check_settings(Analysis *a) {
  if (a->options->check_only && !a->options->target) return;
  check_backend(a);
  check_tf32(a);
}

void target_make(Analysis *a) {
  const char *given = a->options->target;
  bool found = false, ok = true;
  a->job->target = (JobTarget){.name = "cpu", .march = "native"};
  for (uint32_t i = 0; i < a->root->ast->decls.len; i++) {
    const Decl *d = a->root->ast->decls.at[i];
    if (d->kind != DECL_target) continue;
    for (uint32_t k = 0; k < i; k++) {
      const Decl *first = a->root->ast->decls.at[k];
      if (first->kind != DECL_target || first->name.text != d->name.text) continue;
      diag_report(DIAG_E0302, d->name.span, "target `%s` is declared twice", d->name.text);
      diag_note(first->name.span, "first declared here");
    }
    Block b = read_block(a, d);
    if (!given || found || !same_name(d, given, strlen(given))) continue;
    a->job->target = b.out;
    found = true;
    ok = b.ok;
  }
  if (given && !found) {
    Span at = option_span(a, given);
    found = builtin_target(a, given, at, &a->job->target);
    if (!found) unknown_target(a, given, at);
  }
  a->job->target.epilogues = a->job->target.cuda; /* cuBLASLt has them */
  if ((!given || found) && ok) check_settings(a);
}
