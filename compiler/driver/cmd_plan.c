/* `ddpc plan`: what was decided, for people and as JSON. */
#include "run.h"

int cmd_plan(Run *r) {
  int code;
  Plan *plan = run_plan(r, &code);
  if (!plan) return code;
  Text text = {0};
  plan_print(&text, plan);
  code = run_write(NULL, &text);
  text_free(&text);
  return code;
}
