/* What the two halves of the name check share: resolve.c walks expressions and bodies, resolve_def.c
   definitions and files. */
#ifndef SEMA_RESOLVE_H
#define SEMA_RESOLVE_H
#include "eval.h"

typedef enum KnownKind {
  KNOWN_formal,
  KNOWN_size,
  KNOWN_local,
  KNOWN_member, /* leaf or sub-module or constant of a module */
  KNOWN_buffer,
  KNOWN_param,
  KNOWN_index,
} KnownKind;

typedef struct Known {
  const char *name;
  KnownKind kind;
  Span at;
  int uses;
  bool bound;   /* size: stands alone in an input */
  int inputs;   /* size: times in types of inputs */
  bool exempt;  /* never reported as unused */
  bool half;    /* made in one branch of an `if` that is over */
  bool module;  /* member that is made by a call of a capital name */
  bool not_yet; /* declared further down */
} Known;

typedef struct Names {
  struct Names *parent;
  VEC(Known) known;
  bool body; /* locals made here end here */
} Names;

typedef struct Resolver {
  Program *p;
  File *file;
  Arena *arena;
  const Decl *decl;         /* being resolved */
  VEC(const char *) dotted; /* names that stand after a dot somewhere: used from outside */
  VEC(const char *) metrics;
  VEC(FileName *) refers; /* file names that `decl` mentions */
  bool soft;              /* marks uses, reports nothing unknown */
} Resolver;

Names *names_new(Resolver *r, Names *parent);
Known *names_find(Names *names, const char *name);
Known *names_own(Names *names, const char *name);
Known *names_define(Resolver *r, Names *names, const char *name, KnownKind kind, Span at);
/* `weight_l{k}` as one key; resolves the index (E0312). */
const char *resolve_name_key(Resolver *r, Names *names, const Name *n);
/* A name is read: counts the use, or reports E0301, E0306, E0315. */
void resolve_use(Resolver *r, Names *names, const char *name, Span at);
void resolve_expr(Resolver *r, Names *names, const Expr *x);
void resolve_stmts(Resolver *r, Names *names, StmtList body);
/* A whole body with its results. */
void resolve_body(Resolver *r, Names *names, StmtList body, ExprList returns);
/* Unused locals, formals and sizes of a scope that ends. */
void resolve_end(Resolver *r, Names *names);
/* An upper-case name that nothing in scope has. */
bool resolve_is_size(Resolver *r, Names *names, const Expr *x);
void resolve_loop(Resolver *r, Names *outer, Names *inner, const Loop *loop);
#endif
