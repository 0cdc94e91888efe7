/* What a C header declares, as ddpc needs it: functions with annotations (ddp/op.h) and their
   parameters. cimport.c fills it; it alone knows libclang. */
#ifndef SEMA_CIMPORT_H
#define SEMA_CIMPORT_H
#include "ir.h"
#include "source.h"

typedef enum CNoteKind {
  NOTE_op,
  NOTE_body,
  NOTE_grad,
  NOTE_out,
  NOTE_in,
  NOTE_attr,
  NOTE_size,
  NOTE_KINDS
} CNoteKind;

/* One use of a macro of ddp/op.h. */
typedef struct CNote {
  bool given;
  Span at;   /* of the macro's name */
  Span text; /* of its arguments; empty where it has none */
} CNote;

typedef struct CType {
  bool pointer, constant; /* constant: what is pointed to */
  bool known;             /* `dtype` is the number it holds or points to */
  DType dtype;
  const char *text; /* as written */
} CType;

typedef struct CParam {
  const char *name; /* "" where it has none */
  Span at;          /* of the name */
  CType type;
  CNote note[NOTE_KINDS];
} CParam;

typedef struct CFunction {
  const char *name;
  Span at;
  CNote note[NOTE_KINDS];
  bool returns_void;
  bool inside; /* its definition stands in the header */
  VEC(CParam) params;
} CFunction;

typedef struct CHeader {
  VEC(CFunction) functions; /* those with an annotation, in order */
} CHeader;

bool cimport_available(void);
/* Reads the header that is registered as `source` and lies at `path`. `folders`: of #include.
   `at`: the import. False after a report: E0908 with clang's first message at its place, E0911
   without libclang. */
bool cimport_read(Arena *a, uint32_t source, const char *path, const char *const *folders,
                  uint32_t n_folders, Span at, CHeader *out);
#endif
