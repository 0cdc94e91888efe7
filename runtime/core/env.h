/* The environment variables that programs read: the rows of env.def, nothing else. */
#ifndef DDP_CORE_ENV_H
#define DDP_CORE_ENV_H
#include <stdio.h>

typedef enum DdpEnv {
#define ENV(name, default_, doc) DDP_ENV_##name,
#include "env.def"
  DDP_ENV_COUNT
} DdpEnv;

/* Value, or the default of the table when unset or empty. */
const char *ddp_env(DdpEnv which);
/* --help-env */
void ddp_env_help(FILE *out);
#endif
