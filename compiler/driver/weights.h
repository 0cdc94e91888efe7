/* Files that `load` names, against the model: E0808 to E0811. A file that is not there is read, and
   asked for, when the program starts. */
#ifndef DRIVER_WEIGHTS_H
#define DRIVER_WEIGHTS_H
#include "job.h"

/* False after a report. */
bool weights_check(Arena *arena, const Job *job);
#endif
