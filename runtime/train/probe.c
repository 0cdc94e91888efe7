/* Looking for what went wrong. In: a run between two updates. Out: what every tensor holds
   (debug = underflow_overflow); whether all ranks hold the same (check_ranks). */
#include "log.h"
#include "run.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

bool run_debugs(const DdpRun *r, const char *what) {
  const char *list = r->set->debug, *at = list ? strstr(list, what) : NULL;
  return at != NULL;
}

/* As transformers' DebugUnderflowOverflow: smallest and largest magnitude, not a number beats all. */
static void put_range(FILE *out, const char *what, const char *name, const float *x, int64_t n) {
  float low = INFINITY, high = 0;
  int64_t bad = 0;
  for (int64_t i = 0; i < n; i++) {
    float a = fabsf(x[i]);
    if (!isfinite(a)) bad++;
    if (isnan(a)) continue;
    if (a < low) low = a;
    if (a > high) high = a;
  }
  fprintf(out, "\n  %9.2e %9.2e  %s %s", (double)low, (double)high, name, what);
  if (bad) fprintf(out, ": %lld of %lld are not finite", (long long)bad, (long long)n);
}

static DdpError *range_line(FILE *out, const char *what, const DdpRun *r, const DdpTensor *t,
                            const float *arena) {
  RunView v;
  DdpError *error = run_view(r, arena + t->offset, t->elements * (int64_t)sizeof(float), &v);
  if (!error) put_range(out, what, t->name, v.at, t->elements);
  run_view_close(&v);
  return error;
}

DdpError *run_probe(const DdpRun *r) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  DdpError *error = NULL;
  if (!out) return ddp_error(DDP_MEMORY, "out of memory");
  fprintf(out, "  abs min   abs max  weights and gradients of update %lld",
          (long long)r->progress.update + 1);
  for (int32_t i = 0; i < r->job->n_tensors && !error; i++) {
    const DdpTensor *t = &r->job->tensors[i];
    if (t->role != DDP_ROLE_param || t->tied_to >= 0) continue;
    error = range_line(out, "weight", r, t, r->params);
    if (!error) error = range_line(out, "gradient", r, t, r->grads);
  }
  fclose(out);
  if (!error) ddp_log(DDP_LOG_error, "%s", text);
  free(text);
  return error;
}

/* ---------- the same on all ranks? */

/* *h becomes the hash of n floats, behind what it is. */
static DdpError *hash(const DdpRun *r, const float *x, int64_t n, uint64_t *h) {
  RunView v;
  DdpError *error = run_view(r, x, n * (int64_t)sizeof *x, &v);
  if (!error) *h = XXH3_64bits_withSeed(v.at, (size_t)n * sizeof *x, *h);
  run_view_close(&v);
  return error;
}

static DdpError *hash_all(const DdpRun *r, uint64_t *h) {
  *h = 0;
  DDP_TRY(hash(r, r->params, r->param_count, h));
  for (int s = 0; s < DDP_MAX_STATES; s++) {
    if (r->state[s]) DDP_TRY(hash(r, r->state[s], r->state_count[s], h));
  }
  return NULL;
}

static DdpError *hash_of(const DdpRun *r, const DdpTensor *t, uint64_t *h) {
  *h = 0;
  if (t->role != DDP_ROLE_param || t->tied_to >= 0) return NULL;
  return hash(r, r->params + t->offset, t->elements, h);
}

/* Which tensor: hashes of all of them, from all ranks. */
static DdpError *differs(DdpRun *r, int rank) {
  int32_t n = r->job->n_tensors;
  uint64_t *mine = calloc((size_t)n + 1, sizeof *mine);
  uint64_t *all = calloc((size_t)(n + 1) * (size_t)r->world, sizeof *all);
  DdpError *error = mine && all ? NULL : ddp_error(DDP_MEMORY, "out of memory");
  for (int32_t i = 0; i < n && !error; i++) error = hash_of(r, &r->job->tensors[i], &mine[i]);
  if (!error) {
    error = ddp_group_all_gather(r->group, mine, all, n * (int64_t)sizeof *mine,
                                 "hashes of all parameters");
  }
  if (!error) {
    const char *name = "the state of the optimizer";
    for (int32_t i = n - 1; i >= 0; i--)
      if (all[rank * n + i] != all[i]) name = r->job->tensors[i].name;
    r->quiet = r->rank != 0;
    error = ddp_error_rank(DDP_PEER, rank,
                           "update %lld: rank %d no longer holds what rank 0 does: %s differs "
                           "(check_ranks). Every rank adds the same numbers in the same order, so "
                           "this is a fault of memory, of a processor, or of ddpc",
                           (long long)r->progress.update, rank, name);
  }
  free(mine);
  free(all);
  return error;
}

DdpError *run_compare_ranks(DdpRun *r) {
  if (r->world == 1) return NULL;
  uint64_t mine;
  DDP_TRY(hash_all(r, &mine));
  uint64_t *all = calloc((size_t)r->world, sizeof *all);
  if (!all) return ddp_error(DDP_MEMORY, "out of memory");
  DdpError *error = ddp_group_all_gather(r->group, &mine, all, (int64_t)sizeof mine,
                                         "the hash of the parameters");
  int other = -1;
  for (int i = r->world - 1; i > 0 && !error; i--)
    if (all[i] != all[0]) other = i;
  free(all);
  return error || other < 0 ? error : differs(r, other);
}
