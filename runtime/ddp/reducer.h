/* Buckets of the gradient arena, all-reduced in place as backward completes them. Bucket boundaries
   are found at start by walking the ready order (PyTorch's rule: add, then close at the limit). */
#ifndef DDP_DDP_REDUCER_H
#define DDP_DDP_REDUCER_H
#include "group.h"

typedef struct DdpReducer DdpReducer;

typedef struct DdpBucketInfo {
  int32_t first, count; /* range of job->ready */
  int64_t begin, end;   /* elements of the gradient arena */
} DdpBucketInfo;

typedef struct DdpReducerOptions {
  double bucket_cap_mb; /* <= 0: unset (1 MiB, then 25 MiB) */
  DdpDType wire;        /* in which gradients travel: float32, bfloat16, float16 */
} DdpReducerOptions;

/* grads lies in memory of ddp_group_alloc. */
DdpError *ddp_reducer_open(DdpReducer **out, const DdpJob *job, DdpGroup *group, float *grads,
                           const DdpReducerOptions *options);
int ddp_reducer_buckets(const DdpReducer *r, const DdpBucketInfo **out);
/* From now on a loss that is not finite on one rank makes a bucket not finite on all of them: the first one that
   is complete behind the loss, whose first element is marked. Returns its place in the arena, NULL: there is no such
   bucket. */
const float *ddp_reducer_tell_loss(DdpReducer *r, bool on);
/* Whether the model itself has summed over ranks (SyncBatchNorm): then every micro-batch is collective. */
bool ddp_reducer_sums(const DdpReducer *r);
/* Before each micro-batch. synchronise: this is the last one of the window. */
void ddp_reducer_begin(DdpReducer *r, bool synchronise, int64_t update);
typedef DdpError *DdpBucketDone(void *self, const DdpBucketInfo *bucket);
/* After backward of a synchronising micro-batch: waits for the buckets in their order and calls `done`
   (NULL: nothing) for each as soon as its sum is there, while later ones travel; also returns the
   first error that a ddp_grad_ready met. exposed_seconds += time spent waiting. */
DdpError *ddp_reducer_finish(DdpReducer *r, DdpBucketDone *done, void *self,
                             double *exposed_seconds);
/* ---- where the group reduces in the memory of devices: backward only enqueues, and so does the sum of each bucket.
   What is enqueued in the place of `pass`: with the sums it also makes what comes after it wait for them. */
typedef void DdpPass(DdpStep *step);
DdpPass *ddp_reducer_pass_of(const DdpReducer *r, DdpPass *pass);
/* For a pass that goes on behind backward, in which more is enqueued on the stream of computation: backward is over;
   bucket by bucket what comes next waits for its sum (`marks` must be on); and for all sums. */
void ddp_reducer_marks(DdpReducer *r, bool on);
DdpError *ddp_reducer_over(DdpReducer *r);
DdpError *ddp_reducer_await(DdpReducer *r, int bucket);
DdpError *ddp_reducer_join(DdpReducer *r);
/* After each pass, whether it ran or was replayed. */
void ddp_reducer_passed(DdpReducer *r);
/* After ddp_reducer_finish, which does not wait then: until all that is enqueued on the stream of computation has
   happened. exposed_seconds += what of it was waiting for gradients alone. */
DdpError *ddp_reducer_arrive(DdpReducer *r, double *exposed_seconds);
void ddp_reducer_close(DdpReducer *r);
#endif
