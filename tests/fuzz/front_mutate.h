/* Jobs made from jobs: changes that know what a name, a number, a text, a bracket and a line are, so that
   many results still parse and reach evaluation. */
#ifndef TESTS_FUZZ_FRONT_MUTATE_H
#define TESTS_FUZZ_FRONT_MUTATE_H
#include <stddef.h>
#include <stdint.h>

typedef struct Mutator Mutator;

/* words: a file, one word a line; files: the corpus. */
Mutator *mutator_new(uint64_t seed, const char *words, char **files, int n_files);
void mutator_free(Mutator *m);
/* The text of a file of the corpus. */
const char *mutator_text(const Mutator *m, int i);
/* The next job; it lives until the next call. */
const char *mutator_next(Mutator *m, size_t *length);
#endif
