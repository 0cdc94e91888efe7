/* What a job says, as one text: two jobs have the same text when nothing that is trained differs. */
#ifndef SEMA_IDENTITY_H
#define SEMA_IDENTITY_H
#include "analysis.h"

void identity_print(Analysis *a, Text *out);
#endif
