/* ddp_main: the whole life of a process. In: the job's tables and the command line. Out: an exit code;
   0 when the run did what it was asked, else the class of the first error. */
#include "backend.h"
#include "clock.h"
#include "env.h"
#include "file.h"
#include "history.h"
#include "log.h"
#include "manifest.h"
#include "report.h"
#include "restart.h"
#include "run.h"
#include "saver.h"
#include "speak.h"
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

static void print_version(const DdpJob *job) {
  printf("%s, compiled by %s for %s\nspec %016llx  plan %016llx\n", job->name, job->compiler,
         job->march, (unsigned long long)job->spec_hash, (unsigned long long)job->plan_hash);
}

static void print_help(const DdpJob *job, const DdpConfig *c, const char *program) {
  printf("%s: trains %s (%s)\n\nusage: %s [--key value ...]\n\n", program, job->name, job->compiler,
         program);
  printf("%s\n", ddp_launch_help);
  ddp_config_help(c, stdout);
}

/* Questions that need no ranks are answered before any are started. */
static bool answer_early(const DdpJob *job, int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    const char *a = argv[i];
    if (strcmp(a, "--help") == 0 || strcmp(a, "-h") == 0) {
      DdpConfig c;
      DdpError *error = ddp_config_read(&c, job, 1, argv);
      print_help(job, &c, argv[0]);
      ddp_error_free(error);
      ddp_config_free(&c);
      return true;
    }
    if (strcmp(a, "--help-env") == 0 || strcmp(a, "--help_env") == 0)
      return ddp_env_help(stdout), true;
    if (strcmp(a, "--version") == 0) return print_version(job), true;
    if (strcmp(a, "--spec") == 0) {
      for (const char *const *line = job->spec; *line; line++) fputs(*line, stdout);
      return true;
    }
  }
  return false;
}

/* NCCL for one rank, to test it where there is one GPU. */
static bool asked_alone(const DdpRun *r) {
  return r->device->apart && strcmp(ddp_env(DDP_ENV_DDP_NCCL_ALONE), "1") == 0;
}

static DdpError *group_open(DdpRun *r) {
  char *text = ddp_config_agreement(r->config);
  if (!text) return ddp_error(DDP_MEMORY, "out of memory");
  uint64_t hash = XXH64(text, strlen(text), r->job->plan_hash ^ (r->job->spec_hash * 3));
  DdpGroupOptions options = {.backend = r->device->apart ? NULL : r->set->ddp_backend,
                             .intra_node_backend = strcmp(r->set->intra_node, "backend") == 0,
                             .timeout = (double)r->set->ddp_timeout,
                             .program_hash = hash,
                             .program_text = text,
                             .record = r->output,
                             .alone = asked_alone(r)};
  DdpError *error = ddp_group_open(&r->group, r->launch, &options);
  free(text);
  if (error) return error;
  r->rank = ddp_group_rank(r->group);
  r->world = ddp_group_world(r->group);
  ddp_log_rank(r->rank, r->world);
  return NULL;
}

/* Every rank must have read the same data. */
static DdpError *data_compare(DdpRun *r) {
  uint64_t *all = calloc((size_t)r->world, sizeof *all);
  if (!all) return ddp_error(DDP_MEMORY, "out of memory");
  DdpError *error = ddp_group_all_gather(r->group, &r->data_hash, all, (int64_t)sizeof *all,
                                         "the hash of the data");
  for (int i = 1; i < r->world && !error; i++) {
    if (all[i] != all[0]) {
      error = ddp_error_rank(
          DDP_DATA, i,
          "rank %d read other data than rank 0: the files differ; copy them again or "
          "give --data_root",
          i);
      r->quiet = r->rank != 0;
    }
  }
  free(all);
  return error;
}

/* Which one is this rank's, and can it run the program? Before data are touched. */
static DdpError *device_open(DdpRun *r) {
  bool between = r->device->apart && (r->world > 1 || asked_alone(r));
  DdpError *error = r->device->open(r->job, r->launch->local_rank, r->launch->local_world);
  r->device_open = !error;
  if (!error && between) error = ddp_group_device_probe(r->job->target);
  DDP_TRY(run_agree(r, error, "opening the device"));
  return between ? ddp_group_device_open(r->group, r->job->target) : NULL;
}

static DdpError *data_open(DdpRun *r) {
  ddp_group_at(r->group, -1, "reading data");
  DdpError *error = ddp_dataset_load(&r->data, r->job, r->set->data_root);
  DDP_TRY(run_agree(r, error, "reading data"));
  r->data_hash = ddp_dataset_hash(r->data);
  if (r->world > 1) DDP_TRY(data_compare(r));
  if (r->rank == 0 && ddp_dataset_dropped(r->data)) {
    ddp_log(DDP_LOG_info, "%lld rows with missing values were left out",
            (long long)ddp_dataset_dropped(r->data));
  }
  return NULL;
}

static DdpError *counts_open(DdpRun *r) {
  const DdpSettings *s = r->set;
  DdpShards shards = {.samples = ddp_dataset_rows(r->data, "train"),
                      .world = r->world,
                      .batch = r->job->train_batch,
                      .drop_last = s->dataloader_drop_last == 1,
                      .batches = strcmp(s->sharding, "accelerate") == 0};
  DdpCountsInput in = {.shards = shards,
                       .accumulation = run_resume_accumulation(r),
                       .epochs = s->num_train_epochs,
                       .max_steps = s->max_steps,
                       .warmup = s->warmup_steps,
                       .single_at = r->job->single_at};
  if (shards.samples < 0) return ddp_error(DDP_DATA, "the job has no split named train");
  if (strcmp(s->eval_strategy, "no") != 0 && !r->job->evaluate) {
    r->quiet = r->rank != 0;
    return ddp_error(DDP_USAGE,
                     "eval_strategy = %s: this binary has no evaluation; its job declares no "
                     "split to evaluate on",
                     s->eval_strategy);
  }
  DdpError *error = ddp_counts_make(&r->counts, &in);
  if (error) {
    r->quiet = r->rank != 0;
    return error;
  }
  int64_t seed = s->data_seed == DDP_NONE_INT ? s->seed : s->data_seed;
  bool shuffle = strcmp(s->train_sampling_strategy, "sequential") != 0;
  return ddp_sampler_open(&r->sampler, &shards, r->rank, shuffle, (uint64_t)seed);
}

static DdpError *weights_make(DdpRun *r) {
  DDP_TRY(run_init_weights(r));
  if (r->config->init_from || r->job->n_loads) {
    DdpError *error = r->rank == 0 ? run_load_all(r) : NULL;
    DDP_TRY(run_agree(r, error, "loading weights"));
  }
  return run_broadcast_model(r);
}

static DdpError *weights_open(DdpRun *r) {
  if (r->resume) return NULL; /* loaded once everything has its place */
  DDP_TRY(run_agree(r, run_model_here(r, false), "taking memory for the weights"));
  return run_model_there(r, weights_make(r));
}

/* accelerate's --mixed_precision cannot change a program that is already compiled. */
static void warn_of_precision(const DdpRun *r) {
  const char *asked = getenv("ACCELERATE_MIXED_PRECISION");
  if (!asked || !*asked || strcmp(asked, "no") == 0) return;
  bool same = (strcmp(asked, "bf16") == 0 && r->set->bf16 == 1) ||
              (strcmp(asked, "fp16") == 0 && r->set->fp16 == 1);
  if (!same)
    ddp_log(DDP_LOG_warning,
            "accelerate's --mixed_precision %s is not what this program was compiled for; set bf16 "
            "or fp16 in the job and compile it again",
            asked);
}

static void banner(const DdpRun *r) {
  char ranks[120] = "1 rank", device[160] = "";
  const char *description = r->device->describe();
  if (*description) snprintf(device, sizeof device, " on %s", description);
  if (r->world > 1) {
    snprintf(ranks, sizeof ranks, "%d ranks (%s, %s)", r->world,
             r->launch->by ? r->launch->by : "?", ddp_group_path(r->group));
  }
  ddp_log(DDP_LOG_info,
          "%s: %s%s, %d thread%s each; %lld samples, %lld a rank; global batch %lld = %lld x %lld "
          "x %d; "
          "%lld update%s an epoch, %lld in all",
          r->job->name, ranks, device, r->threads, r->threads == 1 ? "" : "s",
          (long long)r->counts.shards.samples, (long long)r->counts.per_rank,
          (long long)(r->job->train_batch * r->counts.accumulation * r->world),
          (long long)r->job->train_batch, (long long)r->counts.accumulation, r->world,
          (long long)r->counts.updates, r->counts.updates == 1 ? "" : "s",
          (long long)r->counts.total);
}

static bool trains(const DdpConfig *c) {
  return !c->predict && !c->generate && !c->init_only;
}

static DdpError *run_start(DdpRun *r) {
  bool measure = r->set->skip_memory_metrics == 0;
  if (measure) r->resident[0] = run_resident();
  run_crash_open(r->launch);
  DDP_TRY(run_signals_open(r->launch));
  DDP_TRY(group_open(r));
  run_signals_group(r->group);
  run_crash_group(r->group);
  DDP_TRY(device_open(r));
  DDP_TRY(run_set_threads(r));
  if (measure) r->on_device[0] = run_device_used(r);
  DDP_TRY(run_agree(r, run_check_room(r), "looking for memory"));
  if (trains(r->config)) DDP_TRY(run_resume_find(r));
  if (!r->resume && (r->config->init_from || r->job->n_loads)) {
    DdpError *error = r->rank == 0 ? run_check_loads(r) : NULL;
    DDP_TRY(run_agree(r, error, "comparing the weights with the job"));
  }
  if (!r->config->init_only && !r->config->generate) {
    DDP_TRY(data_open(r));
    DDP_TRY(counts_open(r));
    DDP_TRY(run_resume_check(r));
  }
  DDP_TRY(run_memory_open(r));
  DDP_TRY(weights_open(r));
  if (r->config->init_only) {
    DDP_TRY(run_save(r, r->output));
    if (r->rank == 0) printf("initial weights: %s/model.safetensors\n", r->output);
    return NULL;
  }
  ddp_group_at(r->group, -1, r->config->predict ? "predicting" : "preparing");
  if (r->config->predict) return run_predict(r);
  if (r->config->generate) return run_generate(r);
  DDP_TRY(run_reducer_open(r));
  DDP_TRY(run_best_open(r));
  DDP_TRY(run_measured_open(r));
  DDP_TRY(run_seen_open(r));
  DDP_TRY(run_agree(r, run_ema_open(r), "taking memory for the average of the weights"));
  DDP_TRY(run_resume_load(r));
  if (r->rank == 0) warn_of_precision(r);
  DdpError *error = run_state_open(r);
  if (!error && r->rank == 0) error = report_open(&r->report, r);
  if (!error && r->rank == 0) error = ddp_checkpoint_sweep(r->output); /* the log is locked */
  DDP_TRY(run_agree(r, error, "opening the log"));
  if (r->rank == 0) banner(r);
  DDP_TRY(run_nodes_open(r));
  DDP_TRY(run_trace_open(r));
  if (measure) {
    r->resident[1] = run_resident();
    r->on_device[1] = run_device_used(r);
  }
  return run_trace_write(r, run_train(r));
}

/* After an error of a group its threads may be anywhere, also in memory that stands here: nothing is taken
   down, the process ends as it is. Returns whether that is so. */
static bool run_end(DdpRun *r, const DdpError *error) {
  bool aborted = r->group && r->world > 1 && error && !r->together;
  run_signals_group(NULL);
  report_close(r->report);
  ddp_history_close(r->history);
  if (aborted) {
    ddp_group_abort(r->group, error);
    run_saver_close(r); /* what it writes is of an update that all ranks have finished */
    return true;
  }
  run_trace_close(r);
  if (r->reducer) ddp_reducer_close(r->reducer);
  ddp_measured_close(r->measured);
  run_saver_close(r);
  run_resume_close(r);
  ddp_sampler_close(&r->sampler);
  ddp_dataset_free(r->data);
  run_crash_group(NULL);
  ddp_group_close(r->group);
  run_memory_close(r);
  if (r->device_open) r->device->close();
  return false;
}

static int finish(const DdpLaunch *launch, DdpError *error, bool quiet) {
  if (!error) return 0;
  int code = (int)error->klass;
  if (!quiet)
    ddp_log(error->klass == DDP_STOPPED ? DDP_LOG_end : DDP_LOG_error, "%s", error->message);
  ddp_launch_report(launch, error);
  ddp_error_free(error);
  return code;
}

static int run_rank(const DdpJob *job, const DdpLaunch *launch, int argc, char **argv) {
  DdpConfig config;
  ddp_log_rank(launch->rank, launch->world);
  DdpError *error = ddp_config_read(&config, job, argc, argv);
  if (!error)
    error = ddp_backend_check(config.settings.ddp_backend, job->target ? job->target->name : "cpu");
  bool quiet = error && launch->rank != 0; /* all ranks have the same command line */
  bool aborted = false;
  if (!error && config.print_config) {
    if (launch->rank == 0) ddp_config_print(&config, stdout);
  } else if (!error) {
    run_speak(&config, launch);
    const char *output = config.settings.output_dir ? config.settings.output_dir : "trainer_output";
    DdpRun r = {.job = job,
                .config = &config,
                .set = &config.settings,
                .launch = launch,
                .device = job->target ? job->target->device : &ddp_device_cpu,
                .rank = launch->rank,
                .world = launch->world,
                .threads = 1,
                .progress = {.logged_at = -1, .evaluated_at = -1, .saved_at = -1, .best_at = -1},
                .tokens_field = -1,
                .writes = launch->rank == 0,
                .output = output};
    if (config.generate || (trains(&config) && config.settings.sample_length > 0))
      error = run_check_generate(job, &config);
    if (!error && (config.predict || config.generate))
      error = run_find_weights(job, &config, output);
    if (!error)
      error = run_start(&r);
    else
      r.quiet = launch->rank != 0;
    aborted = run_end(&r, error);
    quiet = r.quiet;
  }
  int code = finish(launch, error, quiet);
  if (aborted) { /* exit() would take static objects of libraries from under their threads */
    fflush(NULL);
    _exit(code);
  }
  ddp_config_free(&config);
  return code;
}

/* A program for another processor says so instead of dying of an illegal instruction. */
static DdpError *check_cpu(const DdpJob *job) {
  const char *lacks = NULL;
#if defined(__x86_64__)
  __builtin_cpu_init();
#define NEEDS(feature)                                                                             \
  if ((job->cpu & DDP_CPU_##feature) && !__builtin_cpu_supports(#feature)) lacks = #feature;
  NEEDS(avx512bf16)
  NEEDS(avx512vnni)
  NEEDS(avx512vl)
  NEEDS(avx512bw)
  NEEDS(avx512f)
  NEEDS(fma)
  NEEDS(avx2)
#undef NEEDS
#endif
  if (!lacks) return NULL;
  return ddp_error(
      DDP_FAILED,
      "this binary was compiled for %s, which has %s; this processor has not. Compile the "
      "job here, or with `--target cpu:x86-64-v3`",
      job->march, lacks);
}

/* Whoever starts us with closed descriptors must not get messages into the log or a socket. */
static void open_standard(void) {
  int fd;
  do {
    fd = open("/dev/null", O_RDWR);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) close(fd);
}

int ddp_main(const DdpJob *job, int argc, char **argv) {
  DdpLaunch launch = {.world = 1, .local_world = 1};
  int parent_exit = -1;
  open_standard();
  setvbuf(stdout, NULL, _IOLBF, 0);
  signal(SIGPIPE, SIG_IGN); /* `./train | head` is no reason to lose a run */
  signal(SIGXFSZ, SIG_IGN); /* a file over the limit is an error of write */
  if (job->abi != DDP_JOB_ABI) {
    ddp_log(DDP_LOG_error,
            "the program and the runtime library have different versions (%d, %d); "
            "compile the job again",
            job->abi, DDP_JOB_ABI);
    return DDP_FAILED;
  }
  if (answer_early(job, argc, argv)) return 0;
  run_limit_spinning(argv);
  DdpError *error = check_cpu(job);
  if (error) return finish(&launch, error, false);
  run_restart_ready(job, &argc, argv);
  if (job->target) ddp_launch_devices(job->target->device->count);
  error = ddp_launch(&argc, argv, &launch, &parent_exit);
  if (!error && parent_exit < 0) error = run_restart_flags(&launch, &argc, &argv);
  if (error) return finish(&launch, error, false);
  if (parent_exit >= 0) return parent_exit;
  return run_rank(job, &launch, argc, argv);
}
