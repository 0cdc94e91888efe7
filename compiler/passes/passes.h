/* Passes: one file and one verb each; the list in order is driver/pipeline.c. Each leaves graphs that
   ir_verify accepts. */
#ifndef PASSES_PASSES_H
#define PASSES_PASSES_H
#include "job.h"

/* Batch means (language.md, "Means over the batch"). train: quotients of batch sums that enter the
   loss linearly get host denominators (`count k`), everything else is weighted by `share`; makes
   OUT_loss and job->counts. eval: cuts metrics at their batch sums into OUT_sum accumulators and
   job->finish. Reports E0901, E0903, E0904. */
void pass_means(Job *job);
/* bf16, fp16 and their full_eval: casts in the training and evaluation graphs. */
void pass_cast(Job *job);
Graph *cast_graph(Graph *g, DType half, bool all); /* one graph; all: weights and fields too */
/* Reverse mode on job->train: adds OUT_grad for every trained parameter. Reports E0613, E0616. */
void pass_grad(Job *job);
/* Denominators that are a constant times B: count_per_sample, no longer an output of job->counts. */
void pass_counts(Job *job);
/* Steps of optimizers on GPUs: libraries read gradients that loops have clipped. */
void pass_gradients(Job *job);
/* Gradient checkpointing of job->train; once, after the rest. */
void pass_recompute(Job *job);
/* The rest are graph -> graph. */
Graph *pass_fold(Graph *g, const Job *job); /* constants, identities, declared ranges of fields */
Graph *pass_cse(Graph *g);
Graph *pass_dce(Graph *g);
Graph *pass_decompose(Graph *g); /* composite ops -> primitives after grad */
/* convolutional networks in blocks of channels, as the target of the job has them */
Graph *pass_layout(Graph *g, const Job *job);
/* 16-bit values: sums and gradients in f32, and what the target's kernels read in f32 alone */
Graph *pass_widen(Graph *g, const Job *job);
#endif
