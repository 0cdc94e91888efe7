/* How flags are spelt on command lines: --name VALUE and --name=VALUE, with - and _ alike. */
#ifndef DDP_CORE_FLAG_H
#define DDP_CORE_FLAG_H
#include <stdbool.h>

/* Is the argument the flag of that name (without the dashes)? *value: what stands behind "=", or NULL. */
bool ddp_flag_spells(const char *argument, const char *name, const char **value);
#endif
