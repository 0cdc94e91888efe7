/* The rows of settings.def and oldnames.def, for commands that talk about keys. */
#ifndef DRIVER_KEYS_H
#define DRIVER_KEYS_H
#include <stdbool.h>

typedef enum KeyType {
  KEY_int,
  KEY_float,
  KEY_bool,
  KEY_text,
  KEY_word,
  KEY_list,
  KEY_map,
} KeyType;
typedef struct KeyRow {
  const char *block, *name, *type_name;
  KeyType type;
  bool nullable;
  const char *initial, *values;
  char class; /* C R A X */
  bool later;
  const char *doc;
} KeyRow;
typedef struct OldKey {
  const char *name, *now;
  enum { OLD_same, OLD_word, OLD_drop } how;
  const char *text;
} OldKey;

int key_rows(void);
const KeyRow *key_row(int i);
const KeyRow *key_find(const char *name);     /* "learning_rate", "train.learning_rate"; NULL */
const OldKey *key_find_old(const char *name); /* NULL */
const char *key_nearest(const char *name);    /* for "did you mean"; NULL */
#endif
