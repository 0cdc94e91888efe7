/* What the parts of source.c share: arguments as given, and whether a source can fill the fields. */
#ifndef SEMA_DATA_SOURCE_H
#define SEMA_DATA_SOURCE_H
#include "analysis.h"

typedef struct SourceBuild {
  Analysis *a;
  Dataset *d;
  Eval *e;
  Env *env;
  int64_t grouped; /* samples that stand together in one: the first dimension of every field; 0 */
} SourceBuild;

typedef struct Given { /* one argument as given */
  const Arg *arg;      /* NULL: left out */
  const char *text;    /* text, word */
  VEC(const char *) paths;
  int64_t n;
  bool flag;
  int32_t source;
} Given;

/* Do the fields of the dataset fit? false after a report. */
typedef bool SourceFits(SourceBuild *b, const Given *given, const Expr *x);
SourceFits fits_cifar, fits_folder, fits_windows, fits_tokens, fits_numbers, fits_synthetic;

/* source_text.c: the characters of the texts that a field is cut out of. */
bool text_vocabulary(Analysis *a, Dataset *d, Field *f);
/* A path as the program opens it. */
const char *source_path(Analysis *a, const char *path);
#endif
