/* The embedded library as the build makes it: texts, and which file declares which name, so that a
   file is parsed only when one of its names is used. */
#ifndef SEMA_STDLIB_TABLE_H
#define SEMA_STDLIB_TABLE_H
#include <stddef.h>

typedef struct StdlibFile {
  const char *path, *text; /* "std/nn.ddp" */
  size_t length;
} StdlibFile;
typedef struct StdlibName {
  const char *name, *path;
} StdlibName;

extern const StdlibFile stdlib_files[];
extern const int stdlib_file_count;
extern const StdlibName stdlib_names[];
extern const int stdlib_name_count;
#endif
