/* See restart.h. In: the command line, the checkpoints that were there when the launcher began. Out: flags
   that resume from the newest one that a round of this job has written, and that keep the global batch where
   ranks were left out. What an earlier run left in output_dir is not taken unless it was asked for. */
#include "restart.h"
#include "config.h"
#include "file.h"
#include "flag.h"
#include "log.h"
#include "manifest.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct Known { /* a manifest; a new one of the same name is another file */
  int64_t update;
  ino_t inode;
  struct timespec written;
} Known;

static struct {
  const DdpJob *job;
  int *argc;
  char **argv;
  char *output; /* NULL: the command line is wrong, and the ranks will say so */
  bool resumes, any_batch;
  int64_t accumulation;
  Known *known;
  int n_known;
  char **flags; /* of a rank that was restarted; as long as the process */
} state;

static bool identify(int64_t update, Known *out) {
  struct stat st;
  char *folder = ddp_checkpoint_path(state.output, update);
  char *path = folder ? ddp_file_join(folder, "manifest.json") : NULL;
  bool there = path && stat(path, &st) == 0;
  free(path);
  free(folder);
  if (there) *out = (Known){update, st.st_ino, st.st_mtim};
  return there;
}

static void remember(void) {
  int64_t *updates = NULL;
  int n = 0;
  ddp_error_free(ddp_checkpoint_list(state.output, &updates, &n));
  state.known = calloc((size_t)n + 1, sizeof *state.known);
  for (int i = 0; state.known && i < n; i++) {
    if (identify(updates[i], &state.known[state.n_known])) state.n_known++;
  }
  free(updates);
}

static bool was_there(int64_t update) {
  Known now;
  if (!identify(update, &now)) return true;
  for (int i = 0; i < state.n_known; i++) {
    const Known *k = &state.known[i];
    if (k->update == update && k->inode == now.inode && k->written.tv_sec == now.written.tv_sec &&
        k->written.tv_nsec == now.written.tv_nsec)
      return true;
  }
  return false;
}

/* In the launcher, before the first round. */
static void begin(void *unused) {
  (void)unused;
  DdpConfig c;
  DdpError *error = ddp_config_read(&c, state.job, *state.argc, state.argv);
  const DdpSettings *s = &c.settings;
  if (!error) {
    const char *resume = s->resume_from_checkpoint;
    state.resumes = resume && (strcmp(resume, "true") == 0 || strcmp(resume, "True") == 0);
    state.any_batch = strcmp(s->resume_changes, "allow") == 0;
    state.accumulation = s->gradient_accumulation_steps;
    state.output = strdup(s->output_dir ? s->output_dir : "trainer_output");
    if (state.output) remember();
  }
  ddp_error_free(error);
  ddp_config_free(&c);
}

/* The same global batch, cut into whole micro-batches. */
static bool fits(void *unused, int ranks, int first) {
  (void)unused;
  return state.any_batch || state.accumulation * first % ranks == 0;
}

void run_restart_ready(const DdpJob *job, int *argc, char **argv) {
  static const DdpLaunchHooks hooks = {.begin = begin, .fits = fits};
  state.job = job;
  state.argc = argc;
  state.argv = argv;
  ddp_launch_hooks(&hooks);
}

/* ---------- in a rank of a later round ---------- */

/* How many arguments from argv[0] on spell the flag, 0: another one. */
static int spells(char **argv, const char *name) {
  const char *value;
  if (!ddp_flag_spells(argv[0], name, &value)) return 0;
  return value || !argv[1] ? 1 : 2;
}

/* Takes the flag out of a command line and puts it in again at its end. */
static DdpError *set_flag(int *argc, char **argv, const char *name, const char *value) {
  int kept = 1;
  for (int i = 1; i < *argc;) {
    int n = spells(argv + i, name);
    if (!n) argv[kept++] = argv[i++];
    i += n;
  }
  char *flag = NULL;
  if (asprintf(&flag, "--%s=%s", name, value) < 0) return ddp_error(DDP_MEMORY, "out of memory");
  argv[kept++] = flag; /* lives as long as the process */
  argv[kept] = NULL;
  *argc = kept;
  return NULL;
}

/* The newest checkpoint that is complete and new; NULL: none. To be freed. */
static char *newest(void) {
  int64_t *updates = NULL;
  int n = 0;
  char *found = NULL;
  ddp_error_free(ddp_checkpoint_list(state.output, &updates, &n));
  for (int i = 0; i < n && !found; i++) {
    char *folder = ddp_checkpoint_path(state.output, updates[i]);
    if (folder && ddp_checkpoint_complete(folder) && !was_there(updates[i]))
      found = folder;
    else
      free(folder);
  }
  free(updates);
  return found;
}

static DdpError *resume_flag(int *argc, char **argv) {
  if (state.resumes) return NULL;
  char *folder = newest();
  if (!folder) return NULL; /* it begins as the first round did */
  /* Without old ones `true` is safe, and can pass over what is damaged. */
  DdpError *error = set_flag(argc, argv, "resume_from_checkpoint", state.n_known ? folder : "true");
  free(folder);
  return error;
}

static DdpError *batch_flag(const DdpLaunch *l, int *argc, char **argv) {
  int64_t parts = state.accumulation * l->first_world;
  if (l->world == l->first_world || parts % l->world != 0) return NULL;
  char number[24];
  snprintf(number, sizeof number, "%lld", (long long)(parts / l->world));
  return set_flag(argc, argv, "gradient_accumulation_steps", number);
}

DdpError *run_restart_flags(const DdpLaunch *l, int *argc, char ***argv) {
  if (l->restarts == 0 || !state.output) return NULL;
  char **longer = calloc((size_t)*argc + 3, sizeof *longer);
  if (!longer) return ddp_error(DDP_MEMORY, "out of memory");
  memcpy(longer, *argv, (size_t)*argc * sizeof *longer);
  *argv = state.flags = longer;
  DDP_TRY(resume_flag(argc, longer));
  return batch_flag(l, argc, longer);
}
