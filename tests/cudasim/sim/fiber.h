/* Stacks of their own, and the switch from one to another. */
#ifndef CUDASIM_FIBER_H
#define CUDASIM_FIBER_H
#include "sim.h"
#ifdef CUDASIM_TSAN /* the emulator itself is then built without the sanitizer, everything else with it */
#include <sanitizer/tsan_interface.h>
#endif
#if !defined(CUDASIM_UCONTEXT) && !defined(__x86_64__) && !defined(__aarch64__)
#define CUDASIM_UCONTEXT 1
#endif
#ifdef CUDASIM_UCONTEXT
#include <ucontext.h>
#endif

namespace cudasim {
/* At most N things, N a power of two. */
template <class T, unsigned N> struct Ring {
  T at[N];
  unsigned begin = 0, end = 0;
  bool empty() const { return begin == end; }
  void push(T x) { at[end++ % N] = x; }
  T pop_oldest() { return at[begin++ % N]; }
  T pop_newest() { return at[--end % N]; }
};

struct Thread;
struct Fiber {
  void *sp = nullptr;
  char *stack = nullptr;
  Thread *on = nullptr; /* whose it is */
  void *fake = nullptr, *tsan = nullptr;
#ifdef CUDASIM_UCONTEXT
  ucontext_t context;
#endif
};

/* The stack on which the grid was started. */
extern Fiber host, *running;
/* Of a fiber that is new or was put back; it begins, or goes on, in fiber_main(). */
Fiber *fiber_take();
void fiber_put(Fiber *f);
void fiber_switch(Fiber *to);
void fiber_main(); /* block.cpp */

/* Happens-before edges for the thread sanitizer, which sees each fiber as a thread. */
#ifdef CUDASIM_TSAN
inline void release(void *at) {
  __tsan_release(at);
}
inline void acquire(void *at) {
  __tsan_acquire(at);
}
#else
inline void release(void *) {}
inline void acquire(void *) {}
#endif
} // namespace cudasim
#endif
