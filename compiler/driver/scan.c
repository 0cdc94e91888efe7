/* In: the dataset of a checked job. Out: rows of every split, counted by the runtime's readers, which
   check types and ranges of all values on the way; the updates that follow, by the runtime's own rule. */
#include "scan.h"
#include "counts.h"
#include "dataset.h"
#include "write.h"
#include <stdlib.h>
#include <sys/stat.h>

static const int worlds[] = {1, 2, 4, 8, 16};
enum { WORLDS = sizeof worlds / sizeof *worlds };

static const char *const *texts(Arena *a, const char *const *from, uint32_t n) {
  const char **to = ARENA_ARRAY(a, const char *, n + 1);
  for (uint32_t i = 0; i < n; i++) to[i] = from[i];
  return n ? to : NULL;
}

static DdpField field_of(Arena *a, const Field *f) {
  DdpField to = {.name = f->name,
                 .column = f->column,
                 .dtype = (DdpDType)f->type.dtype, /* both from dtype.def */
                 .rank = f->type.rank,
                 .elements = type_elements_at(f->type, 1),
                 .has_range = f->has_range,
                 .low = f->low,
                 .high = f->high,
                 .categories = texts(a, f->categories.at, f->categories.len),
                 .text = f->text,
                 .used = f->used,
                 .place = run_place(a, f->at)};
  for (int i = 0; i < f->type.rank; i++) to.shape[i] = f->type.dim[i].fixed;
  return to;
}

static DdpSource source_of(Arena *a, const DataSource *s) {
  DdpSource to = {.kind = (DdpSourceKind)s->kind, /* both from source.def */
                  .paths = texts(a, s->paths.at, s->paths.len),
                  .fields = texts(a, s->fields.at, s->fields.len),
                  .header = s->header,
                  .skip = s->skip,
                  .missing = s->missing,
                  .width = s->width,
                  .stride = s->stride,
                  .count = s->count,
                  .seed = s->seed,
                  .start_kind = (DdpBound)s->start_kind,
                  .stop_kind = (DdpBound)s->stop_kind,
                  .start = s->start,
                  .stop = s->stop,
                  .n_children = (int32_t)s->children.len,
                  .place = run_place(a, s->at)};
  for (uint32_t i = 0; i < s->children.len; i++) to.children[i] = s->children.at[i];
  return to;
}

static DdpJob *job_of(Arena *a, const Job *job) {
  const Dataset *d = &job->dataset;
  DdpField *fields = ARENA_ARRAY(a, DdpField, d->fields.len + 1);
  DdpSource *sources = ARENA_ARRAY(a, DdpSource, d->sources.len + 1);
  DdpSplit *splits = ARENA_ARRAY(a, DdpSplit, d->splits.len + 1);
  for (uint32_t i = 0; i < d->fields.len; i++) fields[i] = field_of(a, &d->fields.at[i]);
  for (uint32_t i = 0; i < d->sources.len; i++) sources[i] = source_of(a, &d->sources.at[i]);
  for (uint32_t i = 0; i < d->splits.len; i++)
    splits[i] = (DdpSplit){d->splits.at[i].name, d->splits.at[i].source};
  DdpJob *to = ARENA_NEW(a, DdpJob);
  *to = (DdpJob){.abi = DDP_JOB_ABI,
                 .name = job->path,
                 .directory = job->directory,
                 .fields = fields,
                 .n_fields = (int32_t)d->fields.len,
                 .sources = sources,
                 .n_sources = (int32_t)d->sources.len,
                 .splits = splits,
                 .n_splits = (int32_t)d->splits.len,
                 .eval_split = job->eval_split,
                 .train_batch = job->train_batch,
                 .eval_batch = job->eval_batch};
  return to;
}

static const char *data_root(const Job *job) {
  const char *root = job_setting(job, "data_root");
  return strcmp(root, "none") != 0 && *root ? root : NULL;
}

bool scan_job(Arena *a, const Job *job, Scan *out) {
  *out = (Scan){0};
  DdpDataset *data = NULL;
  DdpError *error = ddp_dataset_load(&data, job_of(a, job), data_root(job));
  if (error) {
    fprintf(stderr, "ddpc: %s\n", error->message);
    ddp_error_free(error);
    ddp_dataset_free(data);
    return false;
  }
  for (uint32_t i = 0; i < job->dataset.splits.len; i++) {
    const char *name = job->dataset.splits.at[i].name;
    vec_push(a, &out->splits, (ScanSplit){name, ddp_dataset_rows(data, name)});
  }
  out->dropped = ddp_dataset_dropped(data);
  ddp_dataset_free(data);
  return true;
}

bool scan_is_cheap(Arena *a, const Job *job) {
  enum { MOST_BYTES = 1 << 18 };
  int64_t bytes = 0;
  const char *root = data_root(job) ? data_root(job) : job->directory;
  for (uint32_t i = 0; i < job->dataset.sources.len; i++) {
    const DataSource *s = &job->dataset.sources.at[i];
    for (uint32_t k = 0; k < s->paths.len; k++) {
      const char *path = s->paths.at[k];
      struct stat st;
      size_t n = strlen(root);
      if (path[0] != '/' && n)
        path = arena_printf(a, "%s%s%s", root, root[n - 1] == '/' ? "" : "/", path);
      if (stat(path, &st) || !S_ISREG(st.st_mode)) return false;
      bytes += (int64_t)st.st_size;
    }
  }
  return bytes > 0 && bytes <= MOST_BYTES;
}

static double number(const Job *job, const char *key) {
  return strtod(job_setting(job, key), NULL);
}

ScanSteps scan_steps(Arena *a, const Job *job, const Scan *scan, int world) {
  int64_t samples = 0;
  for (uint32_t i = 0; i < scan->splits.len; i++)
    if (!strcmp(scan->splits.at[i].name, "train")) samples = scan->splits.at[i].rows;
  Text at = {0};
  if (job->single_at.file) write_place(&at, job->single_at);
  const char *single = at.at ? arena_strdup(a, at.at) : NULL;
  text_free(&at);
  DdpShards shards = {.samples = samples,
                      .world = world,
                      .batch = job->train_batch,
                      .drop_last = job_setting_is(job, "dataloader_drop_last", "true"),
                      .batches = job_setting_is(job, "sharding", "accelerate")};
  DdpCountsInput in = {.shards = shards,
                       .accumulation = (int64_t)number(job, "gradient_accumulation_steps"),
                       .epochs = number(job, "num_train_epochs"),
                       .max_steps = (int64_t)number(job, "max_steps"),
                       .warmup = number(job, "warmup_steps"),
                       .single_at = single};
  DdpCounts counts = {0};
  DdpError *error = ddp_counts_make(&counts, &in);
  ScanSteps s = {world, counts.per_rank, counts.updates, counts.total, NULL};
  if (error) s.why = arena_strdup(a, error->message);
  ddp_error_free(error);
  return s;
}

void scan_print(Text *out, Arena *a, const Job *job, const Scan *scan) {
  text_add(out, "data");
  for (uint32_t i = 0; i < scan->splits.len; i++)
    text_addf(out, "%s %s %lld rows", i ? "," : ":", scan->splits.at[i].name,
              (long long)scan->splits.at[i].rows);
  if (scan->dropped)
    text_addf(out, "; %lld rows with missing values are left out", (long long)scan->dropped);
  text_addf(out, "\n  %5s  %17s  %16s  %12s\n", "ranks", "samples of a rank", "updates an epoch",
            "of the run");
  for (int i = 0; i < WORLDS; i++) {
    ScanSteps s = scan_steps(a, job, scan, worlds[i]);
    if (s.why)
      text_addf(out, "  %5d  %s\n", s.world, s.why);
    else
      text_addf(out, "  %5d  %17lld  %16lld  %12lld\n", s.world, (long long)s.samples,
                (long long)s.updates, (long long)s.total);
  }
}

json_t *scan_json(Arena *a, const Job *job, const Scan *scan) {
  json_t *j = json_object(), *splits = json_object(), *steps = json_array();
  for (uint32_t i = 0; i < scan->splits.len; i++)
    json_object_set_new(splits, scan->splits.at[i].name, json_integer(scan->splits.at[i].rows));
  json_object_set_new(j, "rows", splits);
  json_object_set_new(j, "rows_left_out", json_integer(scan->dropped));
  for (int i = 0; i < WORLDS; i++) {
    ScanSteps s = scan_steps(a, job, scan, worlds[i]);
    json_t *one = json_object();
    json_object_set_new(one, "ranks", json_integer(s.world));
    json_object_set_new(one, "samples_of_a_rank", s.why ? json_null() : json_integer(s.samples));
    json_object_set_new(one, "updates_an_epoch", json_integer(s.updates));
    json_object_set_new(one, "updates", json_integer(s.total));
    json_object_set_new(one, "why", run_json_text(s.why));
    json_array_append_new(steps, one);
  }
  json_object_set_new(j, "steps", steps);
  return j;
}
