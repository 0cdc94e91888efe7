/* A file: the edition, then comments that stood above it, then declarations. */
#include "format.h"
#include "layout.h"

/* `edition` first; the comments above it follow, apart from what comes then. */
static void put_edition(Layout *l) {
  uint32_t begin = code_after(l, 0);
  uint32_t end = code_after(l, begin + (uint32_t)strlen("edition"));
  while (end < l->length && l->text[end] >= '0' && l->text[end] <= '9') end++;
  put(l, arena_printf(l->doc.arena, "edition %lld", (long long)l->file->edition));
  put_head(l, end);
}

/* Comments behind the last declaration. */
static void put_tail(Layout *l) {
  if (!comment_before(l, l->length)) return;
  doc_hard(&l->doc);
  put_item(l, (Item){.begin = l->length, .until = l->length, .blank = !l->file->decls.len});
}

void format_file(Text *out, Arena *arena, const AstFile *file) {
  const Source *source = source_get(file->source);
  Layout l = {.doc = {.arena = arena},
              .file = file,
              .text = source->text,
              .length = (uint32_t)source->length};
  put_edition(&l);
  put_decls(&l);
  put_tail(&l);
  doc_print(out, &l.doc);
}
