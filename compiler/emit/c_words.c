/* See c_words.h. */
#include "c_words.h"
#include <stddef.h>
#include <string.h>

/* clang-format off */
static const char *const words[] = {
    /* C */
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else",
    "enum", "extern", "float", "for", "goto", "if", "inline", "int", "long", "register",
    "restrict", "return", "short", "signed", "sizeof", "static", "struct", "switch", "typedef",
    "union", "unsigned", "void", "volatile", "while", "bool", "true", "false", "typeof", "asm",
    /* C++ */
    "alignas", "alignof", "and", "and_eq", "bitand", "bitor", "catch", "char8_t", "char16_t",
    "char32_t", "class", "compl", "concept", "consteval", "constexpr", "constinit", "const_cast",
    "co_await", "co_return", "co_yield", "decltype", "delete", "dynamic_cast", "explicit",
    "export", "final", "friend", "import", "module", "mutable", "namespace", "new", "noexcept",
    "not", "not_eq", "nullptr", "operator", "or", "or_eq", "override", "private", "protected",
    "public", "reinterpret_cast", "requires", "static_assert", "static_cast", "std", "template",
    "this", "thread_local", "throw", "try", "typeid", "typename", "using", "virtual", "wchar_t",
    "xor", "xor_eq",
    /* CUDA and its emulator */
    "threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "dim3", "bf16", "f16", "half", "half2",
    "clock", "clock64", "min", "max",
    /* types and macros of headers */
    "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t",
    "size_t", "ssize_t", "ptrdiff_t", "intptr_t", "uintptr_t", "float_t", "double_t",
    "int_fast8_t", "NULL", "NAN", "INFINITY", "HUGE_VAL", "M_E", "M_LOG2E", "M_LOG10E", "M_LN2",
    "M_LN10", "M_PI", "M_PI_2", "M_PI_4", "M_1_PI", "M_2_PI", "M_2_SQRTPI", "M_SQRT2", "M_SQRT1_2",
    "INT_MAX", "INT_MIN", "INT64_MIN", "INT64_MAX", "EOF", "FILE", "BUFSIZ", "RAND_MAX", "I",
    "errno", "assert", "stdin", "stdout", "stderr", "offsetof", "va_list", "unix", "linux", "i386",
    "isnan", "isinf", "isfinite", "isnormal", "signbit", "fpclassify",
    /* functions that emitted text calls */
    "memset", "memcpy", "memmove", "memcmp", "strcmp", "strlen", "abs", "fabs", "fabsf", "sqrt",
    "sqrtf", "pow", "powf", "floor", "floorf", "ceil", "ceilf", "rint", "rintf", "fmax", "fmaxf",
    "fmin", "fminf", "fma", "fmaf", "exp", "expf", "log", "logf", "sin", "sinf", "cos", "cosf",
    "tanh", "tanhf", "erf", "erff", "log1p", "log1pf", "expm1", "expm1f", "malloc", "free",
    "abort", "exit", "printf",
    /* the emitted text's own */
    "main", "step", "B", "s", "sums", "counts", "out", "job", "tensors", "block",
};
/* clang-format on */

bool is_c_word(const char *name) {
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (!strcmp(words[i], name)) return true;
  /* what the runtime, compilers and their headers keep for themselves */
  return !strncmp(name, "ddp_", 4) || !strncmp(name, "DDP_", 4) || !strncmp(name, "Ddp", 3) ||
         !strncmp(name, "cuda", 4) || !strncmp(name, "__", 2);
}
