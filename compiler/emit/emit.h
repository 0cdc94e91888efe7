/* Plan -> the text of a program. Deterministic: same plan, same bytes. */
#ifndef EMIT_EMIT_H
#define EMIT_EMIT_H
#include "plan.h"

struct Emit;
struct KernelCalls;

/* What differs between targets, as a value: names of types and functions, qualifiers, loop and
   launch syntax. Common code never asks which target it is. */
typedef struct Target {
  const char *name;             /* "cpu" */
  const char *file_ext;         /* "c" */
  const char *kernel_qualifier; /* "static" */
  const char *helper_qualifier; /* of scalar functions: "static inline" */
  const char *restrict_word;
  const char *kernels;       /* folder of the runtime's kernels: "cpu" */
  const char *function_head; /* of functions that the job's table names: "static" */
  const char *calls_head;    /* of those among them that are a list of calls */
  const char *chunk_head;    /* of such lists that others of them call */
  /* C function for F(name) of the op table at a dtype: exp, f32 -> "ddp_expf" */
  const char *(*function)(const char *name, DType dtype);
  const char *(*storage_type)(DType dtype), *(*compute_type)(DType dtype);
  const char *(*load)(DType dtype), *(*store)(DType dtype); /* conversions of 16-bit types, or "" */
  const char *(*round)(DType dtype); /* 16-bit types: a float as memory would hold it */
  const char *draw_type;             /* of a parameter: random numbers of one site */
  /* what makes one in a step, for the sample and the update or (data) for the row and the epoch; and the
     function that makes that of a turn of a loop from it */
  const char *(*draw)(Arena *a, int64_t site, bool data);
  const char *draw_turn;
  bool simd;              /* loops carry pragmas that make vectors of them */
  bool scalars_in_memory; /* kernels read what changes from step to step in the device's memory */
  /* Devices: what runs on the host, in a text of its own. NULL: there is one text for all. */
  const struct Target *host;
  bool enqueues;            /* calls take the stream first, and nothing is done when they return */
  bool casts;               /* void * converts to other pointers only where it is said */
  const char *copy, *clear; /* memcpy, memset to 0 */
  const struct CallRow *calls;           /* library ops: call.h */
  const struct EpilogueCalls *epilogues; /* NULL: products have none */
  /* Appends what a nest becomes: kernel.h */
  void (*nest)(struct Emit *e, const Program *p, const Kernel *k, struct KernelCalls *calls);
} Target;
extern const Target target_cpu, target_cuda;

typedef struct EmitOptions {
  const Target *target;
  const char *compiler_version;
  const char *march; /* "native" or what --target says: "x86-64-v3", "sm_80,sm_90" */
} EmitOptions;

/* The whole train.c; for devices the host's part of it, and in `device` (else it may be NULL) the text
   of train.cu. */
void emit_program(Text *out, Text *device, const Plan *plan, const EmitOptions *options);
/* How devices run the nests of the plan, a line for each piece (launch.h): "relu: flat, 4096 elements by
   4096 threads in blocks of 256". */
void launch_print(Text *out, const Plan *plan);
/* What a program for GPUs takes beside what the plan says: found by writing its functions. */
PlanDevice emit_needs(const Plan *plan);
#endif
