/* NVIDIA's libraries that are opened when they are needed: a program on one GPU runs without NCCL, one
   without products without cuBLASLt, and what is missing is said in one line.
   A library is a list of its functions, X(name) for each, from which come a table of pointers and the names
   to look up:

     #define LT_FUNCTIONS(X) X(cublasLtCreate) X(cublasLtMatmul)
     static struct { LT_FUNCTIONS(CUDA_POINTER) } lt;
     static const char *const lt_names[] = {LT_FUNCTIONS(CUDA_NAME) NULL};
     DDP_TRY(cuda_library_open(&library, lt_names, &lt));  // then lt.cublasLtCreate(..)
*/
#ifndef DDP_CUDA_LIBRARY_H
#define DDP_CUDA_LIBRARY_H
#include "ddp/status.h"
#include "env.h"

#define CUDA_POINTER(name) __typeof__(&name) name;
#define CUDA_NAME(name)    #name,

typedef struct CudaLibrary {
  const char *what;    /* "cuBLASLt" */
  const char *file;    /* "libcublasLt.so.13", with the number of its binary interface */
  DdpEnv other;        /* names another file */
  const char *install; /* where to get it: "it comes with the CUDA toolkit" */
} CudaLibrary;

/* Fills `pointers` (as many as names) in their order. The library stays open until the process ends.
   Errors: not found, or a function that it does not have. */
DdpError *cuda_library_open(const CudaLibrary *library, const char *const *names, void *pointers);
#endif
