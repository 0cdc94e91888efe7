/* Damerau-Levenshtein distance (one transposition counts once) over short names. */
#include "suggest.h"
#include <stddef.h>
#include <string.h>

enum { LONGEST = 63 };

static int min2(int a, int b) {
  return a < b ? a : b;
}

static int distance(const char *a, const char *b) {
  int rows[3][LONGEST + 2];
  int m = (int)strlen(a), n = (int)strlen(b);
  if (m > LONGEST || n > LONGEST) return LONGEST;
  for (int j = 0; j <= n; j++) rows[0][j] = j;
  for (int i = 1; i <= m; i++) {
    int *now = rows[i % 3], *before = rows[(i + 2) % 3], *older = rows[(i + 1) % 3];
    now[0] = i;
    for (int j = 1; j <= n; j++) {
      int d = before[j - 1] + (a[i - 1] != b[j - 1]);
      d = min2(d, min2(before[j], now[j - 1]) + 1);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d = min2(d, older[j - 2] + 1);
      }
      now[j] = d;
    }
  }
  return rows[m % 3][n];
}

const char *ddp_suggest(const char *word, const char *(*name_at)(int i), int n) {
  const char *best = NULL;
  int nearest = (int)strlen(word) / 3 + 1;
  for (int i = 0; i < n; i++) {
    int d = distance(word, name_at(i));
    if (d <= nearest && (!best || d < nearest)) {
      nearest = d;
      best = name_at(i);
    }
  }
  return best;
}
