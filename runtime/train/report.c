/* The log and what is seen of it. In: numbers of the loop. Out: JSON lines with the Trainer's names in
   full precision, plain lines with a few digits, a progress line on terminals. */
#include "report.h"
#include "clock.h"
#include "file.h"
#include "history.h"
#include "log.h"
#include "real.h"
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

struct DdpReport {
  FILE *log;
  char *path;
  char *line; /* JSON under construction; its memory is used again for the next line */
  size_t line_size;
  FILE *json;
  bool progress, plain, jsonl;
  double begun, drawn;
  int64_t first_update, first_samples, first_tokens; /* where this process began, after a resume */
  char last_eval[200];
  double exposed; /* what the last line of training had seen of it */
  int64_t exposed_n;
};

/* A NaN has a sign, which means nothing. */
static double shown(double v) {
  return isnan(v) ? (double)NAN : v;
}

static void put_name(DdpReport *p, const char *name) {
  fprintf(p->json, "%s\"%s\": ", ftell(p->json) > 1 ? ", " : "", name);
}

static void put_real(DdpReport *p, const char *name, double v) {
  char text[DDP_REAL_TEXT];
  put_name(p, name);
  fputs(isfinite(v) ? ddp_real_text(v, text) : "null", p->json);
}

static void put_int(DdpReport *p, const char *name, int64_t v) {
  put_name(p, name);
  fprintf(p->json, "%lld", (long long)v);
}

static void put_text(DdpReport *p, const char *name, const char *v) {
  json_t *value = json_string(v);
  char *quoted = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
  put_name(p, name);
  fputs(quoted ? quoted : "null", p->json);
  free(quoted);
  json_decref(value);
}

static DdpError *line_begin(DdpReport *p) {
  if (p->json)
    rewind(p->json);
  else
    p->json = open_memstream(&p->line, &p->line_size);
  if (!p->json) return ddp_error(DDP_MEMORY, "out of memory");
  fputc('{', p->json);
  return NULL;
}

static DdpError *line_end(DdpReport *p) {
  fputs("}\n", p->json);
  fputc(0, p->json); /* a longer line may have stood there */
  fflush(p->json);
  bool written = fputs(p->line, p->log) >= 0 && fflush(p->log) == 0;
  int number = errno;
  if (p->jsonl && ddp_log_ready(STDOUT_FILENO)) {
    fputs(p->line, stdout);
    fflush(stdout);
  }
  return written ? NULL : ddp_file_error("write", p->path, number);
}

/* A line that trainer_state.json tells too. */
static DdpError *line_kept(DdpReport *p, const DdpRun *r) {
  DDP_TRY(line_end(p));
  return ddp_history_add(r->history, p->line);
}

static void put_rate(DdpReport *p, const char *name, int64_t n, double seconds) {
  put_real(p, name, (double)n / (seconds > 0 ? seconds : 1e-9));
}

/* What ends a line, as the Trainer has it. speed: of tokens, since this process began. */
static void put_place(DdpReport *p, const DdpRun *r, double epoch, bool speed) {
  put_real(p, "epoch", epoch);
  if (r->tokens_field >= 0) {
    double seconds = ddp_clock() - p->begun;
    put_int(p, "num_input_tokens_seen", r->progress.tokens_seen);
    if (speed) put_real(p, "train_runtime", seconds);
    if (speed)
      put_rate(p, "train_tokens_per_second", r->progress.tokens_seen - p->first_tokens, seconds);
  }
  put_int(p, "step", r->progress.update);
}

static void put_best(DdpReport *p, const DdpRun *r) {
  const char *folder = ddp_history_best(r->history);
  if (r->progress.best_at < 0) return;
  put_real(p, "best_metric", r->progress.best);
  put_int(p, "best_global_step", r->progress.best_at);
  if (folder) put_text(p, "best_model_checkpoint", folder);
}

/* How gradients travel; of several ranks. */
static void put_reduction(DdpReport *p, const DdpRun *r) {
  const DdpBucketInfo *info;
  const char *late = run_steps_late(r);
  char text[80] = "per bucket";
  if (!r->reducer) return;
  if (late) snprintf(text, sizeof text, "after all gradients: %s", late);
  put_int(p, "buckets", ddp_reducer_buckets(r->reducer, &info));
  put_text(p, "optimizer_step", text);
}

static void put_identity(DdpReport *p, const DdpRun *r) {
  const DdpJob *job = r->job;
  char hash[2][20];
  snprintf(hash[0], sizeof hash[0], "%016llx", (unsigned long long)job->spec_hash);
  snprintf(hash[1], sizeof hash[1], "%016llx", (unsigned long long)job->plan_hash);
  put_text(p, "job", job->name);
  put_text(p, "compiler", job->compiler);
  put_text(p, "spec_hash", hash[0]);
  put_text(p, "plan_hash", hash[1]);
  if (r->set->run_name) put_text(p, "run_name", r->set->run_name);
  put_int(p, "world_size", r->world);
  put_text(p, "launcher", r->launch->by ? r->launch->by : "none");
  put_text(p, "path", ddp_group_path(r->group));
  put_reduction(p, r);
  put_int(p, "threads", r->threads);
  if (*r->device->describe()) put_text(p, "device", r->device->describe());
  put_int(p, "seed", r->set->seed);
  put_int(p, "train_samples", r->counts.shards.samples);
  put_int(p, "global_batch", job->train_batch * r->counts.accumulation * r->world);
  put_int(p, "updates_per_epoch", r->counts.updates);
  put_int(p, "max_steps", r->counts.total);
  put_name(p, "memory_bytes");
  fputc('{', p->json);
  for (int i = 0; i < DDP_MEMORY_KIND_COUNT; i++) {
    if (i == DDP_MEMORY_pinned && !r->device->apart) continue;
    fprintf(p->json, "%s\"%s\": %lld", i ? ", " : "", ddp_memory_name((DdpMemoryKind)i),
            (long long)ddp_memory_used((DdpMemoryKind)i));
  }
  fputc('}', p->json);
}

/* A line that a killed run did not finish says nothing. */
static void drop_unfinished(FILE *log) {
  long end = fseek(log, 0, SEEK_END) == 0 ? ftell(log) : 0, at = end;
  while (at > 0 && fseek(log, at - 1, SEEK_SET) == 0 && fgetc(log) != '\n') at--;
  if (at < end && ftruncate(fileno(log), at) != 0) fputc('\n', log);
  fseek(log, 0, SEEK_END);
}

/* The log is locked while the run lasts: two runs in one folder would overwrite each other's files. */
static DdpError *log_open(DdpReport *p, const char *folder, bool goes_on) {
  int fd = open(p->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return ddp_file_error("create", p->path, errno);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    close(fd);
    return ddp_error(DDP_IO,
                     "output_dir '%s' is in use by another run; wait for its end, or give this one "
                     "another --output_dir",
                     folder);
  } /* a file system without locks: go on */
  if ((!goes_on && ftruncate(fd, 0) != 0) || !(p->log = fdopen(fd, "r+"))) {
    int number = errno;
    close(fd);
    return ddp_file_error("create", p->path, number);
  }
  if (goes_on) drop_unfinished(p->log);
  return NULL;
}

DdpError *report_open(DdpReport **out, const DdpRun *r) {
  DdpReport *p = calloc(1, sizeof *p);
  if (!p) return ddp_error(DDP_MEMORY, "out of memory");
  *out = p;
  const char *format = r->set->log_format;
  p->jsonl = strcmp(format, "jsonl") == 0;
  p->plain = !p->jsonl;
  p->progress = strcmp(format, "auto") == 0 && r->set->disable_tqdm != 1 && isatty(STDERR_FILENO) &&
                (r->set->disable_tqdm == 0 || ddp_log_level() <= DDP_LOG_warning);
  p->begun = ddp_clock();
  DDP_TRY(ddp_file_make_folder(r->output));
  p->path = ddp_file_join(r->output, "log.jsonl");
  if (!p->path) return ddp_error(DDP_MEMORY, "out of memory");
  const char *from = run_resume_folder(r);
  p->first_update = r->progress.update;
  p->first_samples = r->progress.samples_seen;
  p->first_tokens = r->progress.tokens_seen;
  DDP_TRY(log_open(p, r->output, from != NULL));
  DDP_TRY(line_begin(p));
  put_identity(p, r);
  if (from) {
    put_text(p, "resumed_from", from);
    put_real(p, "epoch", r->progress.fraction);
    put_int(p, "step", r->progress.update);
  }
  return line_end(p);
}

/* Plain lines must not run into the progress line. */
static void say(DdpReport *p, const char *line) {
  if (!p->plain) return;
  if (p->progress) ddp_log_progress("");
  if (!ddp_log_ready(STDOUT_FILENO)) return;
  puts(line);
  fflush(stdout);
}

/* Milliseconds of an update in which rank 0 communicated instead of computing, since the last line. */
static void put_exposed(DdpReport *p, const DdpRun *r) {
  const DdpTiming *t = &r->timing;
  if (r->world == 1 || t->exposed_n == p->exposed_n) return;
  put_real(p, "exposed_communication_ms",
           (t->exposed - p->exposed) / (double)(t->exposed_n - p->exposed_n) * 1e3);
  p->exposed = t->exposed;
  p->exposed_n = t->exposed_n;
}

DdpError *report_train(DdpReport *p, const DdpRun *r, double loss, double epoch) {
  char line[256];
  if (!p) return NULL;
  snprintf(line, sizeof line,
           "step %lld/%lld  epoch %.4g  loss %.4g  grad_norm %.4g  learning_rate %.4g",
           (long long)r->progress.update, (long long)r->counts.total, epoch, shown(loss),
           shown(r->last_norm), r->last_lr);
  say(p, line);
  DDP_TRY(line_begin(p));
  put_real(p, "loss", loss);
  put_real(p, "grad_norm", r->last_norm);
  put_real(p, "learning_rate", r->last_lr);
  if (r->scale.on) put_real(p, "loss_scale", r->scale.scale);
  if (run_may_skip(r)) put_int(p, "skipped_updates", r->scale.skipped);
  put_exposed(p, r);
  put_place(p, r, epoch, true);
  return line_kept(p, r);
}

DdpError *report_eval(DdpReport *p, const DdpRun *r, const double *metrics, double epoch,
                      double seconds, int64_t samples, int64_t steps) {
  char line[400], name[80];
  if (!p) return NULL;
  int n = r->set->prediction_loss_only == 1 ? 1 : r->job->n_metrics;
  p->last_eval[0] = 0;
  for (int i = 0; i < n; i++) {
    size_t used = strlen(p->last_eval);
    snprintf(p->last_eval + used, sizeof p->last_eval - used, "%seval_%s %.4g", i ? "  " : "",
             r->job->metrics[i], shown(metrics[i]));
  }
  snprintf(line, sizeof line, "step %lld/%lld  epoch %.4g  %s  (%lld samples, %.2f s)",
           (long long)r->progress.update, (long long)r->counts.total, epoch, p->last_eval,
           (long long)samples, seconds);
  say(p, line);
  DDP_TRY(line_begin(p));
  for (int i = 0; i < n; i++) {
    snprintf(name, sizeof name, "eval_%s", r->job->metrics[i]);
    put_real(p, name, metrics[i]);
  }
  put_real(p, "eval_runtime", seconds);
  put_rate(p, "eval_samples_per_second", samples, seconds);
  put_rate(p, "eval_steps_per_second", steps, seconds);
  put_place(p, r, epoch, false);
  return line_kept(p, r);
}

/* The Trainer's names; of rank 0. */
static void put_resident(DdpReport *p, const DdpRun *r) {
  int64_t now = run_resident();
  if (now < 0) return;
  put_int(p, "before_init_mem_cpu", r->resident[0]);
  put_int(p, "init_mem_cpu_alloc_delta", r->resident[1] - r->resident[0]);
  put_int(p, "before_train_mem_cpu", r->resident[1]);
  put_int(p, "train_mem_cpu_alloc_delta", now - r->resident[1]);
}

static void put_on_device(DdpReport *p, const DdpRun *r) {
  int64_t now = run_device_used(r);
  if (now < 0) return;
  put_int(p, "before_init_mem_gpu", r->on_device[0]);
  put_int(p, "init_mem_gpu_alloc_delta", r->on_device[1] - r->on_device[0]);
  put_int(p, "before_train_mem_gpu", r->on_device[1]);
  put_int(p, "train_mem_gpu_alloc_delta", now - r->on_device[1]);
}

/* Milliseconds: whole updates on this rank, and where they go on average. */
static void put_timing(DdpReport *p, const DdpTiming *t) {
  char name[64];
  double n = (double)(t->updates > 0 ? t->updates : 1);
  put_real(p, "step_ms_median", ddp_timing_median(t) * 1e3);
  put_real(p, "step_ms_min", t->least * 1e3);
  put_real(p, "step_ms_mean", t->whole / n * 1e3);
  for (int i = 0; i < DDP_PARTS_COUNT; i++) {
    snprintf(name, sizeof name, "profile_%s_ms", ddp_timing_part_name((DdpPart)i));
    put_real(p, name, t->part[i] / n * 1e3);
  }
}

static double per_update(const DdpTiming *t) {
  return t->exposed_n ? t->exposed / (double)t->exposed_n : 0;
}

/* Of the time of the updates. */
static void say_exposed(DdpReport *p, const DdpRun *r) {
  const DdpTiming *t = &r->timing;
  char line[200];
  if (r->world == 1 || !(t->whole > 0)) return;
  snprintf(line, sizeof line,
           "exposed communication: %.3g ms of %.4g ms an update (%.2g %%), optimizer step %s",
           per_update(t) * 1e3, t->whole / (double)t->updates * 1e3, 100 * t->exposed / t->whole,
           run_steps_late(r) ? "after all gradients" : "per bucket");
  say(p, line);
}

/* Of the last evaluation, or of the one whose weights were taken. */
static void shown_eval(const DdpReport *p, const DdpRun *r, char *text, size_t size) {
  bool best = r->set->load_best_model_at_end == 1 && ddp_history_best(r->history);
  snprintf(text, size, "%s%s", p->last_eval[0] ? "; " : "", p->last_eval);
  if (!best) return;
  snprintf(text, size, "; best: eval_%s %.4g after update %lld", r->job->metrics[r->metric],
           r->progress.best, (long long)r->progress.best_at);
}

static void say_end(DdpReport *p, const DdpRun *r, double seconds, const char *stopped) {
  char line[1200], eval[sizeof p->last_eval + 80];
  if (p->progress) ddp_log_progress("");
  say_exposed(p, r);
  if (stopped) {
    char saved[300] = "nothing to save";
    if (r->progress.update)
      snprintf(saved, sizeof saved, "checkpoint: %s/checkpoint-%lld", r->output,
               (long long)r->progress.update);
    snprintf(line, sizeof line, "stopped by %s after update %lld of %lld; %s; log: %s", stopped,
             (long long)r->progress.update, (long long)r->counts.total, saved, p->path);
  } else {
    shown_eval(p, r, eval, sizeof eval);
    snprintf(line, sizeof line, "%lld update%s in %.2f s%s; weights: %s/model.safetensors; log: %s",
             (long long)r->progress.update, r->progress.update == 1 ? "" : "s", seconds, eval,
             r->output, p->path);
  }
  say(p, line);
}

DdpError *report_end(DdpReport *p, const DdpRun *r, double mean_loss, double epoch,
                     const char *stopped) {
  if (!p) return NULL;
  double seconds = ddp_clock() - p->begun;
  DDP_TRY(line_begin(p));
  put_real(p, "train_runtime", seconds);
  put_rate(p, "train_samples_per_second", r->progress.samples_seen - p->first_samples, seconds);
  put_rate(p, "train_steps_per_second", r->progress.update - p->first_update, seconds);
  put_real(p, "total_flos", 0); /* as for models that are no PreTrainedModel */
  put_real(p, "train_loss", mean_loss);
  put_real(p, "communication_wait", r->exposed);
  put_place(p, r, epoch, false);
  put_timing(p, &r->timing);
  if (r->world > 1) put_real(p, "exposed_communication_ms", per_update(&r->timing) * 1e3);
  if (stopped) put_text(p, "stopped_by", stopped);
  if (r->set->skip_memory_metrics == 0) {
    put_resident(p, r);
    put_on_device(p, r);
  }
  put_best(p, r);
  DDP_TRY(line_kept(p, r));
  say_end(p, r, seconds, stopped);
  return NULL;
}

DdpError *report_sample(DdpReport *p, const DdpRun *r, const char *text) {
  if (!p) return NULL;
  say(p, text);
  DDP_TRY(line_begin(p));
  put_text(p, "sample", text);
  put_int(p, "step", r->progress.update);
  return line_end(p);
}

void report_progress(DdpReport *p, const DdpRun *r, double loss) {
  if (!p || !p->progress) return;
  double now = ddp_clock();
  if (now - p->drawn < 0.1 && r->progress.update < r->counts.total) return;
  p->drawn = now;
  int64_t done = r->progress.update - p->first_update;
  double per = (now - p->begun) / (double)(done ? done : 1);
  int64_t left = (int64_t)(per * (double)(r->counts.total - r->progress.update));
  char line[200];
  snprintf(line, sizeof line,
           "%3d%%  %lld/%lld  loss %.4g  %.3g updates/s  %lld:%02lld:%02lld left",
           (int)(100 * r->progress.update / r->counts.total), (long long)r->progress.update,
           (long long)r->counts.total, loss, 1 / (per > 0 ? per : 1e-9), (long long)(left / 3600),
           (long long)(left / 60 % 60), (long long)(left % 60));
  ddp_log_progress(line);
}

void report_close(DdpReport *p) {
  if (!p) return;
  if (p->progress) ddp_log_progress("");
  if (p->json) fclose(p->json);
  if (p->log) fclose(p->log);
  free(p->line);
  free(p->path);
  free(p);
}
