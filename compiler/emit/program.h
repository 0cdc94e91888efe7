/* Scheduled graphs as functions: lists of calls in the order of the plan. */
#ifndef EMIT_PROGRAM_H
#define EMIT_PROGRAM_H
#include "kernel.h"

typedef enum Role {
  ROLE_train,
  ROLE_eval,
  ROLE_predict,
  ROLE_counts,
  ROLE_optimizer,
  ROLE_finish,
  ROLE_schedule
} Role;

/* The function, from its first line to the closing brace. number: of the optimizer. */
void program_write(Emit *e, const Program *p, Role role, int32_t number, Text *out);
/* The step of optimizer `number`: its hand-written kernel where there is one that fits, else the
   graph. */
void optimizer_write(Emit *e, int32_t number, Text *out);
const char *optimizer_function(Emit *e, int32_t number); /* "adamw_step" */
/* Where a leaf lies: elements from the start of its arena (buffers: bytes). */
const Segment *program_segment(const Plan *plan, int32_t leaf);
int32_t leaf_home(const Plan *plan, int32_t leaf); /* the leaf that it is tied to, or itself */
/* Where a kernel comes from: "net.fc1, job.ddp:31". */
const char *program_origin(Emit *e, const Program *p, const Kernel *k);
#endif
