/* Look-ups in the embedded library: a file by its path, a name by the file that declares it. */
#include "eval.h"
#include "expr.h"
#include "sema.h"
#include "stdlib_table.h"
#include <string.h>

/* Visible without import. The definitions of std/optim and std/schedule are seen through their keys,
   the models through imports. */
static const char *const visible[] = {
    "std/prelude.ddp",   "std/nn.ddp",        "std/loss.ddp",
    "std/init.ddp",      "std/attention.ddp", "std/conv.ddp",
    "std/recurrent.ddp", "std/transform.ddp", "std/activation.ddp"};

const char *stdlib_find(const char *path, size_t *length) {
  for (int i = 0; i < stdlib_file_count; i++) {
    if (strcmp(stdlib_files[i].path, path) != 0) continue;
    *length = stdlib_files[i].length;
    return stdlib_files[i].text;
  }
  return NULL;
}

static bool is_visible(const char *path) {
  for (size_t i = 0; i < sizeof visible / sizeof *visible; i++)
    if (!strcmp(visible[i], path)) return true;
  return false;
}

typedef struct VisibleName {
  const char *name; /* interned */
  const char *path;
} VisibleName;

/* The visible part of the index, with interned names; made once. */
static const VisibleName *visible_names(int *n) {
  static Arena *arena;
  static VisibleName *names;
  static int count;
  if (!arena) {
    arena = arena_new();
    names = ARENA_ARRAY(arena, VisibleName, stdlib_name_count + 1);
    for (int i = 0; i < stdlib_name_count; i++)
      if (is_visible(stdlib_names[i].path))
        names[count++] = (VisibleName){text_intern(stdlib_names[i].name), stdlib_names[i].path};
  }
  *n = count;
  return names;
}

bool library_find(Program *p, const char *name, File **file, FileName **found) {
  int n = 0;
  if (p->bare) return false;
  const VisibleName *names = visible_names(&n);
  for (int i = 0; i < n; i++) {
    if (names[i].name != name) continue;
    *file = program_library(p, names[i].path);
    *found = *file ? file_find(*file, name) : NULL;
    if (*found) return true;
  }
  return false;
}

void library_offer(Program *p, TextNearest *near) {
  int n = 0;
  if (p->bare) return;
  const VisibleName *names = visible_names(&n);
  for (int i = 0; i < n; i++) text_offer(near, names[i].name);
}
