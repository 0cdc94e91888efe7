/* Who speaks how much: log_level, log_level_replica, log_on_each_node, and DDP_LOG. In: settings and where
   this rank stands. Out: the lowest level of messages that it shows. */
#include "speak.h"
#include "log.h"
#include <stdlib.h>
#include <string.h>

/* What ends a run is critical; nothing hides it. */
static const struct {
  const char *word;
  DdpLogLevel level;
} levels[] = {{"detail", DDP_LOG_debug},    {"debug", DDP_LOG_debug}, {"info", DDP_LOG_info},
              {"warning", DDP_LOG_warning}, {"error", DDP_LOG_error}, {"critical", DDP_LOG_error}};

void run_speak(const DdpConfig *c, const DdpLaunch *launch) {
  const DdpSettings *s = &c->settings;
  bool main = s->log_on_each_node == 1 ? launch->local_rank == 0 : launch->rank == 0;
  DdpKey key = main ? DDP_KEY_log_level : DDP_KEY_log_level_replica;
  const char *word = main ? s->log_level : s->log_level_replica;
  const char *environment = getenv("DDP_LOG");
  bool asked = environment && environment[0];
  if (asked && strcmp(c->source[key], "default") == 0) return; /* DDP_LOG is for all ranks */
  for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
    if (strcmp(word, levels[i].word) == 0) ddp_log_set_level(levels[i].level);
  } /* passive: as it is */
}
