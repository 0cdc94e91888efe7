/* Errors as values: NULL is success. The first error wins; only ddp_main exits. */
#ifndef DDP_STATUS_H
#define DDP_STATUS_H

typedef enum DdpClass {                  /* also the exit code of the process */
                        DDP_FAILED = 1,  /* anything not named below */
                        DDP_USAGE = 2,   /* flags, settings */
                        DDP_DATA = 3,    /* data files */
                        DDP_PEER = 4,    /* lost, stopped or disagreeing rank */
                        DDP_TIMEOUT = 5, /* ddp_timeout */
                        DDP_IO = 6,      /* cannot write: disk full, permissions */
                        DDP_MEMORY = 7,
                        DDP_NUMERIC = 8, /* NaN with on_nan = stop */
                        DDP_STOPPED = 9, /* by a signal, after what was promised has been saved */
} DdpClass;

typedef struct DdpError {
  DdpClass klass;
  int rank;      /* who is to blame; -1: nobody in particular */
  char *message; /* one line or several; says what, where, why, what to do */
} DdpError;

DdpError *ddp_error(DdpClass klass, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Blames a rank. */
DdpError *ddp_error_rank(DdpClass klass, int rank, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void ddp_error_free(DdpError *e);
/* Keeps `first`, frees the other; either may be NULL. */
DdpError *ddp_error_first(DdpError *first, DdpError *second);

#define DDP_TRY(call)                                                                              \
  do {                                                                                             \
    DdpError *error_ = (call);                                                                     \
    if (error_) return error_;                                                                     \
  } while (0)
#endif
