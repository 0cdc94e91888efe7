/* pass_cast: the precision of the settings. In single precision, which is all there is so far, the
   graph already is what it should be; anything else is refused by name. */
#include "diag.h"
#include "passes.h"

Graph *pass_cast(Graph *g, const Job *job) {
  static const char *const keys[] = {"bf16", "fp16", "bf16_full_eval", "fp16_full_eval"};
  for (size_t i = 0; job && i < sizeof keys / sizeof *keys; i++)
    if (job_setting_is(job, keys[i], "true"))
      diag_report(DIAG_E0705, (Span){0}, "`%s` is not supported yet", keys[i]);
  return g;
}
