/* The characters of texts. In: a dataset with `text` sources. Out: the categories of its field: the distinct
   characters of all these files in the order of their numbers, so that sizes of the model can depend
   on how many there are. The files are read by the runtime's reader. */
#include "diag.h"
#include "data_source.h"
#include "tokens.h"
#include <stdlib.h>
#include <string.h>

typedef VEC(const char *) Paths;

static void add_paths(Analysis *a, const DataSource *s, Paths *to) {
  for (uint32_t i = 0; i < s->paths.len; i++) {
    const char *path = source_path(a, s->paths.at[i]);
    bool known = false;
    for (uint32_t k = 0; k < to->len; k++) known |= !strcmp(to->at[k], path);
    if (!known) vec_push(a->arena, to, path);
  }
}

static const char *utf8(Arena *a, uint32_t c) {
  char s[5] = {(char)c};
  if (c >= 0x10000) {
    s[0] = (char)(0xf0 | c >> 18), s[1] = (char)(0x80 | (c >> 12 & 63));
    s[2] = (char)(0x80 | (c >> 6 & 63)), s[3] = (char)(0x80 | (c & 63));
  } else if (c >= 0x800) {
    s[0] = (char)(0xe0 | c >> 12), s[1] = (char)(0x80 | (c >> 6 & 63));
    s[2] = (char)(0x80 | (c & 63));
  } else if (c >= 0x80) {
    s[0] = (char)(0xc0 | c >> 6), s[1] = (char)(0x80 | (c & 63));
  }
  return arena_strdup(a, s);
}

/* Does the field hold as many? */
static bool room_for(const Field *f, Span at, int32_t count) {
  if (f->has_range && (f->low > 0 || f->high < count)) {
    diag_report(DIAG_E0804, f->at,
                "the text has %d different characters; `%s` is declared in %g..%g", count, f->name,
                f->low, f->high);
    diag_note(at, "the text is here");
    diag_help("leave the range out, and it is 0..%d", count);
    return false;
  }
  if (f->type.dtype != DT_u8 || count <= 256) return true;
  diag_report(DIAG_E0803, f->at, "the text has %d different characters, and `%s` is uint8", count,
              f->name);
  diag_note(at, "the text is here");
  diag_help("declare it as uint16");
  return false;
}

bool text_vocabulary(Analysis *a, Dataset *d, Field *f) {
  Paths paths = {0};
  Span at = {0};
  for (uint32_t i = 0; i < d->sources.len; i++) {
    const DataSource *s = &d->sources.at[i];
    if (s->kind != SOURCE_text) continue;
    if (!paths.len) at = s->at;
    add_paths(a, s, &paths);
  }
  if (!paths.len || f->categories.len) return true;
  uint32_t *found = NULL;
  int32_t count = 0;
  DdpError *error = ddp_text_vocabulary(paths.at, (int32_t)paths.len, &found, &count);
  if (error) {
    diag_report(DIAG_E0801, at, "%s", error->message);
    ddp_error_free(error);
    return false;
  }
  for (int32_t k = 0; k < count; k++) vec_push(a->arena, &f->categories, utf8(a->arena, found[k]));
  free(found);
  if (!room_for(f, at, count)) return false;
  if (!f->has_range || !f->classes) {
    f->has_range = true;
    f->low = 0;
    f->high = count;
    f->classes = count;
  }
  return true;
}
