/* A fuzz target: seeds and one function. mutate.c runs it on mutated seeds, the same ones every time;
   with DDP_FUZZ (clang) libFuzzer runs it for as long as one likes. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H
#include <stddef.h>
#include <stdint.h>

typedef struct FuzzSeed {
  const char *bytes;
  size_t n;
} FuzzSeed;
#define FUZZ_SEED(text)                                                                            \
  { text, sizeof(text) - 1 }

/* Ends with n = 0. */
extern const FuzzSeed fuzz_seeds[];
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* The input as a file in memory: a path that can be opened. fuzz_file_close gives it back. */
const char *fuzz_file(const uint8_t *data, size_t n);
void fuzz_file_close(void);
#endif
