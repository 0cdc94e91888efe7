/* The settings of a run and where each came from: flag > --config file > spec > default. */
#ifndef DDP_CORE_CONFIG_H
#define DDP_CORE_CONFIG_H
#include "ddp/job.h"
#include "ddp/settings.h"
#include "ddp/status.h"
#include <stdio.h>

typedef enum DdpSettingType {
  DDP_TYPE_int,
  DDP_TYPE_float,
  DDP_TYPE_bool,
  DDP_TYPE_text,
  DDP_TYPE_word,
  DDP_TYPE_list,
  DDP_TYPE_map
} DdpSettingType;

typedef struct DdpSettingRow { /* a row of settings.def */
  const char *block, *name;
  DdpSettingType type;
  bool nullable;
  const char *default_, *values;
  char class_; /* C R A X */
  bool later;  /* not supported yet */
  const char *doc;
  size_t offset; /* of the member in DdpSettings */
} DdpSettingRow;

typedef enum DdpKey {
#define SETTING(block, name, type, nullable, default_, values, class_, state, doc) DDP_KEY_##name,
#include "settings.def"
  DDP_KEY_COUNT
} DdpKey;
extern const DdpSettingRow ddp_setting_rows[DDP_KEY_COUNT];

typedef struct DdpConfig {
  DdpSettings settings;
  const char *value[DDP_KEY_COUNT];  /* as text */
  const char *source[DDP_KEY_COUNT]; /* "job.ddp:31", "-D", "run.json", "--max_steps", "default" */
  bool fixed[DDP_KEY_COUNT];         /* no override at run time */
  /* the program's own flags */
  bool help, help_env, spec, version, print_config, init_only;
  const char *profile;
  const char *config, *init_from, *predict, *predict_split;
  const char *stop_at_update;
  int64_t stop_at; /* 0: not given */
  const char *generate, *prompt, *temperature, *top_k;
  struct DdpText *texts; /* owned copies */
} DdpConfig;

/* A copy that lives as long as the configuration. */
const char *ddp_config_keep(DdpConfig *c, const char *text);
/* Reads everything; the first error names the flag or key, the reason and the fix. argv without the
   launcher's flags. *out is to be freed also after an error. */
DdpError *ddp_config_read(DdpConfig *out, const DdpJob *job, int argc, char **argv);
void ddp_config_free(DdpConfig *c);
/* --print_config: key, value, source. */
void ddp_config_print(const DdpConfig *c, FILE *out);
/* The part of --help about the program's own flags and the settings. */
void ddp_config_help(const DdpConfig *c, FILE *out);
/* "key=value\n" of all settings that must agree on all ranks; to be freed. NULL: out of memory. */
char *ddp_config_agreement(const DdpConfig *c);

/* One value: text -> member of its type. The error names the key and what is allowed. */
DdpError *ddp_config_parse(DdpSettings *into, const DdpSettingRow *row, const char *text);
/* Do two texts stand for the same value of this row? */
bool ddp_config_same(const DdpSettingRow *row, const char *a, const char *b);
#endif
