/* `ddpc new TEMPLATE [DIR]`: a job that trains at once, to start from. Templates are files of the library,
   stdlib/templates/NAME.ddp, with their data beside them; nothing that exists is overwritten. */
#include "command.h"
#include "stdlib_table.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER "std/templates/"

static const StdlibFile *file_of(Arena *a, const char *name, const char *end) {
  const char *path = arena_printf(a, FOLDER "%s%s", name, end);
  for (int i = 0; i < stdlib_file_count; i++)
    if (!strcmp(stdlib_files[i].path, path)) return &stdlib_files[i];
  return NULL;
}

/* NULL: no template. */
static const char *template_name(Arena *a, const StdlibFile *f) {
  size_t n = strlen(f->path), head = strlen(FOLDER);
  if (strncmp(f->path, FOLDER, head) != 0 || n < head + 4 || strcmp(f->path + n - 4, ".ddp") != 0)
    return NULL;
  return arena_strndup(a, f->path + head, n - head - 4);
}

/* The first line of comment. */
static const char *about(Arena *a, const StdlibFile *f) {
  const char *c = strstr(f->text, "\n# ");
  return c ? arena_strndup(a, c + 3, strcspn(c + 3, "\n")) : "";
}

static void list_templates(Arena *a, FILE *out) {
  fprintf(out, "Templates for `ddpc new NAME [FOLDER]`:\n");
  for (int i = 0; i < stdlib_file_count; i++) {
    const char *name = template_name(a, &stdlib_files[i]);
    if (name) fprintf(out, "  %-12s %s\n", name, about(a, &stdlib_files[i]));
  }
}

static bool put(Arena *a, const char *folder, const char *name, const StdlibFile *f) {
  const char *path = arena_printf(a, "%s/%s", folder, name);
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  bool good = fd >= 0;
  for (size_t done = 0; good && done < f->length;) {
    ssize_t n = write(fd, f->text + done, f->length - done);
    if (n > 0)
      done += (size_t)n;
    else
      good = n < 0 && errno == EINTR;
  }
  int why = errno;
  if (fd >= 0 && close(fd) && good) good = false, why = errno;
  if (good) {
    printf("wrote %s\n", path);
    return true;
  }
  fprintf(stderr, "ddpc: cannot write %s: %s\n", path, strerror(why));
  if (why == EEXIST) fprintf(stderr, "help: choose another folder: ddpc new TEMPLATE FOLDER\n");
  return false;
}

int cmd_new(Run *r) {
  uint32_t n = r->options.names.len;
  if (!n) {
    list_templates(r->arena, stdout);
    return DONE;
  }
  const char *name = r->options.names.at[0], *folder = n > 1 ? r->options.names.at[1] : name;
  const StdlibFile *job = file_of(r->arena, name, ".ddp"), *data = file_of(r->arena, name, ".csv");
  if (!job || n > 2) {
    fprintf(stderr,
            job ? "ddpc: new takes a template and a folder\n" : "ddpc: there is no template `%s`\n",
            name);
    list_templates(r->arena, stderr);
    return WRONG_USE;
  }
  if (mkdir(folder, 0755) && errno != EEXIST) {
    fprintf(stderr, "ddpc: cannot make the folder %s: %s\n", folder, strerror(errno));
    return WRONG_USE;
  }
  if (!put(r->arena, folder, "job.ddp", job)) return WRONG_USE;
  const char *csv = arena_printf(r->arena, "%s.csv", name);
  if (data && !put(r->arena, folder, csv, data)) return WRONG_USE;
  printf("next: ddpc %s/job.ddp -o train && ./train\n", folder);
  return DONE;
}
