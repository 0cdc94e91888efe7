/* Time that only goes forward, in seconds; deadlines are values of it. */
#ifndef DDP_CORE_CLOCK_H
#define DDP_CORE_CLOCK_H

double ddp_clock(void);
#endif
