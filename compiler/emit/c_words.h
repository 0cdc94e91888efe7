/* Names that emitted text cannot give to what a job names: words of C, C++ and CUDA, and what their headers
   define. One table for all texts, so that a job has the same names in each. */
#ifndef EMIT_C_WORDS_H
#define EMIT_C_WORDS_H
#include <stdbool.h>

bool is_c_word(const char *name);
#endif
