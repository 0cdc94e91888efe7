/* Arguments of TrainingArguments as people have them: JSON, or a call pasted from Python. */
#ifndef DRIVER_PASTED_H
#define DRIVER_PASTED_H
#include "command.h"

/* An object in the order written; NULL after a message on stderr. */
json_t *pasted_read(Arena *a, const char *path, const char *text);
#endif
