/* `ddpc plan --json`: all that plan_print says, as one object. In: a plan. Out: JSON. */
#include "plan_json.h"
#include "op.h"
#include "work.h"

static void put(json_t *j, const char *key, json_t *value) {
  json_object_set_new(j, key, value);
}
static void put_int(json_t *j, const char *key, int64_t n) {
  put(j, key, json_integer(n));
}
static void put_text(json_t *j, const char *key, const char *s) {
  put(j, key, run_json_text(s));
}

static json_t *shape(Type t) {
  json_t *j = json_array();
  for (int i = 0; i < t.rank; i++) json_array_append_new(j, json_integer(dim_at(t.dim[i], 1)));
  return j;
}

static json_t *leaves(const Plan *plan) {
  const Job *job = plan->job;
  json_t *list = json_array();
  for (uint32_t l = 0; l < job->leaves.len; l++) {
    const Leaf *leaf = &job->leaves.at[l];
    json_t *j = json_object();
    put_text(j, "name", leaf->name);
    put_text(j, "kind", leaf->buffer ? "buffer" : "parameter");
    put_text(j, "dtype", dtype_name(leaf->type.dtype));
    put(j, "shape", shape(leaf->type));
    put_int(j, "elements", type_elements_at(leaf->type, 1));
    put(j, "trained", json_boolean(leaf->trained && leaf->tied_to < 0));
    put_text(j, "group", plan_group_name(job, leaf));
    put(j, "tied_to",
        leaf->tied_to < 0 ? json_null() : run_json_text(job->leaves.at[leaf->tied_to].name));
    int64_t bucket = plan_bucket_of(plan, (int32_t)l);
    put(j, "bucket", bucket ? json_integer(bucket) : json_null());
    const Segment *s = plan_segment(plan, (int32_t)l);
    put(j, "offset", s ? json_integer(s->offset) : json_null());
    put(j, "place", run_json_place(leaf->at));
    json_array_append_new(list, j);
  }
  return list;
}

static json_t *groups(const Job *job) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < job->groups.len; i++) {
    const Group *g = &job->groups.at[i];
    json_t *j = json_object();
    put_text(j, "name", g->name);
    /* NAN: the key of `train` */
    put(j, "learning_rate",
        g->learning_rate == g->learning_rate ? json_real(g->learning_rate) : json_null());
    put(j, "weight_decay",
        g->weight_decay == g->weight_decay ? json_real(g->weight_decay) : json_null());
    put_text(j, "optimizer", job->optimizers.at[g->optimizer].name);
    json_array_append_new(list, j);
  }
  return list;
}

static void put_chunk(json_t *j, const char *key, const Program *p) {
  const PlanChunk *c = &p->chunk;
  if (!c->count) return;
  json_t *one = json_object();
  put_int(one, "samples", c->samples);
  put_int(one, "first_kernel", (int64_t)c->first + 1);
  put_int(one, "kernels", c->count);
  put_int(one, "bytes_whole", c->whole_bytes);
  put_int(one, "bytes", c->bytes);
  put(j, key, one);
}

static json_t *gpu_memory(const Plan *plan) {
  PlanGpu g = plan_gpu(plan);
  json_t *j = json_object();
  put_int(j, "batches", g.batches);
  put_int(j, "optimizer", g.optimizer);
  put_int(j, "sums", g.sums);
  put_int(j, "scratch", g.scratch);
  put_int(j, "workspace", g.workspace);
  put_int(j, "allowance", g.beside);
  put_int(j, "pinned", g.pinned);
  return j;
}

static json_t *memory(const Plan *plan, Arena *a) {
  json_t *j = json_object(), *arenas = json_array();
  for (uint32_t i = 0; i < plan->arenas.len; i++) {
    const PlanArena *x = &plan->arenas.at[i];
    json_t *one = json_object();
    put_text(one, "what", plan_arena_name(plan, x, a));
    put_text(one, "dtype", dtype_name(x->dtype));
    put_int(one, "elements", x->elements);
    put_int(one, "bytes", x->elements * dtype_bytes(x->dtype));
    json_array_append_new(arenas, one);
  }
  put(j, "arenas", arenas);
  put_int(j, "train_batch", plan->train.batch_max);
  put_int(j, "train_activations", plan->train.block_bytes);
  put_int(j, "train_alive", plan->train.alive_bytes);
  if (plan->eval.g) {
    put_int(j, "eval_batch", plan->eval.batch_max);
    put_int(j, "eval_activations", plan->eval.block_bytes);
  }
  put_chunk(j, "train_chunks", &plan->train);
  put_chunk(j, "eval_chunks", &plan->eval);
  if (plan_average_bytes(plan)) put_int(j, "average", plan_average_bytes(plan));
  if (plan_kept_bytes(plan)) put_int(j, "kept_buffers", plan_kept_bytes(plan));
  put_int(j, "samples", plan_sample_bytes(plan));
  if (plan_on_gpu(plan)) put(j, "gpu", gpu_memory(plan));
  put_int(j, "rank", plan_rank_bytes(plan));
  if (plan->job->target.memory) put_int(j, "target", plan->job->target.memory);
  return j;
}

static json_t *kernels(const Plan *plan, const Program *p, Arena *a) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < p->kernels.len; i++) {
    const Kernel *k = &p->kernels.at[i];
    json_t *j = json_object(), *ready = json_array();
    put_text(j, "name", k->name);
    put_text(j, "kind", k->nest ? "nest" : "call");
    put_text(j, "computes", plan_kernel_text(p, k, a));
    if (k->loop) put(j, "turn", kernels(plan, &k->loop->body, a));
    put_int(j, "flops", plan_call_flops(p, k));
    for (uint32_t n = 0; n < k->grads_ready.len; n++)
      json_array_append_new(ready, run_json_text(plan->job->leaves.at[k->grads_ready.at[n]].name));
    put(j, "completes", ready);
    put(j, "place", run_json_place(k->at));
    json_array_append_new(list, j);
  }
  return list;
}

static json_t *buckets(const Plan *plan) {
  json_t *list = json_array();
  for (uint32_t b = 0; b < plan->buckets.len; b++) {
    const Bucket *k = &plan->buckets.at[b];
    json_t *j = json_object(), *names = json_array();
    for (int32_t i = k->first; i < k->first + k->count; i++)
      json_array_append_new(names, run_json_text(plan->job->leaves.at[plan->ready.at[i]].name));
    put(j, "parameters", names);
    put_int(j, "elements", k->end - k->begin);
    put_int(j, "bytes", (k->end - k->begin) * dtype_bytes(DT_f32));
    put_int(j, "starts_after", k->ready_after + 1); /* numbers of kernels count from 1 */
    json_array_append_new(list, j);
  }
  return list;
}

static void put_work(json_t *j, const PlanWork *w) {
  put(j, "forward_flops", json_real(w->forward));
  put(j, "backward_flops", json_real(w->backward));
  put(j, "again_flops", json_real(w->again));
  put(j, "passing_flops", json_real(w->passing));
}

static json_t *work(const Plan *plan, Arena *a) {
  json_t *j = json_object(), *layers = json_array();
  PlanSteps s = plan_steps(plan, a);
  put_work(j, &s.work);
  put_int(j, "kept", s.kept);
  put_int(j, "kept_again", s.kept_again);
  put(j, "activations_without_checkpointing",
      s.block_before ? json_integer(s.block_before) : json_null());
  for (uint32_t i = 0; i < s.layers.len; i++) {
    const PlanLayer *l = &s.layers.at[i];
    json_t *one = json_object(), *fused = json_array();
    put_text(one, "name", l->name);
    put_work(one, &l->work);
    put_int(one, "kept", l->kept);
    put_int(one, "kept_again", l->kept_again);
    put_int(one, "kernels", l->kernels);
    for (uint32_t k = 0; k < l->fused.len; k++)
      json_array_append_new(fused, run_json_text(l->fused.at[k]));
    put(one, "fused", fused);
    json_array_append_new(layers, one);
  }
  put(j, "layers", layers);
  return j;
}

json_t *plan_json(const Plan *plan, Arena *a) {
  const Job *job = plan->job;
  json_t *j = json_object();
  put_text(j, "job", job->path);
  put_text(j, "spec_hash", arena_printf(a, "%016llx", (unsigned long long)job->spec_hash));
  put_text(j, "plan_hash", arena_printf(a, "%016llx", (unsigned long long)plan->hash));
  int64_t all = 0, trained = 0;
  for (uint32_t l = 0; l < job->leaves.len; l++) {
    const Leaf *leaf = &job->leaves.at[l];
    if (leaf->buffer || leaf->tied_to >= 0) continue;
    all += type_elements_at(leaf->type, 1);
    if (leaf->trained) trained += type_elements_at(leaf->type, 1);
  }
  put_int(j, "parameters", all);
  put_int(j, "trained", trained);
  put(j, "leaves", leaves(plan));
  put(j, "groups", groups(job));
  put(j, "memory", memory(plan, a));
  put(j, "work", work(plan, a));
  put(j, "train_kernels", kernels(plan, &plan->train, a));
  put(j, "eval_kernels", plan->eval.g ? kernels(plan, &plan->eval, a) : json_null());
  put(j, "buckets", buckets(plan));
  const char *late = plan_steps_late(plan); /* the key that needs all gradients first */
  put(j, "steps_after_all", late ? json_string(late) : json_null());
  return j;
}
