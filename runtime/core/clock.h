/* Time that only goes forward, in seconds; deadlines are values of it. */
#ifndef DDP_CORE_CLOCK_H
#define DDP_CORE_CLOCK_H

double ddp_clock(void);
/* In a loop that looks at the clock at least twice a second: seconds in which this process did not run
   (Ctrl-Z, a machine that slept) since *last, which becomes now; 0 when there were none. What others
   did not do meanwhile is not their fault: deadlines move by as much. */
double ddp_clock_paused(double *last);
#endif
