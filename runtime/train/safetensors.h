/* Files of tensors in the safetensors format, as the Python library writes and reads them. */
#ifndef DDP_TRAIN_SAFETENSORS_H
#define DDP_TRAIN_SAFETENSORS_H
#include "ddp/job.h"
#include "ddp/status.h"

typedef struct DdpSafeTensor {
  const char *name;
  DdpDType dtype;
  int32_t rank;
  const int64_t *shape;
  const void *data; /* row-major */
  int64_t bytes;
} DdpSafeTensor;

/* Atomically. Reorders `tensors` (larger elements first, then type and name). aliases: pairs of names
   (alias, tensor in the file), or (key, text), kept in the metadata; NULL-terminated or NULL. */
DdpError *ddp_safetensors_write(const char *path, DdpSafeTensor *tensors, int n,
                                const char *const *aliases);

typedef struct DdpSafeFile DdpSafeFile;
/* Reads and checks the header: sizes, no gap, no overlap, nothing beyond. The path is that of a file, of an
   index of files (`model.safetensors.index.json`), or of a folder that holds one of the two. */
DdpError *ddp_safetensors_open(DdpSafeFile **out, const char *path);
int ddp_safetensors_count(const DdpSafeFile *f);
const char *ddp_safetensors_name(const DdpSafeFile *f, int i);
/* Index of a name, or -1. */
int ddp_safetensors_find(const DdpSafeFile *f, const char *name);
/* Does tensor i become one of this type and shape? Other floats are converted to f32. */
bool ddp_safetensors_fits(const DdpSafeFile *f, int i, DdpDType dtype, int32_t rank,
                          const int64_t *shape);
/* Reads one tensor after comparing type and shape. */
DdpError *ddp_safetensors_read(DdpSafeFile *f, const char *name, DdpDType dtype, int32_t rank,
                               const int64_t *shape, void *into);
void ddp_safetensors_close(DdpSafeFile *f);
/* What the file says about tensor i. */
typedef struct DdpSafeEntry {
  const char *name, *dtype; /* "F32" */
  int32_t rank;
  const int64_t *shape;
} DdpSafeEntry;
DdpSafeEntry ddp_safetensors_entry(const DdpSafeFile *f, int i);
const char *ddp_safetensors_metadata(const DdpSafeFile *f, const char *key); /* NULL: not there */
const char *ddp_safetensors_dtype(DdpDType t);                               /* "F32" */

/* How the names of a file differ from those of the model. */
typedef struct DdpSafeNames {
  enum { DDP_NAMES_as_they_are, DDP_NAMES_below, DDP_NAMES_without } how;
  const char *prefix; /* of the file's names; of the model's. Not terminated */
  size_t length;
} DdpSafeNames;
/* names: the model's, below `path`. The result points into them. */
DdpSafeNames ddp_safetensors_names(const DdpSafeFile *f, const char *const *names, int count,
                                   const char *path);
bool ddp_safetensors_is(const DdpSafeNames *n, const char *model, const char *file);
int ddp_safetensors_find_as(const DdpSafeFile *f, const DdpSafeNames *n, const char *name);
/* Tensor i is no concern of the model: of another part of a whole model, or a constant. */
bool ddp_safetensors_beside(const DdpSafeFile *f, const DdpSafeNames *n, int i);
#endif
