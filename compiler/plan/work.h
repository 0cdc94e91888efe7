/* What a training step computes and keeps, by layer of the job. */
#ifndef PLAN_WORK_H
#define PLAN_WORK_H
#include "plan.h"

/* Operations of one micro-batch at its largest. */
typedef struct PlanWork {
  double forward, backward;
  double again;   /* computed again by gradient checkpointing */
  double passing; /* forward values that backward computes again by the way: cheaper than kept */
} PlanWork;

typedef struct PlanLayer {
  const char *name; /* of the innermost module with parameters: "net.h.3.attn" */
  PlanWork work;
  int64_t kept;            /* bytes of its results that stay for backward */
  int64_t kept_again;      /* bytes of its results that are made again */
  uint32_t kernels;        /* that compute its values last */
  VEC(const char *) fused; /* names of its loop nests, each once */
} PlanLayer;

typedef struct PlanSteps {
  VEC(PlanLayer) layers; /* in order of their first kernel */
  PlanWork work;         /* of all */
  int64_t kept, kept_again;
  int64_t block_before; /* activations without gradient checkpointing; 0: it changed nothing */
} PlanSteps;

PlanSteps plan_steps(const Plan *plan, Arena *a);
/* The tables of it (report_work.c). */
void plan_print_work(Text *out, const Plan *plan, Arena *a);
#endif
