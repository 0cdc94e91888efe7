/* Random texts of the language. In: a seed. Out: a text that parses without errors: every production of the
   grammar, odd spellings and layout, comments between any two tokens. It need not mean anything. The same
   seed gives the same text on every machine. */
#ifndef FUZZ_GENERATE_H
#define FUZZ_GENERATE_H
#include "text.h"

void generate_text(Text *out, uint64_t seed);
#endif
