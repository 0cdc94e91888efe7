/* Inside of the reducer, shared by its files. */
#ifndef DDP_DDP_REDUCER_STATE_H
#define DDP_DDP_REDUCER_STATE_H
#include "group_state.h"
#include "reducer.h"

typedef struct Bucket {
  char what[48];   /* for errors */
  int32_t pending; /* gradients still to come */
  DdpGroupWork *work;
} Bucket;

/* A collective of a pass on a device, which a replay makes again. */
typedef struct DdpPassEntry {
  const char *what;
  int64_t bytes;
  int bucket; /* -1: none */
} DdpPassEntry;
typedef struct DdpPassScript { /* of the last pass of its kind that was enqueued by hand */
  DdpPassEntry *entry;
  int n, room;
} DdpPassScript;

typedef struct DdpReducerDevice {
  bool on;
  void *room;              /* [grads] in a 16-bit type, where they travel in one */
  uint32_t *told;          /* [n + 1] host: 1 once a bucket has come, and once backward is over */
  uint32_t *one;           /* on the device: what is copied there */
  uint64_t *sequence;      /* [n] in the flight record */
  DdpPassScript script[2]; /* of passes that only accumulate, that sum gradients */
  bool by_hand;            /* this pass is enqueued by hand */
  bool marks;              /* of the buckets that have come, on the stream of collectives */
} DdpReducerDevice;

struct DdpReducer {
  const DdpJob *job;
  DdpGroup *group;
  float *grads;
  DdpDType wire;
  int tells; /* bucket that tells of a loss that is not finite; -1: none */
  DdpBucketInfo *info;
  Bucket *buckets;
  int n, started;
  int32_t *bucket_of;   /* [n_tensors], -1: not trained */
  uint32_t *seen, turn; /* [n_tensors]: turn in which it was last ready */
  bool active;          /* this micro-batch synchronises */
  double *sums;         /* scratch of ddp_all_sum, as large as the largest so far */
  int64_t sums_n;
  DdpReducerDevice device;
  DdpError *error;
};

/* ---- reducer_device.c: where the group reduces in the memory of devices */
DdpError *ddp_reducer_device_open(DdpReducer *r);
void ddp_reducer_device_close(DdpReducer *r);
/* Enqueues the sum of a bucket, or of a value in the model. */
DdpError *ddp_reducer_device_bucket(DdpReducer *r, int bucket, const DdpStep *step);
DdpError *ddp_reducer_device_sum(DdpReducer *r, float *out, const float *in, int64_t n);
#endif
