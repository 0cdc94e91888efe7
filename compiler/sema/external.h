/* Operators of C headers inside sema: external.c reads a header into a File whose names are its operators,
   external_call.c makes values of the graph of their calls. */
#ifndef SEMA_EXTERNAL_H
#define SEMA_EXTERNAL_H
#include "analysis.h"
#include "cimport.h"

typedef enum RoleKind { ROLE_result, ROLE_input, ROLE_attribute, ROLE_size } RoleKind;
typedef struct Role { /* what a parameter of the C function takes */
  RoleKind kind;
  uint32_t formal;  /* input, attribute */
  const Expr *size; /* size */
  DType dtype;      /* of what is passed or pointed to */
} Role;

typedef struct NativeOp {
  const CFunction *c;
  const Decl *decl; /* head of a `def`; value: the body where it is an expression, or NULL */
  VEC(Role) roles;  /* by C parameter */
  FileName *body;   /* definition in body_file, or NULL */
  File *body_file;
  const Expr *grad; /* call whose named arguments are the gradients, or NULL */
} NativeOp;

typedef struct Natives { /* File.natives */
  VEC(NativeOp) ops;
  const Decl *import;
  uint32_t number; /* in Job.natives */
  bool inside;     /* the functions stand in the header */
  bool compiled;   /* the target has code for them */
} Natives;

/* The dtype in which a tensor type of a signature lies in memory; false: no such type. */
bool external_dtype(const TypeExpr *type, DType *out);
/* A formal that is a tensor, not an attribute. */
static inline bool external_is_tensor(const Formal *f) {
  return f->type->kind == TYPE_tensor;
}
#endif
