/* The vendor's built-in vector types, in their sizes and alignments. */
#ifndef CUDASIM_VECTOR_TYPES_H
#define CUDASIM_VECTOR_TYPES_H

#define CUDASIM_VECTORS(T, name, align2, align4)                                                   \
  typedef struct name##1 {                                                                         \
    T x;                                                                                           \
  }                                                                                                \
  name##1;                                                                                         \
  typedef struct __attribute__((aligned(align2))) name##2 {                                        \
    T x, y;                                                                                        \
  }                                                                                                \
  name##2;                                                                                         \
  typedef struct name##3 {                                                                         \
    T x, y, z;                                                                                     \
  }                                                                                                \
  name##3;                                                                                         \
  typedef struct __attribute__((aligned(align4))) name##4 {                                        \
    T x, y, z, w;                                                                                  \
  }                                                                                                \
  name##4;
CUDASIM_VECTORS(signed char, char, 2, 4)
CUDASIM_VECTORS(unsigned char, uchar, 2, 4)
CUDASIM_VECTORS(short, short, 4, 8)
CUDASIM_VECTORS(unsigned short, ushort, 4, 8)
CUDASIM_VECTORS(int, int, 8, 16)
CUDASIM_VECTORS(unsigned, uint, 8, 16)
CUDASIM_VECTORS(long long, longlong, 16, 16)
CUDASIM_VECTORS(unsigned long long, ulonglong, 16, 16)
CUDASIM_VECTORS(float, float, 8, 16)
CUDASIM_VECTORS(double, double, 16, 16)
#undef CUDASIM_VECTORS

typedef struct dim3 {
  unsigned x, y, z;
#ifdef __cplusplus
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
#endif
} dim3;
#endif
