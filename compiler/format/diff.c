/* Unified diff of two texts: Myers' shortest script of lines, up to DISTANCE_MAX of them; texts that differ
   more are shown as replaced. */
#include "format.h"
#include <string.h>

enum { CONTEXT = 3, DISTANCE_MAX = 2000 };

typedef struct Line {
  const char *at;
  size_t length;
} Line;

typedef struct Lines {
  Line *at;
  int len;
} Lines;

typedef struct Edit { /* one line: both texts have it (' '), only the old ('-') or the new ('+') */
  char sign;
  int before, after; /* lines in front of it in each text */
} Edit;

typedef struct Diff {
  Arena *arena;
  Lines a, b;
  Edit *edits;
  int len;
} Diff;

static Lines split(Arena *arena, const Text *t) {
  int n = 1;
  for (size_t i = 0; i < t->len; i++) n += t->at[i] == '\n';
  Lines lines = {.at = ARENA_ARRAY(arena, Line, n)};
  for (size_t i = 0; i < t->len;) {
    const char *end = memchr(t->at + i, '\n', t->len - i);
    size_t length = end ? (size_t)(end - (t->at + i)) + 1 : t->len - i;
    lines.at[lines.len++] = (Line){t->at + i, length};
    i += length;
  }
  return lines;
}

static bool same(const Diff *d, int x, int y) {
  Line a = d->a.at[x], b = d->b.at[y];
  return a.length == b.length && !memcmp(a.at, b.at, a.length);
}

static void add(Diff *d, char sign, int before, int after) {
  d->edits[d->len++] = (Edit){sign, before, after};
}

/* The furthest x on diagonal k after one more change; k = x - y. */
static int step(const int *v, int distance, int k) {
  bool down = k == -distance || (k != distance && v[k - 1] < v[k + 1]);
  return down ? v[k + 1] : v[k - 1] + 1;
}

/* Walks back from the end through the saved rows; edits come out last first. */
static void trace(Diff *d, int **rows, int distance, int n, int m) {
  int x = n, y = m;
  for (; distance > 0; distance--) {
    const int *v = rows[distance];
    int k = x - y;
    bool down = k == -distance || (k != distance && v[k - 1] < v[k + 1]);
    int from = down ? k + 1 : k - 1, before = v[from], after = before - from;
    int begin = down ? before : before + 1;
    while (x > begin) add(d, ' ', --x, --y);
    if (down)
      add(d, '+', x, --y);
    else
      add(d, '-', --x, y);
    x = before;
    y = after;
  }
  while (x > 0) add(d, ' ', --x, --y);
}

static bool shortest(Diff *d) {
  int n = d->a.len, m = d->b.len;
  int most = n + m < DISTANCE_MAX ? n + m : DISTANCE_MAX;
  int **rows = ARENA_ARRAY(d->arena, int *, most + 1);
  int *v = ARENA_ARRAY(d->arena, int, 2 * most + 3) + most + 1;
  for (int distance = 0; distance <= most; distance++) {
    /* the row before, from -distance to distance: what trace() looks at */
    int *saved = ARENA_ARRAY(d->arena, int, 2 * distance + 3);
    memcpy(saved, v - distance - 1, sizeof(int) * (size_t)(2 * distance + 3));
    rows[distance] = saved + distance + 1;
    for (int k = -distance; k <= distance; k += 2) {
      int x = distance ? step(v, distance, k) : 0;
      while (x < n && x - k < m && same(d, x, x - k)) x++;
      v[k] = x;
      if (x < n || x - k < m) continue;
      trace(d, rows, distance, n, m);
      return true;
    }
  }
  return false;
}

static void replaced(Diff *d) {
  for (int y = d->b.len; y > 0; y--) add(d, '+', d->a.len, y - 1);
  for (int x = d->a.len; x > 0; x--) add(d, '-', x - 1, 0);
}

static void put_range(Text *out, char sign, int begin, int count) {
  text_addf(out, count == 1 ? "%c%d" : "%c%d,%d", sign, count ? begin + 1 : begin, count);
}

/* Edits [first, end) as one hunk; they stand last first. */
static void hunk(Text *out, const Diff *d, int first, int end) {
  int old = 0, new = 0;
  for (int i = first; i > end; i--) {
    old += d->edits[i].sign != '+';
    new += d->edits[i].sign != '-';
  }
  text_add(out, "@@ ");
  put_range(out, '-', d->edits[first].before, old);
  text_add(out, " ");
  put_range(out, '+', d->edits[first].after, new);
  text_add(out, " @@\n");
  for (int i = first; i > end; i--) {
    const Edit *e = &d->edits[i];
    Line line = e->sign == '+' ? d->b.at[e->after] : d->a.at[e->before];
    text_add_n(out, &e->sign, 1);
    text_add_n(out, line.at, line.length);
    if (line.at[line.length - 1] != '\n') text_add(out, "\n\\ No newline at end of file\n");
  }
}

static void hunks(Text *out, const Diff *d) {
  for (int i = d->len - 1; i >= 0;) {
    if (d->edits[i].sign == ' ') {
      i--;
      continue;
    }
    int first = i + CONTEXT < d->len - 1 ? i + CONTEXT : d->len - 1;
    int last = i; /* the last change of the hunk */
    for (int k = i; k >= 0 && last - k <= 2 * CONTEXT; k--)
      if (d->edits[k].sign != ' ') last = k;
    int end = last - CONTEXT - 1 > -1 ? last - CONTEXT - 1 : -1;
    hunk(out, d, first, end);
    i = end;
  }
}

void format_diff(Text *out, const char *before_name, const char *after_name, const Text *before,
                 const Text *after) {
  if (before->len == after->len && (!before->len || !memcmp(before->at, after->at, before->len)))
    return;
  Diff d = {.arena = arena_new()};
  d.a = split(d.arena, before);
  d.b = split(d.arena, after);
  d.edits = ARENA_ARRAY(d.arena, Edit, d.a.len + d.b.len + 1);
  if (!shortest(&d)) replaced(&d);
  text_addf(out, "--- %s\n+++ %s\n", before_name, after_name);
  hunks(out, &d);
  arena_free(d.arena);
}
