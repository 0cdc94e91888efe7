/* One copy of a loop per instruction set, chosen when the program is loaded: for loops of the runtime that move
   much memory. Not for loops whose order of additions counts. */
#ifndef DDP_CORE_MULTIVERSION_H
#define DDP_CORE_MULTIVERSION_H
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                             \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define DDP_MULTIVERSION __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define DDP_MULTIVERSION
#endif
#endif
