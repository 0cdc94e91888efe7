/* The settings of a run, typed: one member per key of settings.def. The parser (core/config.h) fills
   it; optimizers, the loop and emitted code read it.
   int -> int64_t, float -> double, bool -> int8_t, text, word, list and map -> const char *.
   `none`: DDP_NONE_INT, NaN, -1, NULL. */
#ifndef DDP_SETTINGS_H
#define DDP_SETTINGS_H
#include <stdint.h>

#define DDP_NONE_INT INT64_MIN

typedef int64_t DdpSetting_int;
typedef double DdpSetting_float;
typedef int8_t DdpSetting_bool;
typedef const char *DdpSetting_text;
typedef const char *DdpSetting_word;
typedef const char *DdpSetting_list;
typedef const char *DdpSetting_map;

struct DdpSettings {
#define SETTING(block, name, type, nullable, default_, values, class_, state, doc)                 \
  DdpSetting_##type name;
#include "settings.def"
};
#endif
