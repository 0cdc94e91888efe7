/* What a run has told so far, and trainer_state.json in the schema of transformers' TrainerState: the file
   of a checkpoint from which tools and people read the log, the best evaluation, and where the run stands.
   What a resume needs of it is read back: the log, and where the best checkpoint lies. */
#ifndef DDP_TRAIN_HISTORY_H
#define DDP_TRAIN_HISTORY_H
#include "ddp/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct DdpHistory DdpHistory;

/* The fields of TrainerState that are no history, under the names that they have there. */
typedef struct DdpTrainerState {
  double epoch;
  int64_t global_step, max_steps, num_train_epochs;
  int64_t logging_steps, eval_steps, save_steps; /* updates, also where a share was given */
  int64_t saved_at; /* update of the last checkpoint, this one included; -1: none */
  int64_t train_batch_size, num_input_tokens_seen;
  double best_metric;       /* NaN: none yet */
  int64_t best_global_step; /* -1: none yet */
} DdpTrainerState;

DdpError *ddp_history_open(DdpHistory **out);
void ddp_history_close(DdpHistory *h);
/* A line of the log: the text of one JSON object. */
DdpError *ddp_history_add(DdpHistory *h, const char *line);
int64_t ddp_history_lines(const DdpHistory *h);
/* Folder of the best checkpoint; NULL: none was saved. Copied. */
DdpError *ddp_history_set_best(DdpHistory *h, const char *folder);
const char *ddp_history_best(const DdpHistory *h);
/* The best value of a key among the entries, from update 1 on: *step is -1 where none has a number. */
DdpError *ddp_history_seek(DdpHistory *h, const char *key, bool greater, double *value,
                           int64_t *step);
/* The text of trainer_state.json; to be freed. An added line that was no JSON is an error now. */
DdpError *ddp_history_text(DdpHistory *h, const DdpTrainerState *s, char **text);
/* Takes the log and the best folder from a file; what h held before is gone. Anything that is not what
   ddp_history_text writes is an error that names the file and the field. */
DdpError *ddp_history_read(DdpHistory *h, const char *path);
#endif
