/* A plan as JSON. */
#ifndef DRIVER_PLAN_JSON_H
#define DRIVER_PLAN_JSON_H
#include "command.h"

json_t *plan_json(const Plan *plan, Arena *a);
#endif
