/* Look-ups in the tables of keys. */
#include "keys.h"
#include "text.h"
#include <string.h>

static const KeyRow rows[] = {
#define SETTING(block, name, type, nullable, initial, values, class, state, doc)                   \
  {#block, #name, #type, KEY_##type, nullable, initial, values, #class[0], #state[0] == 'l', doc},
#include "settings.def"
};
static const OldKey old[] = {
#define OLDNAME(name, now, how, text) {#name, #now, OLD_##how, text},
#include "oldnames.def"
};
enum { ROWS = sizeof rows / sizeof *rows, OLD = sizeof old / sizeof *old };

int key_rows(void) {
  return ROWS;
}
const KeyRow *key_row(int i) {
  return &rows[i];
}

const KeyRow *key_find(const char *name) {
  if (!strncmp(name, "train.", 6)) name += 6;
  if (!strncmp(name, "runtime.", 8)) name += 8;
  for (int i = 0; i < ROWS; i++)
    if (!strcmp(rows[i].name, name)) return &rows[i];
  return NULL;
}

const OldKey *key_find_old(const char *name) {
  for (int i = 0; i < OLD; i++)
    if (!strcmp(old[i].name, name)) return &old[i];
  return NULL;
}

const char *key_nearest(const char *name) {
  TextNearest nearest = {.wanted = name};
  for (int i = 0; i < ROWS; i++) text_offer(&nearest, rows[i].name);
  return nearest.best;
}
