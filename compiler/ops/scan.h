/* OP_scan: a loop that runs while the program runs. Its body is a graph over OP_arg.

   Inputs: first `over` tensors that are walked along their first dimension (all of length `length`),
   then the `carried` first values of what is carried from turn to turn, then what every turn reads as
   it is. Argument k of the body is one part of input k, what is carried, or input k itself. Outputs of
   the body: OUT_carried j, the argument over + j of the next turn; OUT_yield j, one part of a result.
   Results: what is carried after the last turn, then what was yielded, stacked along a new first
   dimension. Result 0 is the value itself, result k its OP_part k. With `reverse` the turns run from
   the last part to the first; parts of results lie where the parts that they come from lay. OP_turn in
   the body is the number of the part. Draws in the body differ from turn to turn by that number. */
#ifndef OPS_SCAN_H
#define OPS_SCAN_H
#include "ir.h"

typedef struct Scan {
  int inputs, over, carried, yields;
  Dim length;
  bool reverse;
  const Graph *body;
} Scan;

Scan scan_of(const Value *v);
static inline int scan_results(const Scan *s) {
  return s->carried + s->yields;
}
/* The value of the body that result k (or what it is made of) comes from. */
Val scan_output(const Scan *s, int result);
Type scan_result_type(const Scan *s, int result);
/* The values of arguments in a body, by number; NO_VAL for those that it does not read. */
void scan_args(const Graph *body, int n, Val *arg);
/* Attributes of a scan, into room for IR_MAX_ATTRS. */
void scan_attrs(int over, int carried, Dim length, bool reverse, const Graph *body, Attr *out);
/* Adds OP_arg k of this type to a body. */
Val scan_arg(Graph *body, int k, Type type, Span at, Scope scope);
/* One part of a tensor that is walked; a stack of parts. */
Type scan_part_type(Type t);
Type scan_stack_type(Type part, Dim length);
/* Result k of the scan v: v itself or an OP_part, which is added. */
Val scan_result(Graph *g, Val v, int k);
#endif
