/* User diagnostics: collected, not first-only; printed in order of place by diag_flush.
   Codes and their long texts stand in diag.def. Internal faults do not come here (die.h).

   file:line:col: error[E0301]: unknown name `relo`
      31 |     h = relo(fc1(x))
         |         ^^^^
   help: did you mean `relu`?                                  */
#ifndef BASE_DIAG_H
#define BASE_DIAG_H
#include "source.h"
#include <stdio.h>

typedef enum DiagCode {
#define DIAG(code, title, explanation) DIAG_##code,
#include "diag.def"
  DIAG_COUNT
} DiagCode;

/* Starts a diagnostic; codes that begin with W are warnings. The same code at the same place is
   reported once. The message is one line, without a final stop, names in `backquotes`. */
void diag_report(DiagCode code, Span at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Adds to the diagnostic reported last: another place / what to do about it. */
void diag_note(Span at, const char *format, ...) __attribute__((format(printf, 2, 3)));
void diag_help(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* An error was reported that begins where this span does; what follows from it need not be said. */
bool diag_reported_at(Span at);
unsigned diag_errors(void); /* errors reported so far (warnings not counted) */
/* What is not supported yet (E0716) is an error where a program is made and the warning W0718 where a
   job is only checked: what stands there is right, and nothing more is said about what needs it.
   diag_later: how often it was met; graphs may then be incomplete. */
void diag_lenient(bool lenient);
unsigned diag_later(void);
/* What was reported, in order of place, for tools. */
typedef struct DiagNote {
  Span at;           /* file 0: no place */
  const char *label; /* "note", "help" */
  const char *text;
} DiagNote;
typedef struct DiagView {
  DiagCode code;
  Span at;
  const char *text;
  const DiagNote *notes;
  uint32_t n_notes;
} DiagView;
void diag_visit(void (*each)(void *self, const DiagView *d), void *self);
void diag_reset(void);                  /* forgets all, the counts too: another job begins */
void diag_flush(FILE *out, bool color); /* prints and forgets; the error count stays */
const char *diag_name(DiagCode code);   /* "E0301" */
const char *diag_title(DiagCode code);
const char *diag_explanation(DiagCode code);
bool diag_find(const char *name, DiagCode *out);
#endif
