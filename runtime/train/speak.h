/* How much this rank says on stderr, by the settings that TrainingArguments have for it. */
#ifndef DDP_TRAIN_SPEAK_H
#define DDP_TRAIN_SPEAK_H
#include "config.h"
#include "launch.h"

/* A level that was set wins over DDP_LOG, which wins over the defaults. */
void run_speak(const DdpConfig *c, const DdpLaunch *launch);
#endif
