/* Deterministic fuzzing without a fuzzer: each seed as it is, every prefix of it, then random mutations
   (bits, bytes, numbers, pieces doubled, moved, cut out or taken from another seed). A fault of any kind
   ends the program; a target that takes longer than ten seconds on one input too.
   usage: NAME_fuzz [inputs per seed] [first random number] */
#include "fuzz.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOM = 1 << 16 };
static uint8_t input[ROOM];
static size_t length;
static uint64_t random_state;

static uint64_t draw(uint64_t below) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return below ? random_state % below : 0;
}

static void remove_piece(size_t at, size_t n) {
  memmove(input + at, input + at + n, length - at - n);
  length -= n;
}

static void insert_piece(size_t at, const uint8_t *piece, size_t n) {
  static uint8_t copy[ROOM];
  if (length + n > ROOM) return;
  memcpy(copy, piece, n); /* it may lie in the input itself */
  memmove(input + at + n, input + at, length - at);
  memcpy(input + at, copy, n);
  length += n;
}

static void insert_other(size_t at, const FuzzSeed *seed) {
  size_t from = (size_t)draw(seed->n);
  insert_piece(at, (const uint8_t *)seed->bytes + from, (size_t)draw(seed->n - from + 1));
}

static void mutate(int n_seeds) {
  static const char interesting[] = "\0\xff\x7f\x80\x01\n\r\"',{}[]():;<>.-+eE0123456789 \t#_%";
  static const char *const words[] = {"nan",          "1e999",
                                      "-0",           "9223372036854775808",
                                      "\"\"",         "\r\n",
                                      "\xef\xbb\xbf", "\x1f\x8b",
                                      "0x1",          "1e-400",
                                      "true",         "none",
                                      "\"\n\"",       "\xff\xff\xff\xff",
                                      "[[[[[["};
  size_t at = (size_t)draw(length + 1), n = (size_t)draw(length - at + 1);
  const char *word = words[draw(sizeof words / sizeof words[0])];
  switch (draw(8)) {
  case 0:
    if (at < length) input[at] ^= (uint8_t)(1u << draw(8));
    break;
  case 1:
    if (at < length) input[at] = (uint8_t)interesting[draw(sizeof interesting - 1)];
    break;
  case 2:
    insert_piece(at, (const uint8_t *)word, strlen(word));
    break;
  case 3:
    remove_piece(at, n);
    break;
  case 4:
    insert_piece((size_t)draw(length + 1), input + at, n);
    break;
  case 5:
    insert_other(at, &fuzz_seeds[draw((uint64_t)n_seeds)]);
    break;
  case 6:
    for (size_t i = at; i < length && i < at + 4; i++) input[i] = (uint8_t)draw(256);
    break;
  default:
    length = at;
    break;
  }
}

static void try_input(void) {
  /* On the heap and exactly as long, so that a sanitizer sees a byte too far. */
  uint8_t *exact = malloc(length ? length : 1);
  if (!exact) abort();
  memcpy(exact, input, length);
  alarm(10);
  LLVMFuzzerTestOneInput(exact, length);
  alarm(0);
  free(exact);
}

int main(int argc, char **argv) {
  long per_seed = argc > 1 ? atol(argv[1]) : 1000;
  int n_seeds = 0;
  while (fuzz_seeds[n_seeds].n) n_seeds++;
  random_state = argc > 2 ? strtoull(argv[2], NULL, 10) : 88172645463325252u;
  for (int s = 0; s < n_seeds; s++) {
    for (size_t prefix = 0; prefix <= fuzz_seeds[s].n; prefix++) {
      length = prefix;
      memcpy(input, fuzz_seeds[s].bytes, length);
      try_input();
    }
    for (long i = 0; i < per_seed; i++) {
      length = fuzz_seeds[s].n;
      memcpy(input, fuzz_seeds[s].bytes, length);
      for (uint64_t k = draw(5) + 1; k > 0; k--) mutate(n_seeds);
      try_input();
    }
  }
  printf("%d seeds, %ld mutations of each\n", n_seeds, per_seed);
  return 0;
}
