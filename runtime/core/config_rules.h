/* Rules between settings that a run must keep; the compiler has the same ones for what a job says
   (compiler/sema/setting_rules.c), and flags may break them again. */
#ifndef DDP_CORE_CONFIG_RULES_H
#define DDP_CORE_CONFIG_RULES_H
#include "config.h"

/* The first rule that is broken, as a DDP_USAGE. */
DdpError *ddp_config_rules(const DdpConfig *c);
#endif
