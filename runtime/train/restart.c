/* See restart.h. In: the command line, the checkpoints that were there when the launcher began. Out: flags
   that resume from the newest one that a round of this job has written, and that keep the global batch where
   ranks were left out. What an earlier run left in output_dir is not taken unless it was asked for. */
#include "restart.h"
#include "config.h"
#include "file.h"
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
  char *path = NULL;
  struct stat st;
  bool there =
      asprintf(&path, "%s/checkpoint-%lld/manifest.json", state.output, (long long)update) > 0 &&
      stat(path, &st) == 0;
  free(path);
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
  const char *a = argv[0];
  if (strncmp(a, "--", 2) != 0) return 0;
  size_t n = strlen(name);
  for (size_t i = 0; i < n; i++) {
    if ((a[2 + i] == '-' ? '_' : a[2 + i]) != name[i]) return 0;
  }
  if (a[2 + n] == '=') return 1;
  return a[2 + n] == 0 ? 1 + (argv[1] != NULL) : 0;
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
    char name[40];
    snprintf(name, sizeof name, "checkpoint-%lld", (long long)updates[i]);
    char *folder = ddp_file_join(state.output, name);
    DdpError *why = folder ? ddp_checkpoint_verify(folder, false, NULL) : NULL;
    if (folder && !why && !was_there(updates[i])) {
      found = folder;
      folder = NULL;
    }
    ddp_error_free(why);
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
