/* What an initializer of a struct may leave out, in C and, with its warnings on, in C++. */
#ifndef DDP_DEFAULTS_H
#define DDP_DEFAULTS_H

#ifdef __cplusplus
#define DDP_UNSAID(value) = value
#else
#define DDP_UNSAID(value) /* 0, as ever */
#endif
#endif
