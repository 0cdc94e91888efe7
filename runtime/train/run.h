/* One run of a job on one rank: what the parts of the loop share. Private to this folder. */
#ifndef DDP_TRAIN_RUN_H
#define DDP_TRAIN_RUN_H
#include "config.h"
#include "counts.h"
#include "dataset.h"
#include "ddp/job.h"
#include "device.h"
#include "group.h"
#include "keep.h"
#include "launch.h"
#include "measured.h"
#include "reducer.h"
#include "sampler.h"
#include "scale.h"
#include "timing.h"

enum { DDP_MAX_STATES = 4 };

typedef struct DdpReport DdpReport;
typedef struct RunResume RunResume;
typedef struct RunSaver RunSaver;
typedef struct DdpHistory DdpHistory;

/* Where a run stands between two updates. The same on every rank; a checkpoint keeps all of it. */
typedef struct DdpProgress {
  int64_t update;       /* finished ones, skipped ones too */
  int64_t epoch;        /* the one that update `update` belongs to, from 0 */
  int64_t window;       /* updates of that epoch that are finished */
  double fraction;      /* of epochs, as logged: 1.5 in the middle of the second */
  int64_t samples_seen; /* by all ranks */
  double running, all;  /* losses since the last line of the log, of all updates */
  int64_t running_n;
  int64_t logged_at, evaluated_at, saved_at; /* updates; -1: never */
  double best;                               /* metric of the best evaluation */
  int64_t best_at;                           /* its update; -1: none yet */
  int64_t tokens_seen;                       /* by all ranks, with include_num_input_tokens_seen */
  int64_t averaged;                          /* updates in the average of the weights (ema_decay) */
} DdpProgress;

/* A micro-batch on its way: where the host gathers it, and where kernels read it (on CPUs the same memory). */
typedef struct RunBatch {
  void **fields;       /* [n_fields] gathered samples */
  int64_t *sample;     /* [largest batch] */
  int64_t *row;        /* [largest batch] */
  DdpScalars *scalars; /* NULL on CPUs */
  struct RunBatchThere {
    const void **fields;
    const int64_t *sample, *row;
    const DdpScalars *scalars;
  } there;
  char *host, *device; /* what holds them where a device has memory of its own */
} RunBatch;

/* Tensors next to each other in the arena that one step of the optimizer changes at once; or one tensor. */
typedef struct RunRange {
  int32_t tensor; /* the first one */
  int64_t begin, end;
} RunRange;

/* What a run with a device of its own memory has beside; nothing of it on CPUs. */
typedef struct RunThere {
  void *stream, *copying; /* of computation, of copies */
  void *scratch;
  double *norms;      /* sums of squares of what this rank looks at, on the device */
  double *norms_here; /* and on the host */
  DdpRange *norm_ranges;
  int32_t n_norms;
  double *counts; /* [n_counts] of one micro-batch */
  double *eval;   /* [eval_n] sums of this rank's batches of an evaluation */
  int64_t eval_n;
  DdpRates *rates, *rates_here;
  /* the optimizer steps behind backward, in the same captured work: */
  bool steps;
  const float
      *told; /* element of the gradients that tells of a loss that is not finite; NULL: none does */
  DdpRates *settled; /* on the host: norm and hold of the last update */
  DdpError *error;   /* of the pass that is being enqueued */
  uint16_t *groups;  /* of parameters, one for each 16 elements */
  RunRange *ranges;
  int32_t n_ranges;
  int64_t held; /* micro-batch of the epoch that r->batch holds, sent already; -1: none */
  struct RunShadow *shadow; /* the model is in the host's memory for now: model.c */
} RunThere;

typedef struct DdpRun {
  const DdpJob *job;
  const DdpConfig *config;
  const DdpSettings *set;
  const DdpLaunch *launch;
  const DdpDevice *device;
  bool device_open;
  DdpGroup *group;
  int rank, world;
  int threads;
  bool quiet;         /* another rank says why this run ends */
  bool together;      /* it ends with an error that all ranks have agreed on, and no other */
  int stop;           /* why all ranks stop after this update: signals.c; 0: they do not */
  const char *output; /* folder */

  DdpDataset *data;
  uint64_t data_hash; /* of contents and splits, the same on all ranks */
  DdpCounts counts;
  DdpSampler sampler;

  /* arenas, in the plan's layout */
  float *params, *grads, *frozen, *state[DDP_MAX_STATES];
  int32_t tokens_field; /* the field whose tokens are counted; -1: none is */
  bool tokens_masked;   /* those that are not 0 */
  int64_t tokens;       /* of this rank in the window */
  float *ema;           /* running average of params, or NULL */
  char *buffers, *block;
  int64_t param_count, grad_count, frozen_count, state_count[DDP_MAX_STATES]; /* elements */
  int64_t buffer_bytes, block_bytes;
  char *own_buffers;    /* [world][buffer_bytes] at saves, where ranks keep their own; else NULL */
  int64_t own_shape[2]; /* of own_buffers */
  RunBatch batches[DDP_BATCHES], *batch; /* the one that is filled, or was last */
  int64_t largest_batch;                 /* samples */
  double *denominators;                  /* [n_counts] of the window */
  double loss;                           /* this rank's part of the window's */
  double *sums;                          /* [n_sums or 1] */
  double *sums_there;                    /* what kernels add to: the same on CPUs */
  RunThere there;
  DdpReducer *reducer; /* NULL: one rank */
  bool steps_early;    /* the optimizer steps a bucket as soon as its sum is there */
  int32_t bad_tensor;  /* whose gradient was not finite then; -1: none */
  double factor;       /* of the schedule, for the update */
  int32_t *norm_owner; /* [n_tensors]: rank that computes the norm; -1: not trained */
  float *norms;        /* [n_tensors] */
  char *kept_buffers;  /* as they were before the window, where it may be given up; else NULL */
  double *agreement;   /* [9 + n_tensors + 2 n_counts + world] small sums between ranks */

  DdpProgress progress;
  RunResume *resume;   /* NULL: from the beginning */
  RunSaver *saver;     /* rank 0, from the first checkpoint on */
  DdpScale scale;      /* fp16: of the loss, and how many updates it skipped */
  double window_begun; /* clock */
  bool slow;           /* the last update took so long that the next one asks before its end */
  int64_t window_first, window_n; /* micro-batches of the last window */
  double exposed;                 /* seconds spent waiting for gradients */
  DdpTiming timing;
  DdpTrace *trace; /* --profile; NULL: none */
  DdpMeasured
      *measured;   /* rates of the groups, then of last_lr; NULL: the schedule needs no metric */
  int32_t metric;  /* the one of metric_for_best_model */
  bool seeks_best; /* evaluations are compared by it */
  double last_lr, last_norm;
  bool probed;    /* with on_nan = ignore: what is not finite has been shown */
  bool want_norm; /* somebody will read last_norm, or gradients are clipped */
  DdpReport *report;
  bool writes;          /* weights and checkpoints: rank 0, with save_on_each_node others too */
  DdpHistory *history;  /* rank 0: what trainer_state.json tells */
  int64_t resident[2];  /* bytes at the start and after set-up, for skip_memory_metrics = false */
  int64_t on_device[2]; /* likewise, of the device's memory */
  /* of the evaluation, from its first time on */
  int64_t *eval_index;          /* [eval_batch] */
  double *eval_mine, *eval_all; /* sums of the batches of this rank, of all ranks */
} DdpRun;

/* ---- setup.c: memory, initial weights */
DdpError *run_memory_open(DdpRun *r);
void run_memory_close(DdpRun *r);
/* Of host memory that copies read and write while they are under way. */
DdpError *run_pinned(DdpRun *r, size_t bytes, void **out);
void run_pinned_free(DdpRun *r, void *p, size_t bytes);
DdpError *run_init_weights(DdpRun *r);
/* Rank 0's parameters, frozen parameters and buffers to all. */
DdpError *run_broadcast_model(DdpRun *r);
DdpError *run_broadcast_buffers(DdpRun *r);
/* After a broadcast: with on_nan = stop, buffers that are not finite end the run before they are used
   or saved. The same answer on every rank. */
DdpError *run_check_buffers(DdpRun *r);
/* Likewise weights, where the norm of the gradients was not looked at. */
DdpError *run_check_weights(DdpRun *r);
/* Memory of a tensor. */
void *run_tensor(const DdpRun *r, const DdpTensor *t);
/* All ranks learn whether one of them failed: returns its own error, or on the others one that blames
   the first rank that failed (r->quiet is then set). Collective. */
DdpError *run_agree(DdpRun *r, DdpError *mine, const char *what);

/* ---- batch.c: micro-batches on their way to the device */
DdpError *run_batch_open(DdpRun *r);
void run_batch_close(DdpRun *r);
/* r->batch becomes one that may be filled: nobody reads it any more. */
DdpError *run_batch_next(DdpRun *r);
/* r->batch is filled: what is enqueued from now on finds it on the device. */
DdpError *run_batch_send(DdpRun *r);

/* ---- model.c: arenas and the host */
/* Do arenas lie in memory that the host neither reads nor writes? */
bool run_apart(const DdpRun *r);
/* Memory of an arena for the host to read: itself, or a copy of what it holds once all that is enqueued has
   happened. */
typedef struct RunView {
  const void *at;
  void *copy;
} RunView;
DdpError *run_view(const DdpRun *r, const void *at, int64_t bytes, RunView *v);
void run_view_close(RunView *v);
/* Between the two the host may read and write the model through r: parameters, frozen ones and buffers; with
   `all` also the optimizer's state and the average of the weights. The second one returns `error`, or its own. */
DdpError *run_model_here(DdpRun *r, bool all);
DdpError *run_model_there(DdpRun *r, DdpError *error);
/* Rank 0's bytes to all ranks, whose memory ever they lie in. Collective. */
DdpError *run_broadcast(DdpRun *r, void *data, int64_t bytes, const char *what);

/* Waits until all that is enqueued on the stream has happened. Between ranks that sum on their devices no longer
   than ddp_timeout, and not for a job that has failed. */
DdpError *run_synchronise(const DdpRun *r, void *stream);

/* ---- pass.c: the emitted functions */
/* Enqueues pass(step), or on CPUs runs it; then errors of what was enqueued before are known too. */
DdpError *run_pass(DdpRun *r, void (*pass)(DdpStep *step), DdpStep *step);
/* What kernels read of the step in device memory, for a function that is called otherwise. */
DdpError *run_scalars(DdpRun *r, const DdpStep *step);

/* ---- there.c: norms and steps of the optimizer on a device with memory of its own */
DdpError *run_there_open(DdpRun *r);
void run_there_close(DdpRun *r);
/* Loss of the window, and where they are asked for the sums of squares of the gradients that this rank looks at,
   in the order of the tensors, come to the host; waits for the device. */
DdpError *run_there_results(DdpRun *r, bool norms);
/* One step for all tensors: gradients count times `clip`. */
DdpError *run_there_step(DdpRun *r, double factor, float clip);
/* Can the device itself find out whether and how to step? Then the last backward pass of an update goes on with the
   step (r->there.steps), without the host in between. */
bool run_steps_there(const DdpRun *r);
/* That pass. */
DdpError *run_there_update(DdpRun *r, DdpStep *step);
/* The reducer is there: buckets are stepped one by one, a bad loss is told. */
DdpError *run_there_buckets(DdpRun *r);

/* ---- window.c: one update's forward and backward passes */
typedef struct DdpWindowResult {
  double loss; /* of all ranks */
  bool finite;
  bool save_failed; /* run_checkpoint_wait says why */
} DdpWindowResult;
/* Micro-batches [first, first + n) of the epoch. Gradients of all ranks are summed afterwards; or r->stop is
   set, and everything is as before. */
DdpError *run_window(DdpRun *r, int64_t first, int64_t n);
/* Looks through this rank's samples of the last window, one by one, for a loss that is not finite.
   Returns its data row (from 0), or -1. Needs the evaluation. */
int64_t run_bad_row(DdpRun *r);

/* ---- reduce.c: how gradients travel between ranks */
DdpError *run_reducer_open(DdpRun *r);
/* What needs all gradients before the optimizer steps; NULL: nothing does. */
const char *run_steps_late(const DdpRun *r);
/* After the last backward pass of an update: sums over ranks, and with steps_early the steps. */
DdpError *run_reduce(DdpRun *r);

/* ---- trace.c: --profile */
DdpError *run_trace_open(DdpRun *r);
/* Collective, at the end of training or when all ranks stop together: the events of all ranks into one file.
   Returns `end`, or what went wrong. */
DdpError *run_trace_write(DdpRun *r, DdpError *end);
void run_trace_close(DdpRun *r);

/* ---- update.c: norm, clipping, optimizer */
/* Combines loss, stop and norms of all ranks after a window; fills last_lr and, with want_norm, last_norm. Then the
   step. */
DdpError *run_update(DdpRun *r, DdpWindowResult *out);
/* on_nan = skip: the norm is always wanted. */
bool run_skips(const DdpRun *r);
/* May an update be given up after its gradients are known (fp16, on_nan = skip)? Then no parameter may
   change before all of them are. */
bool run_may_skip(const DdpRun *r);
/* A schedule of measured values: the job's numbers, the metric that it looks at. */
DdpError *run_measured_open(DdpRun *r);
/* One step of the optimizer for one tensor, on CPUs. */
void run_step_tensor(DdpRun *r, int32_t tensor, double factor);
/* The base rate of a group of parameters. */
double run_rate(const DdpRun *r, int32_t group);
double run_weight_decay(const DdpRun *r, int32_t group);
/* The schedule's factor on the base rates, after `steps` steps of the optimizer. */
double run_rate_factor(const DdpRun *r, int64_t steps);

/* ---- probe.c: looking for what went wrong */
bool run_debugs(const DdpRun *r, const char *what); /* is it in the list `debug`? */
/* Smallest and largest magnitude of every weight and gradient, to the terminal. */
DdpError *run_probe(const DdpRun *r);
/* check_ranks: an error if a rank's parameters or optimizer state are not rank 0's. Collective. */
DdpError *run_compare_ranks(DdpRun *r);

/* ---- evaluate.c */
/* For evaluate() and predict(): n of `samples` samples that lie in r->batch. */
void run_still_step(DdpRun *r, int64_t n, int64_t samples, DdpStep *step);
/* The inputs of one batch of a split for evaluate() and predict(): samples from `first` on. */
DdpError *run_eval_step(DdpRun *r, const char *split, int64_t first, int64_t n, int64_t samples,
                        DdpStep *step);
/* --predict: the outputs for every sample of a split, and the weights that it takes when none are named. */
DdpError *run_predict(DdpRun *r);
DdpError *run_find_weights(const DdpJob *job, DdpConfig *config, const char *output);
/* ---- generate.c: --generate; the text of sample_length; and whether job and flags allow them, before any
   memory is taken. */
DdpError *run_generate(DdpRun *r);
DdpError *run_sample(DdpRun *r);
DdpError *run_check_generate(const DdpJob *job, const DdpConfig *config);
/* A signal to any rank ends it early: r->stop is then set on all, and there are no metrics. */
DdpError *run_evaluate(DdpRun *r, double *metrics, double *seconds, int64_t *samples,
                       int64_t *steps);

/* ---- best.c */
DdpError *run_best_open(DdpRun *r);
bool run_best_greater(const DdpRun *r); /* is a greater metric the better one? */
/* After an evaluation: was it the best so far? The same answer on all ranks. */
DdpError *run_best_see(DdpRun *r, const double *metrics, bool *better);
/* Before a checkpoint, rank 0: where the best one lies, once all earlier ones are written. */
DdpError *run_best_note(DdpRun *r);
/* load_best_model_at_end. */
DdpError *run_best_load(DdpRun *r);

/* ---- state.c: trainer_state.json, rank 0 */
/* Opens the history, or reads that of the checkpoint which the run goes on from. */
DdpError *run_state_open(DdpRun *r);
/* Its text, as of now; to be freed. */
DdpError *run_state_text(DdpRun *r, char **text);
extern const char run_state_file[];
DdpError *run_state_write(const char *text, const char *folder);
/* What save_total_limit keeps once the checkpoint of update `newest` is complete. */
DdpKeep run_state_keep(const DdpRun *r, int64_t newest);
/* Behind the last line of the log: <output>/trainer_state.json; with a limit of 1 the best checkpoint alone
   stays. */
DdpError *run_state_end(DdpRun *r);

/* ---- nodes.c: save_on_each_node. All ranks call. */
bool run_copies(const DdpRun *r); /* do several ranks write? */
/* Sets r->writes. */
DdpError *run_nodes_open(DdpRun *r);
/* Rank 0's text and what it keeps, to all; *text is to be freed. */
DdpError *run_nodes_state(DdpRun *r, char **text, DdpKeep *keep);

/* ---- seen.c: include_num_input_tokens_seen */
DdpError *run_seen_open(DdpRun *r);
/* Tokens of the n samples that lie in r->batch; 0 unless they are counted. */
int64_t run_seen_count(const DdpRun *r, int64_t n);

/* ---- ema.c: the running average of the weights */
DdpError *run_ema_open(DdpRun *r);
DdpError *run_ema_update(DdpRun *r); /* after a step of the optimizer */
void run_ema_swap(DdpRun *r);        /* the average takes the place of the weights, and back */

/* ---- checkpoint.c. Rank 0 writes; all ranks call. */
/* <folder>/model.safetensors, while everybody waits. */
DdpError *run_save(DdpRun *r, const char *folder);
/* <output>/checkpoint-N, complete or not there, with everything that the next update depends on: a copy is
   taken now, and written while training goes on. */
DdpError *run_checkpoint(DdpRun *r);
/* The last checkpoint is on the disk, or why it is not. */
DdpError *run_checkpoint_wait(DdpRun *r);

/* ---- resume.c. All ranks call. */
/* Before the data are read: which checkpoint, if any, and whether it belongs to this job. Sets r->resume, on all
   ranks or on none. */
DdpError *run_resume_find(DdpRun *r);
/* With the data read and counted: are they those of the checkpoint? */
DdpError *run_resume_check(DdpRun *r);
/* Everything that the checkpoint holds, to all ranks. */
DdpError *run_resume_load(DdpRun *r);
/* Micro-batches of an update: the setting, or what keeps the checkpoint's global batch. */
int64_t run_resume_accumulation(const DdpRun *r);
const char *run_resume_folder(const DdpRun *r); /* rank 0; NULL: from the beginning */
void run_resume_close(DdpRun *r);

/* ---- own_buffers.c: with ddp_broadcast_buffers = false */
bool run_own_buffers(const DdpRun *r);
/* Memory for those of all ranks, filled with this rank's. */
DdpError *run_own_buffers_open(DdpRun *r);
DdpError *run_own_buffers_gather(DdpRun *r); /* collective */
DdpError *run_own_buffers_take(DdpRun *r);   /* this rank's ones become its buffers */

/* ---- load.c */
DdpError *run_load(DdpRun *r, const char *path); /* rank 0 only */
/* The files of the job's `load` lines, or the one that takes their place. rank 0 only */
DdpError *run_load_all(DdpRun *r);
/* ---- fit.c: names, types and shapes of a file of weights are the job's. Rank 0 only. */
DdpError *run_check_fit(const DdpJob *job, const char *path);
/* The same for all files of run_load_all. */
DdpError *run_check_loads(const DdpRun *r);

/* ---- loop.c: from the first update to the last */
DdpError *run_train(DdpRun *r);

/* ---- threads.c */
DdpError *run_set_threads(DdpRun *r);
/* First thing: may start the program anew, with idle OpenMP threads told not to spin for long. */
void run_limit_spinning(char **argv);

/* ---- room.c */
/* Fails when what the plan takes is more than this host, or the device, has left. */
DdpError *run_check_room(const DdpRun *r);
/* Bytes of the device's memory that are taken, by whomever; -1: it has none of its own. */
int64_t run_device_used(const DdpRun *r);
/* Bytes that this host and its control group have left. */
int64_t run_room_left(void);

/* ---- resident.c */
/* Bytes of memory that this process fills; -1: not known. */
int64_t run_resident(void);

/* ---- crash.c */
/* From here on a crash says where it was. */
void run_crash_open(const DdpLaunch *who);
/* Stacks for handlers on OpenMP's threads. */
void run_crash_threads(int threads);
void run_crash_group(DdpGroup *g); /* NULL: none, or no longer */

/* ---- signals.c */
/* From here on signals go to a thread of their own. Before any other thread is started. */
DdpError *run_signals_open(const DdpLaunch *who);
/* Whom to tell of a signal; NULL before the group is closed. */
void run_signals_group(DdpGroup *g);
/* From here on the first signal is a wish, no longer the end of the process. */
void run_signals_training(void);
enum { RUN_STOPS = 4 }; /* reasons to stop, numbered from 1: three signals, --stop_at_update */
/* What this rank has to say after the current update, one number for each reason; to be summed over ranks. */
void run_stop_vote(const DdpRun *r, double votes[RUN_STOPS]);
int run_stop_of(const double votes[RUN_STOPS]);
/* A signal: whoever sent it will not wait for long. */
bool run_stop_soon(int stop);
const char *run_stop_name(int stop);
#endif
