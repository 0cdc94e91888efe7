/* `ddpc explain`. */
#ifndef DRIVER_EXPLAIN_H
#define DRIVER_EXPLAIN_H
#include <stdbool.h>

/* Prints what a diagnostic's code or a setting means; false after a message on stderr. */
bool explain(const char *what);
#endif
