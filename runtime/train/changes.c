/* Compares a checkpoint's manifest with the run. In: both. Out: nothing, or everything that
   differs in one message, with the value then and now. What only changes where files go, what is
   shown or how bytes travel is no difference. */
#include "changes.h"
#include "log.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool run_changes_allowed(const DdpRun *r) {
  return strcmp(r->set->resume_changes, "allow") == 0;
}

/* Settings that may differ. Everything else is a difference, also what is added to the table
   later. */
static const DdpKey neutral[] = {
    DDP_KEY_output_dir,
    DDP_KEY_run_name,
    DDP_KEY_data_root,
    DDP_KEY_threads,
    DDP_KEY_disable_tqdm,
    DDP_KEY_log_format,
    DDP_KEY_log_level,
    DDP_KEY_log_level_replica,
    DDP_KEY_log_on_each_node,
    DDP_KEY_report_to,
    DDP_KEY_include_num_input_tokens_seen,
    DDP_KEY_resume_from_checkpoint,
    DDP_KEY_resume_changes,
    DDP_KEY_async_save,
    DDP_KEY_ignore_data_skip,
    DDP_KEY_logging_strategy,
    DDP_KEY_logging_steps,
    DDP_KEY_logging_first_step,
    DDP_KEY_logging_nan_inf_filter,
    DDP_KEY_save_strategy,
    DDP_KEY_save_steps,
    DDP_KEY_save_total_limit,
    DDP_KEY_save_only_model,
    DDP_KEY_save_on_each_node,
    DDP_KEY_enable_jit_checkpoint,
    DDP_KEY_load_best_model_at_end,
    DDP_KEY_prediction_loss_only,
    DDP_KEY_eval_on_start,
    DDP_KEY_ddp_backend,
    DDP_KEY_ddp_timeout,
    DDP_KEY_ddp_bucket_cap_mb,
    DDP_KEY_intra_node,
    DDP_KEY_debug,
    DDP_KEY_check_ranks,
    DDP_KEY_on_nan,
    DDP_KEY_skip_memory_metrics,
    DDP_KEY_do_train,
    DDP_KEY_do_eval,
    DDP_KEY_do_predict,
    DDP_KEY_dataloader_num_workers,
    DDP_KEY_dataloader_prefetch_factor,
    DDP_KEY_dataloader_pin_memory,
    DDP_KEY_sample_length,
    /* compared as the global batch */
    DDP_KEY_per_device_train_batch_size,
    DDP_KEY_gradient_accumulation_steps,
};

/* Of the evaluations: they matter where the schedule looks at them. */
static const DdpKey of_evaluation[] = {DDP_KEY_eval_strategy,
                                       DDP_KEY_eval_steps,
                                       DDP_KEY_eval_delay,
                                       DDP_KEY_per_device_eval_batch_size,
                                       DDP_KEY_metric_for_best_model,
                                       DDP_KEY_greater_is_better,
                                       DDP_KEY_bf16_full_eval,
                                       DDP_KEY_fp16_full_eval};

static bool among(const DdpKey *keys, size_t n, DdpKey key) {
  for (size_t i = 0; i < n; i++) {
    if (keys[i] == key) return true;
  }
  return false;
}

bool run_changes_matter(const DdpRun *r, DdpKey key) {
  char class_ = ddp_setting_rows[key].class_;
  if (class_ == 'A' || class_ == 'X') return false;
  if (among(neutral, sizeof neutral / sizeof *neutral, key)) return false;
  return r->job->measured ||
         !among(of_evaluation, sizeof of_evaluation / sizeof *of_evaluation, key);
}

static const char *then(const DdpManifest *m, const char *key) {
  for (int i = 0; i < m->n_settings; i++) {
    if (strcmp(m->settings[i].key, key) == 0) return m->settings[i].value;
  }
  return NULL;
}

static int put_settings(FILE *out, const DdpRun *r, const DdpManifest *m) {
  int n = 0;
  for (int i = 0; i < DDP_KEY_COUNT; i++) {
    const DdpSettingRow *row = &ddp_setting_rows[i];
    const char *old = then(m, row->name), *now = r->config->value[i];
    if (!old) old = row->default_; /* a setting that did not exist then */
    if (!run_changes_matter(r, (DdpKey)i) || ddp_config_same(row, old, now)) continue;
    fprintf(out, "\n  %s: %s then, %s now", row->name, old, now);
    n++;
  }
  return n;
}

/* The same job compiled anew, or for another processor, has another plan but the same spec; a
   setting that was edited in the file has another spec and the same plan. */
static int put_program(FILE *out, const DdpRun *r, const DdpManifest *m) {
  const DdpJob *job = r->job;
  if (m->spec_hash == job->spec_hash || m->plan_hash == job->plan_hash) return 0;
  fprintf(out, "\n  the job: spec %016llx then, %016llx now (`ddpc diff` says what differs)",
          (unsigned long long)m->spec_hash, (unsigned long long)job->spec_hash);
  return 1;
}

static int64_t global_batch(const DdpRun *r) {
  return r->job->train_batch * r->counts.accumulation * r->world;
}

/* May the accumulation follow from the checkpoint's global batch? Where it is set to what it was set
   to then, as by a launcher that starts the same command with fewer ranks; or where ranks or batch are
   others and nobody chose it for them. What was edited is a difference. */
static bool accumulation_follows(const DdpRun *r, const DdpManifest *m) {
  bool given = strncmp(r->config->source[DDP_KEY_gradient_accumulation_steps], "--", 2) == 0;
  bool same = r->set->gradient_accumulation_steps == m->accumulation_set;
  if (given) return same && !run_changes_allowed(r);
  return same || m->world * m->batch != r->job->train_batch * r->world;
}

/* Keeps the global batch where that is possible. */
static int put_batch(FILE *out, const DdpRun *r, const DdpManifest *m, int64_t *accumulation) {
  int64_t now = r->set->gradient_accumulation_steps, one = r->job->train_batch * r->world;
  int64_t global = m->world * m->batch * m->accumulation;
  *accumulation = now;
  if (now * one == global) return 0;
  if (accumulation_follows(r, m) && global % one == 0) {
    *accumulation = global / one;
    ddp_log(DDP_LOG_info,
            "resume: the checkpoint was written with %lld rank%s; gradient_accumulation_steps is "
            "%lld instead of %lld, which keeps the global batch of %lld",
            (long long)m->world, m->world == 1 ? "" : "s", (long long)*accumulation, (long long)now,
            (long long)global);
    return 0;
  }
  fprintf(out, "\n  global batch: %lld = %lld x %lld x %lld then, %lld = %lld x %lld x %d now%s",
          (long long)global, (long long)m->batch, (long long)m->accumulation, (long long)m->world,
          (long long)(now * one), (long long)r->job->train_batch, (long long)now, r->world,
          global % one ? " (no gradient_accumulation_steps makes them equal)" : "");
  return 1;
}

static DdpError *verdict(const DdpRun *r, const char *folder, const char *lines) {
  if (run_changes_allowed(r)) {
    ddp_log(DDP_LOG_warning, "resume: '%s' was written by a run that differs:%s", folder, lines);
    return NULL;
  }
  return ddp_error(
      DDP_USAGE,
      "'%s' was written by a run that differs:%s\n`--resume_changes allow` goes on with "
      "what is so now; `--init-from %s/model.safetensors` starts anew from the weights",
      folder, lines, folder);
}

DdpError *run_changes(const DdpRun *r, const DdpManifest *m, const char *folder,
                      int64_t *accumulation) {
  char *lines = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&lines, &size);
  if (!out) return ddp_error(DDP_MEMORY, "out of memory");
  int n = put_settings(out, r, m) + put_program(out, r, m) + put_batch(out, r, m, accumulation);
  fclose(out);
  DdpError *error = n ? verdict(r, folder, lines) : NULL;
  free(lines);
  return error;
}

DdpError *run_changes_data(const DdpRun *r, const DdpManifest *m, const char *folder) {
  char line[320] = "";
  if (m->data_hash != r->data_hash) {
    snprintf(line, sizeof line,
             "\n  the dataset has changed: %lld training samples then, %lld now%s",
             (long long)m->samples, (long long)r->sampler.shards.samples,
             m->samples == r->sampler.shards.samples ? ", with other contents" : "");
  } else if (m->updates_per_epoch != r->counts.updates &&
             m->world * m->batch * m->accumulation == global_batch(r)) {
    snprintf(line, sizeof line,
             "\n  updates of an epoch: %lld then, %lld now (dataloader_drop_last leaves out "
             "another rest with %d ranks of %lld)",
             (long long)m->updates_per_epoch, (long long)r->counts.updates, r->world,
             (long long)r->job->train_batch);
  }
  return line[0] ? verdict(r, folder, line) : NULL;
}
