/* Atomic writing. In: a path and bytes. Out: either the whole new file under that path or the old
   state and an error. */
#include "file.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER = 1 << 20, MOST_OPEN = 16 };

/* Temporary names that exist now, for whoever ends the process in the middle; in memory that is never
   given back, since nobody waits for the other threads then. */
static struct {
  atomic_int used; /* 1: being filled, 2: there is such a file */
  char name[PATH_MAX];
} temporaries[MOST_OPEN];

static void temporary_add(const char *name) {
  for (int i = 0; i < MOST_OPEN; i++) {
    int none = 0;
    if (!atomic_compare_exchange_strong(&temporaries[i].used, &none, 1)) continue;
    snprintf(temporaries[i].name, sizeof temporaries[i].name, "%s", name);
    atomic_store(&temporaries[i].used, 2);
    return;
  }
}

static void temporary_remove(const char *name) {
  for (int i = 0; i < MOST_OPEN; i++) {
    if (atomic_load(&temporaries[i].used) == 2 && strcmp(temporaries[i].name, name) == 0)
      atomic_store(&temporaries[i].used, 0);
  }
}

void ddp_file_abandon(void) {
  for (int i = 0; i < MOST_OPEN; i++) {
    if (atomic_load(&temporaries[i].used) == 2) unlink(temporaries[i].name);
  }
}

struct DdpFile {
  char *path, *temporary;
  int fd;
  size_t filled;
  size_t written;
  char *buffer;
};

DdpError *ddp_file_error(const char *doing, const char *path, int error_number) {
  const char *hint = "";
  if (error_number == ENOSPC || error_number == EDQUOT) {
    hint = "; free some space or point --output_dir at another disk";
  } else if (error_number == EACCES || error_number == EROFS || error_number == EPERM) {
    hint = "; --output_dir names another folder";
  }
  return ddp_error(DDP_IO, "cannot %s '%s': %s%s", doing, path, strerror(error_number), hint);
}

DdpError *ddp_file_end(DdpFile *f, DdpError *error) {
  if (!error) return ddp_file_commit(f);
  ddp_file_discard(f);
  return error;
}

char *ddp_file_join(const char *a, const char *b) {
  char *out = NULL;
  if (!a || !a[0] || b[0] == '/') return strdup(b);
  const char *slash = a[strlen(a) - 1] == '/' ? "" : "/";
  return asprintf(&out, "%s%s%s", a, slash, b) < 0 ? NULL : out;
}

DdpError *ddp_file_make_folder(const char *path) {
  char *copy = strdup(path);
  if (!copy) return ddp_error(DDP_MEMORY, "out of memory");
  DdpError *error = NULL;
  for (char *p = copy + 1; !error; p++) {
    if (*p != '/' && *p != 0) continue;
    char keep = *p;
    *p = 0;
    if (copy[0] && mkdir(copy, 0777) != 0 && errno != EEXIST) {
      error = ddp_file_error("create folder", copy, errno);
    }
    *p = keep;
    if (!keep) break;
  }
  struct stat st;
  if (!error && (stat(copy, &st) != 0 || !S_ISDIR(st.st_mode))) {
    error = ddp_file_error("create folder", copy, ENOTDIR);
  }
  free(copy);
  return error;
}

DdpError *ddp_file_create(DdpFile **out, const char *path) {
  *out = NULL;
  DdpFile *f = calloc(1, sizeof *f);
  if (!f) return ddp_error(DDP_MEMORY, "out of memory");
  f->fd = -1;
  f->path = strdup(path);
  f->buffer = malloc(BUFFER);
  if (!f->path || !f->buffer || asprintf(&f->temporary, "%s.tmp", path) < 0) {
    f->temporary = NULL;
    ddp_file_discard(f);
    return ddp_error(DDP_MEMORY, "out of memory");
  }
  f->fd = open(f->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (f->fd < 0) {
    DdpError *error = ddp_file_error("create", f->temporary, errno);
    ddp_file_discard(f);
    return error;
  }
  temporary_add(f->temporary);
  *out = f;
  return NULL;
}

static DdpError *file_put(DdpFile *f, const char *data, size_t bytes) {
  while (bytes > 0) {
    ssize_t k = write(f->fd, data, bytes);
    if (k < 0 && errno == EINTR) continue;
    if (k < 0) return ddp_file_error("write", f->path, errno);
    if (k == 0) return ddp_file_error("write", f->path, ENOSPC);
    data += k;
    bytes -= (size_t)k;
    f->written += (size_t)k;
  }
  return NULL;
}

static DdpError *file_flush(DdpFile *f) {
  size_t n = f->filled;
  f->filled = 0;
  return file_put(f, f->buffer, n);
}

DdpError *ddp_file_write(DdpFile *f, const void *data, size_t bytes) {
  if (bytes >= BUFFER) {
    DDP_TRY(file_flush(f));
    return file_put(f, data, bytes);
  }
  if (f->filled + bytes > BUFFER) DDP_TRY(file_flush(f));
  memcpy(f->buffer + f->filled, data, bytes);
  f->filled += bytes;
  return NULL;
}

static void folder_sync(const char *path) {
  char *copy = strdup(path);
  if (!copy) return;
  int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) {
    fsync(fd); /* not every file system can; the rename itself stands */
    close(fd);
  }
  free(copy);
}

DdpError *ddp_file_commit(DdpFile *f) {
  DdpError *error = file_flush(f);
  if (!error && fsync(f->fd) != 0 && errno != EINVAL && errno != EROFS) {
    error = ddp_file_error("write", f->path, errno);
  }
  int fd = f->fd;
  f->fd = -1;
  if (close(fd) != 0 && !error) error = ddp_file_error("write", f->path, errno);
  if (!error && rename(f->temporary, f->path) != 0) {
    error = ddp_file_error("rename to", f->path, errno);
  }
  if (!error) {
    folder_sync(f->path);
    temporary_remove(f->temporary);
    free(f->temporary);
    f->temporary = NULL;
  }
  ddp_file_discard(f);
  return error;
}

void ddp_file_discard(DdpFile *f) {
  if (!f) return;
  if (f->fd >= 0) close(f->fd);
  if (f->temporary) unlink(f->temporary);
  if (f->temporary) temporary_remove(f->temporary);
  free(f->temporary);
  free(f->path);
  free(f->buffer);
  free(f);
}
