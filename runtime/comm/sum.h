/* Sums of the same range of several ranks, written to all of them. */
#ifndef DDP_COMM_SUM_H
#define DDP_COMM_SUM_H
#include <stdint.h>

/* rows[0..n_rows): every row's elements [begin, end) become row 0 + row 1 + ... in that order. */
void ddp_sum_rows(float *const *rows, int n_rows, int64_t begin, int64_t end);
#endif
