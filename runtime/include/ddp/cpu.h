/* The instructions that a program was compiled for: the compiler's macros as bits. In the job's own text
   DDP_CPU_COMPILED says what it may use; ddp_main compares it with the processor it runs on. */
#ifndef DDP_CPU_H
#define DDP_CPU_H

enum {
  DDP_CPU_avx2 = 1,
  DDP_CPU_fma = 2,
  DDP_CPU_avx512f = 4,
  DDP_CPU_avx512bw = 8,
  DDP_CPU_avx512vl = 16,
  DDP_CPU_avx512vnni = 32,
  DDP_CPU_avx512bf16 = 64
};
/* In the program's own text: the instructions its compiler may have used. */
#if defined(__AVX2__)
#define DDP_HAS_AVX2 DDP_CPU_avx2
#else
#define DDP_HAS_AVX2 0
#endif
#if defined(__FMA__)
#define DDP_HAS_FMA DDP_CPU_fma
#else
#define DDP_HAS_FMA 0
#endif
#if defined(__AVX512F__)
#define DDP_HAS_AVX512F DDP_CPU_avx512f
#else
#define DDP_HAS_AVX512F 0
#endif
#if defined(__AVX512BW__)
#define DDP_HAS_AVX512BW DDP_CPU_avx512bw
#else
#define DDP_HAS_AVX512BW 0
#endif
#if defined(__AVX512VL__)
#define DDP_HAS_AVX512VL DDP_CPU_avx512vl
#else
#define DDP_HAS_AVX512VL 0
#endif
#if defined(__AVX512VNNI__)
#define DDP_HAS_AVX512VNNI DDP_CPU_avx512vnni
#else
#define DDP_HAS_AVX512VNNI 0
#endif
#if defined(__AVX512BF16__)
#define DDP_HAS_AVX512BF16 DDP_CPU_avx512bf16
#else
#define DDP_HAS_AVX512BF16 0
#endif
#define DDP_CPU_COMPILED                                                                           \
  (DDP_HAS_AVX2 | DDP_HAS_FMA | DDP_HAS_AVX512F | DDP_HAS_AVX512BW | DDP_HAS_AVX512VL |            \
   DDP_HAS_AVX512VNNI | DDP_HAS_AVX512BF16)
#endif
