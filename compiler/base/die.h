/* Internal faults of the compiler: never for bad input. Prints pass, place and message, aborts. */
#ifndef BASE_DIE_H
#define BASE_DIE_H
void die_at(const char *file, int line, const char *format, ...)
    __attribute__((noreturn, format(printf, 3, 4)));
/* What is being worked on, for the message of die ("pass fuse"). */
void die_context(const char *what);
#define die(...) die_at(__FILE__, __LINE__, __VA_ARGS__)
#define check(condition, ...)                                                                      \
  do {                                                                                             \
    if (!(condition)) die_at(__FILE__, __LINE__, __VA_ARGS__);                                     \
  } while (0)
#endif
