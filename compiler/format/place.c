/* Comments, empty lines and brackets: places of the source to line ends of the document. */
#include "layout.h"

/* ---------- places in the source ---------- */
static bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

uint32_t code_after(const Layout *l, uint32_t at) {
  while (at < l->length) {
    if (l->text[at] == '#')
      while (at < l->length && l->text[at] != '\n') at++;
    else if (is_blank(l->text[at]))
      at++;
    else
      break;
  }
  return at;
}

/* The comment that ends at or behind `at` and begins before it, or NULL. */
static const Comment *comment_around(const Layout *l, uint32_t at) {
  uint32_t low = 0, high = l->file->comments.len;
  while (low < high) { /* the last one that begins before `at` */
    uint32_t middle = (low + high) / 2;
    if (l->file->comments.at[middle].span.begin < at)
      low = middle + 1;
    else
      high = middle;
  }
  const Comment *c = low ? &l->file->comments.at[low - 1] : NULL;
  return c && c->span.end >= at ? c : NULL;
}

uint32_t code_before(const Layout *l, uint32_t at) {
  for (;;) {
    while (at && is_blank(l->text[at - 1])) at--;
    const Comment *c = at ? comment_around(l, at) : NULL;
    if (!c) return at;
    at = c->span.begin;
  }
}

bool blank_before(const Layout *l, uint32_t at) {
  int lines = 0;
  while (at && is_blank(l->text[at - 1])) lines += l->text[--at] == '\n';
  return lines >= 2;
}

bool on_one_line(const Layout *l, uint32_t begin, uint32_t end) {
  return !memchr(l->text + begin, '\n', end - begin);
}

uint32_t block_end(const Layout *l, uint32_t last) {
  uint32_t at = code_after(l, last);
  while (at < l->length && l->text[at] != '}') at = code_after(l, at + 1);
  return at;
}

/* ---------- comments ---------- */
/* `#text` to `# text`; rulers and headings of several `#` stay. */
static void put_comment(Layout *l, const Comment *c, bool trailing) {
  const char *s = l->text + c->span.begin;
  size_t n = c->span.end - c->span.begin;
  while (n && is_blank(s[n - 1])) n--;
  if (n > 1 && s[1] != ' ' && s[1] != '#') {
    bool tab = s[1] == '\t';
    char *with = arena_alloc(l->doc.arena, n + 2);
    with[0] = '#';
    with[1] = ' ';
    memcpy(with + 2, s + 1 + tab, n - 1 - tab);
    s = with;
    n = n + 1 - tab;
  }
  doc_comment(&l->doc, s, n, trailing);
}

static const Comment *next_comment(const Layout *l, uint32_t until) {
  if (l->comment >= l->file->comments.len) return NULL;
  const Comment *c = &l->file->comments.at[l->comment];
  return c->span.begin < until ? c : NULL;
}

bool comment_before(const Layout *l, uint32_t at) {
  return next_comment(l, at) != NULL;
}

void put_item(Layout *l, Item item) {
  bool first = item.first, blank = item.blank, above = false; /* a comment stands above the item */
  const Comment *start = next_comment(l, item.begin);
  for (const Comment *c; (c = next_comment(l, item.begin)); l->comment++) {
    bool trailing = c == start && c->trailing;
    if (!trailing && !first && (blank || blank_before(l, c->span.begin))) doc_blank(&l->doc);
    put_comment(l, c, trailing);
    if (trailing) continue;
    first = blank = false;
    above = true;
  }
  bool wanted = blank || (blank_before(l, item.begin) && (above || !item.close));
  if (!first && wanted) doc_blank(&l->doc);
  for (const Comment *c; (c = next_comment(l, item.until)); l->comment++) put_comment(l, c, false);
}

void put_part(Layout *l, uint32_t begin) {
  const Comment *start = next_comment(l, begin);
  for (const Comment *c; (c = next_comment(l, begin)); l->comment++)
    put_comment(l, c, c == start && c->trailing);
}

void put_rest(Layout *l, uint32_t close, bool first) {
  if (!next_comment(l, close)) return;
  doc_hard(&l->doc);
  const Comment *start = next_comment(l, close);
  for (const Comment *c; (c = next_comment(l, close)); l->comment++) {
    bool trailing = c == start && c->trailing;
    if (!trailing && !first && blank_before(l, c->span.begin)) doc_blank(&l->doc);
    put_comment(l, c, trailing);
    first = first && trailing;
  }
}

void put_head(Layout *l, uint32_t end) {
  const Comment *all = l->file->comments.at;
  uint32_t n = l->file->comments.len, above = 0;
  while (above < n && all[above].span.begin < end) above++;
  if (!above) return;
  doc_hard(&l->doc);
  bool trails = above < n && all[above].trailing && on_one_line(l, end, all[above].span.begin);
  if (trails) put_comment(l, &all[above], true);
  doc_blank(&l->doc);
  for (uint32_t i = 0; i < above; i++) {
    if (i && blank_before(l, all[i].span.begin)) doc_blank(&l->doc);
    put_comment(l, &all[i], false);
  }
  l->comment = above + trails;
}

/* ---------- brackets ---------- */
static void line_end(Layout *l, bool blanks) {
  if (blanks)
    doc_line(&l->doc);
  else
    doc_soft(&l->doc);
}

void put_open(Layout *l, const char *bracket, bool blanks) {
  put(l, bracket);
  doc_open(&l->doc);
  doc_indent(&l->doc);
  line_end(l, blanks);
}

void put_next(Layout *l, uint32_t index, uint32_t begin) {
  if (index) {
    put(l, ",");
    doc_line(&l->doc);
  }
  begin = code_after(l, begin); /* the place of a slice without a start lies before its `:` */
  put_item(l, (Item){.begin = begin, .until = begin, .first = index == 0});
}

void put_end(Layout *l, const char *bracket, ListEnd end) {
  uint32_t close = code_after(l, end.last);
  if (end.comma) {
    if (close < l->length && l->text[close] == ',') {
      doc_break(&l->doc);
      close = code_after(l, close + 1);
    }
    doc_if_broken(&l->doc, ",");
  }
  put_rest(l, close, false);
  doc_dedent(&l->doc);
  line_end(l, end.blanks);
  doc_close(&l->doc);
  put(l, bracket);
}

void put_block_open(Layout *l) {
  put(l, "{");
  doc_open(&l->doc);
  doc_indent(&l->doc);
}

void put_block_close(Layout *l, uint32_t close, bool empty) {
  bool comments = next_comment(l, close) != NULL;
  put_rest(l, close, empty);
  doc_dedent(&l->doc);
  if (!empty || comments) doc_hard(&l->doc);
  doc_close(&l->doc);
  put(l, "}");
}
