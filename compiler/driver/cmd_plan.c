/* `ddpc plan`: what was decided, for people and as JSON; what the data add; the largest batch that fits. */
#include "max_batch.h"
#include "plan_json.h"
#include "scan.h"

static void print_max(Text *out, const MaxBatch *m) {
  const double mib = 1048576;
  if (!m->batch) {
    text_addf(
        out,
        "largest batch: none fits in %.1f MiB; a batch of 1 takes %.1f MiB of one rank, beside "
        "the data\n",
        (double)m->memory / mib, (double)m->bytes / mib);
    return;
  }
  text_addf(
      out,
      "largest batch: per_device_train_batch_size = %lld takes %lld of %lld bytes of one rank, "
      "beside the data",
      (long long)m->batch, (long long)m->bytes, (long long)m->memory);
  if (m->next_bytes > m->memory)
    text_addf(out, "; %lld would take %lld", (long long)m->batch + 1, (long long)m->next_bytes);
  text_add(out, "\n");
}

static json_t *max_json(const MaxBatch *m) {
  json_t *j = json_object();
  json_object_set_new(j, "per_device_train_batch_size", json_integer(m->batch));
  json_object_set_new(j, "rank", json_integer(m->bytes));
  json_object_set_new(j, "memory", json_integer(m->memory));
  return j;
}

int cmd_plan(Run *r) {
  int code;
  Plan *plan = run_plan(r, &code);
  if (!plan) return code;
  Scan scan = {0};
  bool wanted = run_switch(r, OPT_scan), scanned = wanted || scan_is_cheap(r->arena, plan->job);
  if (scanned && !scan_job(r->arena, plan->job, &scan)) {
    if (wanted) return WRONG_JOB;
    scanned = false;
  }
  MaxBatch most = {0};
  if (run_switch(r, OPT_max_batch)) {
    int64_t memory = plan->job->target.memory;
    most = max_batch_find(r, r->options.names.at[0], memory ? memory : machine_memory());
    if (most.batch < 0) return WRONG_JOB;
  }
  if (run_switch(r, OPT_json)) {
    json_t *j = plan_json(plan, r->arena);
    json_object_set_new(j, "data", scanned ? scan_json(r->arena, plan->job, &scan) : json_null());
    json_object_set_new(j, "max_batch", most.memory ? max_json(&most) : json_null());
    return run_write_json(NULL, j);
  }
  Text text = {0};
  plan_print(&text, plan);
  if (scanned) text_add(&text, "\n");
  if (scanned) scan_print(&text, r->arena, plan->job, &scan);
  if (most.memory) text_add(&text, "\n");
  if (most.memory) print_max(&text, &most);
  code = run_write(NULL, &text);
  text_free(&text);
  return code;
}
