/* Folders of checkpoints. In: output_dir. Out: which checkpoint is the newest complete one; a
   folder that appears under its name with all its files, or not at all; nothing left of runs
   that were killed. */
#include "file.h"
#include "flight.h"
#include "manifest.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char prefix[] = "checkpoint-";
static const char partial_end[] = ".partial", old_end[] = ".old";

static DdpError *no_memory(void) {
  return ddp_error(DDP_MEMORY, "out of memory");
}

/* "checkpoint-12" is 12; -1: another name. `rest`: what must stand behind the number. */
static int64_t number_of(const char *name, const char *rest) {
  if (strncmp(name, prefix, sizeof prefix - 1) != 0) return -1;
  const char *digits = name + sizeof prefix - 1;
  size_t n = strspn(digits, "0123456789");
  if (n == 0 || n > 18 || strcmp(digits + n, rest) != 0 || (digits[0] == '0' && n > 1)) return -1;
  return strtoll(digits, NULL, 10);
}

static int descending(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x < y) - (x > y);
}

DdpError *ddp_checkpoint_list(const char *output, int64_t **numbers, int *n) {
  *numbers = NULL;
  *n = 0;
  DIR *folder = opendir(output);
  DdpError *error = NULL;
  for (struct dirent *e; folder && !error && (e = readdir(folder));) {
    int64_t number = number_of(e->d_name, "");
    if (number < 0) continue;
    int64_t *grown = realloc(*numbers, ((size_t)*n + 1) * sizeof *grown);
    if (!grown) {
      error = no_memory();
      break;
    }
    *numbers = grown;
    grown[(*n)++] = number;
  }
  if (folder) closedir(folder);
  if (*n) qsort(*numbers, (size_t)*n, sizeof **numbers, descending);
  return error;
}

static char *path_of(const char *output, const char *before, int64_t update, const char *behind) {
  char name[80];
  snprintf(name, sizeof name, "%s%s%lld%s", before, prefix, (long long)update, behind);
  return ddp_file_join(output, name);
}

char *ddp_checkpoint_path(const char *output, int64_t update) {
  return path_of(output, "", update, "");
}

int64_t ddp_checkpoint_number(const char *output, const char *folder) {
  const char *slash = strrchr(folder, '/');
  int64_t number = number_of(slash ? slash + 1 : folder, "");
  char *path = number < 0 ? NULL : ddp_checkpoint_path(output, number);
  if (!path || strcmp(path, folder) != 0) number = -1;
  free(path);
  return number;
}

bool ddp_checkpoint_complete(const char *folder) {
  DdpError *error = ddp_checkpoint_verify(folder, false, NULL);
  ddp_error_free(error);
  return !error;
}

static DdpError *skip(char **skipped, int64_t update, const DdpError *why) {
  char *longer = NULL;
  if (asprintf(&longer, "%s\n  %s%lld: %s", *skipped ? *skipped : "", prefix, (long long)update,
               why->message) < 0)
    return no_memory();
  free(*skipped);
  *skipped = longer;
  return NULL;
}

static DdpError *verify_state(const char *folder, bool whole) {
  DdpManifest m;
  DDP_TRY(ddp_checkpoint_verify(folder, whole, &m));
  DdpError *error =
      m.complete_state ? NULL : ddp_error(DDP_DATA, "it holds weights only (save_only_model)");
  ddp_manifest_free(&m);
  return error;
}

DdpError *ddp_checkpoint_newest(const char *output, bool whole, char **folder, char **skipped) {
  int64_t *numbers = NULL;
  int n = 0;
  *folder = *skipped = NULL;
  DdpError *error = ddp_checkpoint_list(output, &numbers, &n);
  for (int i = 0; i < n && !error; i++) {
    char *path = ddp_checkpoint_path(output, numbers[i]);
    DdpError *why = path ? verify_state(path, whole) : no_memory();
    if (!why) {
      *folder = path;
      break;
    }
    free(path);
    if (why->klass == DDP_MEMORY) {
      error = why;
      break;
    }
    error = skip(skipped, numbers[i], why);
    ddp_error_free(why);
  }
  free(numbers);
  return error;
}

DdpError *ddp_checkpoint_remove(const char *folder) {
  DIR *d = opendir(folder);
  DdpError *error = NULL;
  if (!d) return errno == ENOENT ? NULL : ddp_file_error("remove", folder, errno);
  for (struct dirent *e; !error && (e = readdir(d));) {
    if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
    if (unlinkat(dirfd(d), e->d_name, 0) == 0 || errno == ENOENT) continue;
    int number = errno;
    char *path = ddp_file_join(folder, e->d_name);
    if (!path)
      error = no_memory();
    else if (number == EISDIR) /* somebody else's; it goes with the folder that it was put into */
      error = ddp_checkpoint_remove(path);
    else
      error = ddp_file_error("remove", path, number);
    free(path);
  }
  closedir(d);
  if (!error && rmdir(folder) != 0 && errno != ENOENT)
    error = ddp_file_error("remove", folder, errno);
  return error;
}

/* Out of sight first: a run that is killed here leaves no checkpoint with files missing. */
DdpError *ddp_checkpoint_delete(const char *output, int64_t update) {
  char *now = ddp_checkpoint_path(output, update),
       *partial = path_of(output, ".", update, partial_end);
  DdpError *error = now && partial ? ddp_checkpoint_remove(partial) : no_memory();
  if (!error && rename(now, partial) != 0 && errno != ENOENT)
    error = ddp_file_error("remove", now, errno);
  if (!error) error = ddp_checkpoint_remove(partial);
  free(now);
  free(partial);
  return error;
}

/* The folder whose place the new one took on a file system that cannot exchange two: it goes
   back if the run was killed in between. */
static DdpError *sweep_old(const char *output, int64_t update) {
  char *old = path_of(output, ".", update, old_end), *now = ddp_checkpoint_path(output, update);
  DdpError *error = old && now ? NULL : no_memory();
  struct stat st;
  if (!error && stat(now, &st) == 0)
    error = ddp_checkpoint_remove(old);
  else if (!error && rename(old, now) != 0)
    error = ddp_file_error("rename", old, errno);
  free(old);
  free(now);
  return error;
}

DdpError *ddp_checkpoint_sweep(const char *output) {
  DIR *folder = opendir(output);
  DdpError *error = NULL;
  for (struct dirent *e; folder && !error && (e = readdir(folder));) {
    if (e->d_name[0] != '.') continue;
    int64_t old = number_of(e->d_name + 1, old_end);
    if (old >= 0) error = sweep_old(output, old);
    if (number_of(e->d_name + 1, partial_end) < 0) continue;
    char *path = ddp_file_join(output, e->d_name);
    error = path ? ddp_checkpoint_remove(path) : no_memory();
    free(path);
  }
  if (folder) closedir(folder);
  ddp_flight_sweep(output);
  return error;
}

DdpError *ddp_checkpoint_begin(char **partial, const char *output, int64_t update) {
  *partial = path_of(output, ".", update, partial_end);
  if (!*partial) return no_memory();
  DDP_TRY(ddp_checkpoint_remove(*partial));
  return ddp_file_make_folder(*partial);
}

/* Not every file system can; the rename itself stands. */
static void sync_folder(const char *path) {
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

static DdpError *replace(const char *partial, const char *output, const char *now, int64_t update) {
  if (renameat2(AT_FDCWD, partial, AT_FDCWD, now, RENAME_EXCHANGE) == 0) {
    sync_folder(output);
    return ddp_checkpoint_remove(partial);
  }
  if (errno != EINVAL && errno != ENOSYS) return ddp_file_error("rename to", now, errno);
  char *old = path_of(output, ".", update, old_end);
  if (!old) return no_memory();
  DdpError *error = ddp_checkpoint_remove(old);
  if (!error && (rename(now, old) != 0 || rename(partial, now) != 0))
    error = ddp_file_error("rename to", now, errno);
  sync_folder(output);
  if (!error) error = ddp_checkpoint_remove(old);
  free(old);
  return error;
}

DdpError *ddp_checkpoint_publish(const char *partial, const char *output, int64_t update) {
  char *now = ddp_checkpoint_path(output, update);
  if (!now) return no_memory();
  DdpError *error = NULL;
  struct stat st;
  sync_folder(partial);
  if (stat(now, &st) == 0)
    error = replace(partial, output, now, update);
  else if (rename(partial, now) != 0)
    error = ddp_file_error("rename to", now, errno);
  sync_folder(output);
  free(now);
  return error;
}

/* Those of the n that are complete, at the front; returns how many. */
static int complete_ones(const char *output, int64_t *updates, int n) {
  int kept = 0;
  for (int i = 0; i < n; i++) {
    char *path = ddp_checkpoint_path(output, updates[i]);
    if (path && ddp_checkpoint_complete(path)) updates[kept++] = updates[i];
    free(path);
  }
  return kept;
}

DdpError *ddp_checkpoint_rotate(const char *output, const DdpKeep *k) {
  int64_t *updates = NULL;
  int n = 0;
  if (k->limit <= 0) return NULL;
  DdpError *error = ddp_checkpoint_list(output, &updates, &n);
  if (!error) n = complete_ones(output, updates, n);
  int gone = error ? 0 : ddp_keep_select(updates, n, k);
  for (int i = 0; i < gone && !error; i++) error = ddp_checkpoint_delete(output, updates[i]);
  free(updates);
  return error;
}
