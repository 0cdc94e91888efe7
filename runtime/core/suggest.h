/* "did you mean": the nearest of some names. */
#ifndef DDP_CORE_SUGGEST_H
#define DDP_CORE_SUGGEST_H

/* The nearest name if it is near enough to be a slip of the pen, or NULL. name_at(i) gives the i-th. */
const char *ddp_suggest(const char *word, const char *(*name_at)(int i), int n);
#endif
