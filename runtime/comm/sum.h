/* Sums of the same range of several ranks, written to all of them; and what becomes of a gradient when
   it travels in 16 bits. `wire` is float32, bfloat16 or float16. */
#ifndef DDP_COMM_SUM_H
#define DDP_COMM_SUM_H
#include "ddp/job.h"

/* rows[0..n_rows): every row's elements [begin, end) become row 0 + row 1 + ... in that order. With a
   16-bit wire they are numbers of that type already, and every addition is rounded to it. */
void ddp_sum_rows(float *const *rows, int n_rows, int64_t begin, int64_t end, DdpDType wire);

/* In place, what PyTorch's bf16_compress and fp16_compress hooks make of a rank's gradient: rounded to
   the type, divided by the number of ranks, rounded again. x is a rank's part of the sum, as it is here:
   divided already. float32: nothing happens. */
void ddp_sum_compress(float *x, int64_t n, DdpDType wire, int ranks);

/* Numbers of a 16-bit type there and back, exactly. */
void ddp_sum_pack(uint16_t *to, const float *from, size_t n, DdpDType wire);
void ddp_sum_unpack(float *to, const uint16_t *from, size_t n, DdpDType wire);

/* out = a + b of n numbers as they travel, for libraries that ask for a function. */
typedef void (*DdpSumInto)(void *out, const void *a, const void *b, size_t n);
DdpSumInto ddp_sum_into(DdpDType wire);
#endif
