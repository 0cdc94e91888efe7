/* A switch saves what the calling convention keeps over a call, nothing else: 8 ns where ucontext, which asks the
   kernel for signal masks, takes 170. */
#include "fiber.h"
#include <stdlib.h>
#include <sys/mman.h>
#ifdef CUDASIM_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

#if !defined(CUDASIM_UCONTEXT)
extern "C" void cudasim_switch(void **save, void *to);
#if defined(__x86_64__)
asm(R"(
.text
.globl cudasim_switch
.type cudasim_switch,@function
cudasim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp,(%rdi)
  movq %rsi,%rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size cudasim_switch,.-cudasim_switch
)");
#else
asm(R"(
.text
.globl cudasim_switch
.type cudasim_switch,%function
cudasim_switch:
  sub sp,sp,#160
  stp x19,x20,[sp]
  stp x21,x22,[sp,#16]
  stp x23,x24,[sp,#32]
  stp x25,x26,[sp,#48]
  stp x27,x28,[sp,#64]
  stp x29,x30,[sp,#80]
  stp d8,d9,[sp,#96]
  stp d10,d11,[sp,#112]
  stp d12,d13,[sp,#128]
  stp d14,d15,[sp,#144]
  mov x9,sp
  str x9,[x0]
  mov sp,x1
  ldp x19,x20,[sp]
  ldp x21,x22,[sp,#16]
  ldp x23,x24,[sp,#32]
  ldp x25,x26,[sp,#48]
  ldp x27,x28,[sp,#64]
  ldp x29,x30,[sp,#80]
  ldp d8,d9,[sp,#96]
  ldp d10,d11,[sp,#112]
  ldp d12,d13,[sp,#128]
  ldp d14,d15,[sp,#144]
  add sp,sp,#160
  ret
.size cudasim_switch,.-cudasim_switch
)");
#endif
#endif

namespace cudasim {
enum : size_t { STACK = 256 << 10, GUARD = 4096 };
Fiber host, *running = &host;
/* A ring, since a block has at most 1024 threads. It never allocates: the thread sanitizer sees what each fiber
   allocates and frees as if threads did it. */
static Ring<Fiber *, 2048> &idle = *new Ring<Fiber *, 2048>;
#ifdef CUDASIM_ASAN
static const void *host_bottom; /* of the stack of whoever started the grid */
static size_t host_size;
#endif

/* First instruction of a new fiber. The sanitizers must not instrument it: it runs before they know the stack. */
__attribute__((no_sanitize("address", "thread"))) static void entry() {
#ifdef CUDASIM_ASAN
  const void *bottom;
  size_t size;
  __sanitizer_finish_switch_fiber(nullptr, &bottom, &size);
  if (!host_bottom) {
    host_bottom = bottom;
    host_size = size;
  }
#endif
  fiber_main();
}

/* Tops of stacks lie at different distances from a page's end, or all would share a few lines of the cache. */
static void first_frame(Fiber *f, size_t number) {
  char *top = f->stack + STACK - 64 - number % 48 * 64;
#if defined(CUDASIM_UCONTEXT)
  getcontext(&f->context);
  f->context.uc_stack.ss_sp = f->stack;
  f->context.uc_stack.ss_size = (size_t)(top - f->stack);
  f->context.uc_link = nullptr;
  makecontext(&f->context, entry, 0);
#elif defined(__x86_64__)
  void **sp = (void **)top;
  *--sp = nullptr;
  *--sp = (void *)entry;
  for (int i = 0; i < 6; i++) *--sp = nullptr;
  f->sp = sp;
#else
  void **sp = (void **)top - 20;
  memset(sp, 0, 160);
  sp[11] = (void *)entry;
  f->sp = sp;
#endif
}

Fiber *fiber_take() {
  if (!idle.empty()) {
#ifdef CUDASIM_TSAN /* the oldest: threads of two blocks seldom share one */
    return idle.pop_oldest();
#else /* the newest: its stack is in the cache */
    return idle.pop_newest();
#endif
  }
  static size_t number;
  Fiber *f = new Fiber;
  char *p = (char *)mmap(nullptr, GUARD + STACK, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED || mprotect(p, GUARD, PROT_NONE)) die("no memory for a fiber");
  f->stack = p + GUARD;
  first_frame(f, number++);
#ifdef CUDASIM_TSAN
  f->tsan = __tsan_create_fiber(0);
#endif
  return f;
}

void fiber_put(Fiber *f) {
  f->on = nullptr;
  idle.push(f);
}

__attribute__((no_sanitize("address", "thread"))) void fiber_switch(Fiber *to) {
  Fiber *from = running;
  running = to;
#ifdef CUDASIM_ASAN
  if (from == &host) host_bottom = nullptr; /* another thread may have started this grid */
  bool back = to == &host;
  __sanitizer_start_switch_fiber(&from->fake, back ? host_bottom : to->stack,
                                 back ? host_size : STACK);
#endif
#ifdef CUDASIM_TSAN
  if (from == &host) host.tsan = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(to->tsan, 1 /* a switch orders nothing */);
#endif
#ifdef CUDASIM_UCONTEXT
  swapcontext(&from->context, &to->context);
#else
  cudasim_switch(&from->sp, to->sp);
#endif
#ifdef CUDASIM_ASAN
  const void *bottom;
  size_t size;
  __sanitizer_finish_switch_fiber(from->fake, &bottom, &size);
  if (from != &host && !host_bottom) {
    host_bottom = bottom;
    host_size = size;
  }
#endif
}
} // namespace cudasim
