/* `ddpc fmt FILE...`: files to their canonical form, in place. A file with syntax errors stays as it is, and
   so does one that is canonical, with its time. */
#include "command.h"
#include "diag.h"
#include "format.h"
#include "parse.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_MOST = 32 << 20 }; /* more than the parser takes: an endless file ends here */

static int failed(const char *what, const char *path) {
  fprintf(stderr, "ddpc: cannot %s %s: %s\n", what, path, strerror(errno));
  return WRONG_USE;
}

static bool read_all(FILE *f, Text *out) {
  char chunk[1 << 16];
  size_t n;
  while (out->len <= READ_MOST && (n = fread(chunk, 1, sizeof chunk, f)) > 0)
    text_add_n(out, chunk, n);
  return !ferror(f);
}

/* Into a file beside it that then takes its place: a reader sees the old text or the new one. */
static bool replace(Arena *arena, const char *path, const Text *text) {
  char *real = realpath(path, NULL); /* a link stays a link */
  struct stat old;
  if (!real || stat(real, &old) != 0) {
    free(real);
    return false;
  }
  char *beside = arena_printf(arena, "%s.XXXXXX", real);
  int fd = mkstemp(beside);
  FILE *f = fd < 0 ? NULL : fdopen(fd, "wb");
  bool good = f && fwrite(text->at, 1, text->len, f) == text->len && fflush(f) == 0;
  if (good && fchown(fd, old.st_uid, old.st_gid) != 0) errno = 0; /* another's file becomes ours */
  good = good && fchmod(fd, old.st_mode & 07777) == 0 && fsync(fd) == 0;
  if (f && fclose(f) != 0) good = false;
  good = good && rename(beside, real) == 0;
  int reason = errno;
  if (!good && fd >= 0) unlink(beside);
  free(real);
  errno = reason;
  return good;
}

/* What is to be done with a text that is not canonical, or any text of the standard input. */
static int deliver(const Run *r, Arena *arena, const char *path, const Text *old, const Text *new) {
  bool check = run_switch(r, OPT_check), diff = run_switch(r, OPT_diff);
  bool standard = !strcmp(path, "-");
  bool differs = old->len != new->len || memcmp(old->at, new->at, new->len) != 0;
  if (!check && !diff && standard) return run_write(NULL, new);
  if (!differs) return DONE;
  const char *name = standard ? "<stdin>" : path;
  if (diff) {
    Text out = {0};
    format_diff(&out, name, arena_printf(arena, "%s (canonical)", name), old, new);
    int code = run_write(NULL, &out);
    text_free(&out);
    if (code) return code;
  } else if (check) {
    printf("%s\n", name);
  }
  if (check) return WRONG_JOB;
  if (diff || replace(arena, path, new)) return DONE;
  return failed("write", path);
}

static int format_one(const Run *r, const char *path) {
  bool standard = !strcmp(path, "-");
  FILE *f = standard ? stdin : fopen(path, "rb");
  Text old = {0}, new = {0};
  bool read = f && read_all(f, &old);
  int code = read ? DONE : failed("read", path);
  if (f && !standard) fclose(f);
  if (read) {
    Arena *arena = arena_new();
    text_add(&old, ""); /* an empty file has a text, too */
    AstFile *file = parse_source(arena, source_add(standard ? "<stdin>" : path, old.at, old.len));
    code = run_flush(file->ok ? DONE : WRONG_JOB);
    if (file->ok) {
      format_file(&new, arena, file);
      code = deliver(r, arena, path, &old, &new);
    }
    diag_reset();
    arena_free(arena);
  }
  text_free(&old);
  text_free(&new);
  return code;
}

int cmd_fmt(Run *r) {
  if (!r->options.names.len) {
    fprintf(stderr, "ddpc: which files?\nhelp: `ddpc fmt --help`; - is the standard input\n");
    return WRONG_USE;
  }
  int worst = DONE;
  for (uint32_t i = 0; i < r->options.names.len; i++) {
    int code = format_one(r, r->options.names.at[i]);
    if (code > worst) worst = code;
  }
  return worst;
}
