/* The syntax tree of a .ddp file: what was written, in order, with places; no meaning yet.
   Built by grammar/ddp.y through the ast_* constructors of build.h, read by sema/ and fmt.
   Names are interned (text.h). Lists are plain arrays in the arena of the file. */
#ifndef SYNTAX_AST_H
#define SYNTAX_AST_H
#include "source.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct Expr Expr;
typedef struct TypeExpr TypeExpr;
typedef struct Stmt Stmt;
typedef struct Member Member;
typedef struct Decl Decl;

#define LIST(T)                                                                                    \
  struct {                                                                                         \
    T *at;                                                                                         \
    uint32_t len;                                                                                  \
  }
typedef LIST(Expr *) ExprList;
typedef LIST(TypeExpr *) TypeList;
typedef LIST(Stmt *) StmtList;
typedef LIST(Member *) MemberList;
typedef LIST(Decl *) DeclList;

/* A name as written. `weight_ih_l{k}_reverse`: index = "k", name = "weight_ih_l", suffix = "_reverse". */
typedef struct Name {
  const char *text;           /* whole text; for an indexed name the part before '{' */
  const char *index, *suffix; /* NULL unless indexed */
  Span span;
} Name;
typedef LIST(Name) NameList;

/* ---------- expressions ---------- */
typedef enum ExprKind {
  EXPR_error, /* stands where recovery dropped text */
  EXPR_int,
  EXPR_float,
  EXPR_percent,
  EXPR_text,
  EXPR_bool,
  EXPR_none,
  EXPR_name,
  EXPR_unary,
  EXPR_binary,
  EXPR_if,
  EXPR_member,
  EXPR_call,
  EXPR_index,
  EXPR_list,
  EXPR_tuple,
  EXPR_comprehension,
  EXPR_map,
} ExprKind;

typedef enum UnaryOp { UN_neg, UN_not } UnaryOp;
typedef enum BinaryOp {
  BIN_add,
  BIN_sub,
  BIN_mul,
  BIN_div,
  BIN_floordiv,
  BIN_mod,
  BIN_pow,
  BIN_matmul,
  BIN_lt,
  BIN_gt,
  BIN_le,
  BIN_ge,
  BIN_eq,
  BIN_ne,
  BIN_and,
  BIN_or,
  BIN_range,
} BinaryOp;
const char *ast_binary_text(BinaryOp op); /* "+" */

typedef struct Arg {
  const char *name; /* NULL: by position */
  Expr *value;
  Span span; /* of the name, or of the value */
} Arg;
typedef LIST(Arg) ArgList;

typedef struct Subscript {
  enum SubscriptKind { SUB_index, SUB_slice, SUB_ellipsis } kind;
  Expr *start, *stop, *step; /* index: start only; NULL where left out */
  Span span;
} Subscript;
typedef LIST(Subscript) SubscriptList;

typedef struct Loop { /* for TARGETS in ITERABLES */
  NameList targets;
  ExprList iterables;
  Span span;
} Loop;
typedef LIST(Loop) LoopList;

typedef struct MapItem {
  const char *key;
  bool quoted; /* "key": value */
  Expr *value;
  Span span;
} MapItem;
typedef LIST(MapItem) MapList;

struct Expr {
  ExprKind kind;
  Span span;
  union {
    int64_t i; /* int */
    double f;  /* float; percent: 80% -> 80.0 */
    struct {
      const char *text;
      uint32_t length;
    } text; /* unescaped */
    bool b;
    Name name;
    struct {
      UnaryOp op;
      Expr *operand;
    } unary;
    struct {
      BinaryOp op;
      Span op_span;
      Expr *left, *right;
    } binary;
    struct {
      Expr *condition, *yes, *no;
    } cond;
    struct {
      Expr *object;
      const char *name;
      Span name_span;
    } member;
    struct {
      Expr *callee;
      ArgList args;
    } call;
    struct {
      Expr *object;
      SubscriptList subs;
    } index;
    ExprList items; /* list, tuple */
    struct {
      Expr *value;
      LoopList loops;
    } comprehension;
    MapList map;
  } as;
  const char *literal; /* int, float, percent: digits as typed; else NULL */
  uint16_t depth;      /* levels of this expression, at most AST_DEPTH_MAX: recursion is safe */
  uint16_t parens;     /* redundant parentheses around it; span holds them */
};
enum { AST_DEPTH_MAX = 1000 };

/* ---------- types in signatures ---------- */
typedef enum TypeKind {
  TYPE_error,
  TYPE_tensor, /* [B, T]; float32[N]; `name` = dtype word or NULL (compute float); dims */
  TYPE_name,   /* int, float, bool, text, tensor, ints, function ... */
  TYPE_apply,  /* ints(2), list(int), category(["a","b"]): name + args */
  TYPE_module,
  TYPE_optimizer,
  TYPE_tuple,
} TypeKind;
typedef struct DimExpr {
  Expr *value; /* NULL: `...` */
  Span span;
} DimExpr;
typedef LIST(DimExpr) DimList;
struct TypeExpr {
  TypeKind kind;
  Span span;
  const char *name;
  DimList dims;
  ArgList args;
  TypeList items;
};

/* ---------- statements (bodies of def, forward, update, objective, transform) ---------- */
typedef enum StmtKind {
  STMT_error,
  STMT_assign,  /* targets = value */
  STMT_collect, /* targets = for ... { body yield values } */
  STMT_for,
  STMT_if,
  STMT_require,
  STMT_metric, /* objective only */
  STMT_output, /* likewise */
} StmtKind;
struct Stmt {
  StmtKind kind;
  Span span;
  NameList targets; /* assign, collect; metric, output: one */
  Expr *value;      /* assign, metric, output; condition of if and require */
  Loop loop;        /* collect, for */
  StmtList body, orelse;
  bool has_else;
  ExprList yields;     /* collect */
  const char *message; /* require; may be NULL */
};

typedef struct Formal {
  const char *name;
  TypeExpr *type;
  Expr *value; /* default; NULL: none given */
  Span span;
} Formal;
typedef LIST(Formal) FormalList;

/* `init Linear.weight`, `freeze h[0:6]`: member . member [slice] ... */
typedef struct PathStep {
  const char *name;           /* NULL: a subscript */
  const char *index, *suffix; /* of an indexed name, as in Name */
  Subscript sub;
  Span span;
} PathStep;
typedef struct Path {
  LIST(PathStep) steps;
  Span span;
} Path;
typedef LIST(Path) PathList;
typedef struct Where { /* paths, or everything when empty; minus `except` */
  PathList paths, except;
} Where;

/* forward(...) -> T { ... return ... }   or   update(...) { ... } */
typedef struct Step {
  bool is_update;
  const char *kernel; /* @kernel("x") or NULL */
  FormalList formals;
  TypeExpr *result; /* NULL: not declared */
  StmtList body;
  ExprList returns; /* forward */
  Span span, kernel_span;
} Step;

/* ---------- members of modules and optimizers ---------- */
typedef enum MemberKind {
  MEMBER_error,
  MEMBER_assign, /* sub-module or constant */
  MEMBER_param,
  MEMBER_buffer,
  MEMBER_tie,
  MEMBER_init,
  MEMBER_require,
  MEMBER_for,
  MEMBER_if,
  MEMBER_step,
} MemberKind;
struct Member {
  MemberKind kind;
  Span span;
  Name name;        /* assign, param, buffer */
  TypeExpr *type;   /* param, buffer */
  Expr *value;      /* assign, param, buffer, init; condition of require, if */
  Path left, right; /* tie: left = right; init: left */
  const char *message;
  Loop loop;
  MemberList body, orelse;
  bool has_else;
  Step *step;
};

/* ---------- settings ---------- */
typedef struct Setting {
  const char *key;
  Expr *value;
  bool is_final, comma;
  Span span, key_span;
} Setting;
typedef LIST(Setting) SettingList;

/* ---------- datasets ---------- */
typedef struct DataItem {
  enum DataKind { DATA_error, DATA_let, DATA_field, DATA_split, DATA_transform } kind;
  Span span;
  Name name;               /* let, field, split; transform: split it belongs to, text NULL = all */
  Expr *value;             /* let, split */
  TypeExpr *type;          /* field */
  Expr *range;             /* field ... in a..b */
  const char *source_name; /* field ... as "..." */
  StmtList body;           /* transform */
} DataItem;
typedef LIST(DataItem) DataList;

/* ---------- statements of a model block ---------- */
typedef struct ModelItem ModelItem;
typedef LIST(ModelItem *) ModelList;
struct ModelItem {
  enum ModelKind {
    MODEL_error,
    MODEL_load,
    MODEL_freeze,
    MODEL_eval,
    MODEL_group,
    MODEL_tie,
    MODEL_init,
    MODEL_for
  } kind;
  Span span;
  Path path;        /* load: target (no steps = whole model); tie: left; init */
  Path right;       /* tie */
  const char *file; /* load */
  Where where;      /* freeze, eval, group; load: except only */
  SettingList settings;
  Expr *value; /* init */
  Loop loop;
  ModelList body;
};

/* ---------- declarations ---------- */
typedef enum DeclKind {
  DECL_error,
  DECL_import,
  DECL_param,
  DECL_const,
  DECL_def,
  DECL_module,
  DECL_optimizer,
  DECL_dataset,
  DECL_model,
  DECL_objective,
  DECL_train,
  DECL_runtime,
  DECL_target,
  DECL_sweep,
} DeclKind;
struct Decl {
  DeclKind kind;
  Span span;
  Name name;          /* import: alias; objective, train, runtime, sweep: empty */
  const char *kernel; /* @kernel("x") before a definition, or NULL */
  Span kernel_span;
  const char *language; /* import c "...": "c"; else NULL */
  const char *file;     /* import */
  Span file_span;
  TypeExpr *type;     /* param; def: result type (may be NULL) */
  Expr *value;        /* param, const, def with `= expr`, model */
  FormalList formals; /* def, module, optimizer */
  bool has_body;      /* def with { } */
  StmtList body;      /* def, objective */
  ExprList returns;   /* def with a body */
  MemberList members; /* module, optimizer */
  DataList data;
  ModelList model;
  bool has_block;       /* model with { } */
  NameList extends;     /* train extends a.train */
  SettingList settings; /* train, runtime, target; sweep: key in value */
};

typedef struct Comment {
  Span span;
  bool trailing; /* other text stands before it on its line */
} Comment;

typedef struct AstFile {
  uint32_t source;
  const char *path;
  int64_t edition;
  DeclList decls;
  LIST(Comment) comments; /* in order, for fmt */
  bool ok;                /* no syntax error */
} AstFile;
#endif
