/* See flag.h. */
#include "flag.h"
#include <stddef.h>
#include <string.h>

static char folded(char c) {
  return c == '_' ? '-' : c;
}

bool ddp_flag_spells(const char *argument, const char *name, const char **value) {
  if (strncmp(argument, "--", 2) != 0) return false;
  const char *a = argument + 2;
  while (*name && folded(*a) == folded(*name)) a++, name++;
  if (*name || (*a && *a != '=')) return false;
  *value = *a ? a + 1 : NULL;
  return true;
}
