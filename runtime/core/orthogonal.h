/* Orthogonal matrices from normal draws. */
#ifndef DDP_CORE_ORTHOGONAL_H
#define DDP_CORE_ORTHOGONAL_H
#include <stdint.h>

/* Puts in the place of a matrix the Q of its QR decomposition whose R has a positive diagonal (there is
   one), times gain; of its transpose where it has more columns than rows. room: rows * columns. */
void ddp_orthogonal(float *at, double *room, int64_t rows, int64_t columns, double gain);

#endif
