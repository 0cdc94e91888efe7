/* Environment variables by row of env.def. */
#include "env.h"
#include <stdlib.h>

static const struct {
  const char *name, *default_, *doc;
} rows[] = {
#define ENV(name, default_, doc) {#name, default_, doc},
#include "env.def"
};

const char *ddp_env(DdpEnv which) {
  const char *value = getenv(rows[which].name);
  return value && value[0] ? value : rows[which].default_;
}

void ddp_env_help(FILE *out) {
  fprintf(out, "Environment variables (an empty one counts as unset):\n\n");
  for (int i = 0; i < DDP_ENV_COUNT; i++) {
    fprintf(out, "  %-18s  %s", rows[i].name, rows[i].doc);
    if (rows[i].default_[0]) fprintf(out, " (default: %s)", rows[i].default_);
    fprintf(out, "\n");
  }
  fprintf(out, "\nThe launchers' variables (RANK, WORLD_SIZE, OMPI_COMM_WORLD_RANK ...) stand in "
               "docs/launch.md.\n");
}
