/* Messages for people, on stderr, one write per message so that ranks do not mix inside a line.
   With more than one rank each line starts with "[rank N] ". DDP_LOG sets the lowest level shown. */
#ifndef DDP_CORE_LOG_H
#define DDP_CORE_LOG_H
#include <stdbool.h>

typedef enum DdpLogLevel {
  DDP_LOG_debug,
  DDP_LOG_info,
  DDP_LOG_warning,
  DDP_LOG_error,
  DDP_LOG_end /* why a process ends that did nothing wrong: always shown */
} DdpLogLevel;

/* Who is speaking; before the first call lines have no prefix. */
void ddp_log_rank(int rank, int world);
DdpLogLevel ddp_log_level(void);
/* Instead of what DDP_LOG says. */
void ddp_log_set_level(DdpLogLevel lowest);
void ddp_log(DdpLogLevel level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Waits until somebody takes more on that descriptor: false when nobody does and the run has been asked to
   end; what was to be written is then dropped, so that a full pipe (mpirun stops reading when it ends a
   job) does not keep a run from saving. */
bool ddp_log_ready(int fd);
void ddp_log_hurry(void); /* the run has been asked to end */
/* A progress line that the next message must first erase; "" when there is none. Terminals only. */
void ddp_log_progress(const char *line);
#endif
