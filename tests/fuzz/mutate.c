/* A fuzzer without instrumentation, for every compiler: texts of a corpus, changed by a generator with
   a fixed seed, so that a failure comes again. Call: mutate COUNT WORDS FILE...; WORDS names a file of
   words, one a line, that changes put in. It links one fuzz target. The text that is being tried stands
   in mutate.last in the working folder when the target ends the process. */
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <fcntl.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct Bytes {
  uint8_t *at;
  size_t len;
} Bytes;

enum { LONGEST = 1 << 16 };

static uint64_t generator = 0x9E3779B97F4A7C15u;
static Bytes *corpus, *words, current;
static size_t corpus_len, words_len;

static size_t draw(size_t below) { /* xorshift64 */
  generator ^= generator << 13;
  generator ^= generator >> 7;
  generator ^= generator << 17;
  return below ? (size_t)(generator % below) : 0;
}

static Bytes read_file(const char *path) {
  Bytes b = {malloc(LONGEST), 0};
  FILE *f = fopen(path, "rb");
  if (!f || !b.at) {
    perror(path);
    exit(2);
  }
  b.len = fread(b.at, 1, LONGEST, f);
  fclose(f);
  return b;
}

static void read_words(const char *path) {
  Bytes all = read_file(path);
  for (size_t i = 0, begin = 0; i < all.len; i++) {
    if (all.at[i] != '\n') continue;
    words = realloc(words, (words_len + 1) * sizeof *words);
    if (!words) exit(2);
    words[words_len++] = (Bytes){all.at + begin, i - begin};
    begin = i + 1;
  }
  if (!words_len) exit(2);
}

/* Puts bytes in, or takes them out (with NULL). */
static void insert(Bytes *b, size_t at, const uint8_t *s, size_t n) {
  if (b->len + n > LONGEST) return;
  memmove(b->at + at + n, b->at + at, b->len - at);
  memcpy(b->at + at, s, n);
  b->len += n;
}
static void take(Bytes *b, size_t at, size_t n) {
  memmove(b->at + at, b->at + at + n, b->len - at - n);
  b->len -= n;
}

static void change(Bytes *b) {
  static uint8_t piece[LONGEST];
  size_t at = draw(b->len + 1), left = b->len - at;
  size_t n = draw(left < 40 ? left + 1 : 40);
  switch (draw(8)) {
  case 0: /* another byte */
    if (left) b->at[at] = (uint8_t)draw(256);
    break;
  case 1:
    take(b, at, n);
    break;
  case 2: { /* a word */
    const Bytes *w = &words[draw(words_len)];
    insert(b, at, w->at, w->len);
    break;
  }
  case 3: { /* a word for something */
    const Bytes *w = &words[draw(words_len)];
    take(b, at, n < 6 ? n : 6 % (left + 1));
    insert(b, at, w->at, w->len);
    break;
  }
  case 4: /* once more, somewhere else */
    memcpy(piece, b->at + at, n);
    insert(b, draw(b->len + 1), piece, n);
    break;
  case 5: { /* a piece of another text */
    const Bytes *o = &corpus[draw(corpus_len)];
    size_t from = draw(o->len), m = draw(o->len - from < 200 ? o->len - from + 1 : 200);
    insert(b, at, o->at + from, m);
    break;
  }
  case 6:
    b->len = at;
    break;
  default: { /* the same word many times */
    const Bytes *w = &words[draw(words_len)];
    for (size_t i = draw(300); i > 0; i--) insert(b, at, w->at, w->len);
  }
  }
}

static void keep_last(int signal_number) {
  int out = open("mutate.last", O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (out >= 0) {
    if (write(out, current.at, current.len) < 0) _exit(3);
    close(out);
  }
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

int main(int argc, char **argv) {
  if (argc < 4) return fprintf(stderr, "usage: mutate COUNT WORDS FILE...\n"), 2;
  long count = strtol(argv[1], NULL, 10);
  read_words(argv[2]);
  corpus_len = (size_t)argc - 3;
  corpus = calloc(corpus_len, sizeof *corpus);
  current.at = malloc(LONGEST);
  if (!corpus || !current.at) return 2;
  for (size_t i = 0; i < corpus_len; i++) corpus[i] = read_file(argv[i + 3]);
  signal(SIGABRT, keep_last);
  signal(SIGSEGV, keep_last);
  for (long i = 0; i < count; i++) {
    const Bytes *from = &corpus[draw(corpus_len)];
    memcpy(current.at, from->at, from->len);
    current.len = from->len;
    for (size_t k = 1 + draw(4); k > 0; k--) change(&current);
    LLVMFuzzerTestOneInput(current.at, current.len);
  }
  printf("%ld texts from %zu files\n", count, corpus_len);
  for (size_t i = 0; i < corpus_len; i++) free(corpus[i].at);
  free(corpus);
  free(current.at);
  free(words[0].at);
  free(words);
  return 0;
}
