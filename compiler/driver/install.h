/* Where the headers and the runtime library are: beside this ddpc, in the build tree or installed. */
#ifndef DRIVER_INSTALL_H
#define DRIVER_INSTALL_H
#include "arena.h"

typedef struct Install {
  const char *include, *library, *plugins; /* folders, absolute */
} Install;

/* NULL after a message on stderr. */
const Install *install_find(Arena *a);
#endif
