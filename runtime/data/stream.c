/* Files through zlib. In: a path. Out: the bytes, inflated where needed; damage is reported, not
   passed on as a short file. */
#include "stream.h"
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

struct DdpStream {
  gzFile file;
  char *path;
  int64_t size; /* on disk */
};

enum { INFLATE_AT_MOST = 1040 }; /* deflate cannot expand further than about 1032 : 1 */

static DdpError *cannot_open(const char *path, int number) {
  if (number == ENOENT) {
    return ddp_error(
        DDP_DATA,
        "data file '%s' does not exist; relative paths start at the job's folder, or at "
        "--data_root",
        path);
  }
  return ddp_error(DDP_DATA, "cannot read data file '%s': %s", path, strerror(number));
}

DdpError *ddp_stream_open(DdpStream **out, const char *path) {
  *out = NULL;
  struct stat st;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return cannot_open(path, errno);
  if (fstat(fd, &st) != 0 || S_ISDIR(st.st_mode)) {
    close(fd);
    return cannot_open(path, EISDIR);
  }
  DdpStream *s = calloc(1, sizeof *s);
  if (s) s->path = strdup(path);
  if (s && s->path) s->file = gzdopen(fd, "rb");
  if (!s || !s->path || !s->file) {
    close(fd);
    ddp_stream_close(s);
    return ddp_error(DDP_MEMORY, "out of memory while opening '%s'", path);
  }
  gzbuffer(s->file, 1 << 18);
  s->size = (int64_t)st.st_size;
  *out = s;
  return NULL;
}

DdpError *ddp_stream_read(DdpStream *s, void *into, int64_t n, int64_t *got) {
  const int64_t most = 1 << 30;
  *got = 0;
  while (*got < n) {
    int64_t want = n - *got < most ? n - *got : most;
    int k = gzread(s->file, (char *)into + *got, (unsigned)want);
    int code = Z_OK;
    const char *text = gzerror(s->file, &code);
    if (k < 0 || (code != Z_OK && code != Z_STREAM_END)) {
      if (code == Z_ERRNO) return cannot_open(s->path, errno);
      const char *colon = strstr(text, ": "); /* zlib's own name of the file stands before it */
      const char *what = code == Z_BUF_ERROR ? "the data end too early (truncated file?)"
                         : colon             ? colon + 2
                                             : text;
      return ddp_error(DDP_DATA, "data file '%s' is damaged: gzip: %s", s->path, what);
    }
    if (k == 0) break;
    *got += k;
  }
  return NULL;
}

int64_t ddp_stream_limit(DdpStream *s) {
  bool plain = gzdirect(s->file) != 0;
  return plain ? s->size : s->size * INFLATE_AT_MOST;
}

void ddp_stream_close(DdpStream *s) {
  if (!s) return;
  if (s->file) gzclose(s->file);
  free(s->path);
  free(s);
}
