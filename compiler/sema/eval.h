/* The one evaluator: expressions and bodies -> values, typed as they are made, and graphs built on the
   way. Everything that must be known while compiling comes out as a value; tensors come out as values
   of the graph of the Build. Errors go to diag with the chain of calls; the result is DATUM_error. */
#ifndef SEMA_EVAL_H
#define SEMA_EVAL_H
#include "diag.h"
#include "job.h"
#include "value.h"

/* ---------- files ---------- */

typedef enum NameState { NAME_fresh, NAME_working, NAME_done } NameState;
typedef struct FileName { /* one declared name of a file */
  const char *name;
  const Decl *decl;
  NameState state;
  bool used;
  Datum value;
  File *import; /* of an alias */
} FileName;
struct File {
  AstFile *ast;
  const char *path;
  bool library; /* embedded: never checked for unused names */
  VEC(FileName) names;
  struct Natives *natives; /* of a C header (external.h), or NULL */
  File *next;
};

/* What D's part supplies; all may be NULL (then such names are refused). */
typedef struct JobHooks {
  void *self;
  /* Value of a `param`, `dataset` or `model` of a file; asked once per name. */
  Datum (*declaration)(void *self, Eval *e, File *file, const Decl *decl);
  /* File of `import "..." as`; NULL after a report. Library paths ("std/...") never come here. */
  File *(*import)(void *self, File *from, const Decl *decl);
  /* `train.KEY`, `runtime.KEY`: a compile-time value, or a DATUM_host for a run-time setting
     (host.value filled, host.val left alone). DATUM_error after a report. */
  Datum (*setting)(void *self, Eval *e, const char *block, const char *key, Span at);
  /* A run-time setting is read where it must be known. reason: "`if momentum != 0` in std/optim". */
  void (*fix)(void *self, const char *key, const char *reason, Span at);
  /* `metric NAME = value` while a body of an objective runs. */
  void (*metric)(void *self, Eval *e, const Stmt *stmt, Datum value);
  void (*output)(void *self, Eval *e, const Stmt *stmt, Datum value); /* `output NAME = value` */
  /* Fields that a value of a transform is made of count as read. */
  void (*use)(void *self, const Graph *g, Val v);
  /* Number of classes of the field that an input node reads; 0: it has none. */
  int64_t (*classes)(void *self, const Graph *g, Val v);
} JobHooks;

typedef struct Program {
  Arena *arena;
  JobHooks hooks;
  File *files;     /* in order of reading */
  bool bare;       /* rules of the op table: no library, ops by their own names */
  bool no_kernels; /* bodies instead of the kernels of `@kernel` */
  VEC(KernelRemark) remarks;
  struct Library *library;
} Program;

Program *program_new(Arena *arena);
/* Makes a File of a parsed source: collects its names (E0302). */
File *program_add(Program *p, AstFile *ast, bool library);
/* Library file by path ("std/nn.ddp"), parsed when first asked for; NULL when there is none. */
File *program_library(Program *p, const char *path);
/* Declared name of a file; NULL. */
FileName *file_find(File *file, const char *name);
/* Its value, evaluated once; E0310 on a cycle. */
Datum file_value(Eval *e, File *file, FileName *name, Span at);
/* Name of the library files that are visible everywhere; false when none has it. */
bool library_find(Program *p, const char *name, File **file, FileName **found);

/* Static checks of a file's definitions: unknown and unused names, hiding, sizes named once. Calls
   nothing, so it also sees what no instance reaches. Reports E030x, E0401-E0404, E0407, W-. False when
   a definition is made of itself (E0310): it cannot be evaluated. */
bool resolve_file(Program *p, File *file);
/* Names that settings refer to count as used (D calls it before resolve_unused). */
void file_mark_used(File *file, const char *name);
/* After all files are resolved: unused file names and imports (only files with a model or objective,
   or names that are never exported: see resolve.c). */
void resolve_unused(Program *p, File *job);

/* ---------- names of a body ---------- */

typedef enum BindingKind {
  BIND_formal,
  BIND_size,
  BIND_local,
  BIND_member,
  BIND_index
} BindingKind;
typedef struct Binding {
  const char *name; /* interned */
  BindingKind kind;
  Datum value;
  Span at;
} Binding;
struct Env {
  Env *parent; /* enclosing block or instance; NULL: the file comes next */
  File *file;
  VEC(Binding) names;
  Instance *instance; /* whose members this scope holds, or NULL */
};
Env *env_new(Arena *a, Env *parent, File *file);
Binding *env_find(Env *env, const char *name); /* through parents; NULL */
void env_define(Arena *a, Env *env, const char *name, Datum value, BindingKind kind, Span at);

/* ---------- what is being built ---------- */

/* A leaf in order of construction. After leaves_number, `number` is its index in Job.leaves. */
typedef struct LeafEntry {
  Leaf leaf; /* name: full path below the model */
  Instance *owner;
  const char *member; /* last component of the name */
  int32_t number;
  Draw fill; /* optimizer states: their fill value */
} LeafEntry;
typedef struct LeafStore {
  VEC(LeafEntry) leaves;
  VEC(InitStep) init; /* leaf: index into leaves */
} LeafStore;

/* One graph in the making. */
typedef struct Build {
  Graph *graph;
  LeafStore *leaves;
  VEC(Val) leaf_value;     /* by leaf: its value at this point (NO_VAL: not read yet) */
  VEC(uint8_t) written;    /* by leaf: a buffer that was assigned */
  VEC(const char *) sites; /* paths of draws so far: the same path twice gets a number */
  DType host_dtype;        /* of host scalars: f32; set to f64 for optimizers and schedules */
  DType compute;           /* f32: what `float` means */
  int64_t batch;           /* size of the batch where `require` asks for it; 0: not known */
} Build;
Build *build_new(Arena *a, Graph *graph, LeafStore *leaves);
/* OUT_buffer for every buffer that was written (call once, when the body is done). */
void build_buffers(Build *b);

typedef struct Frame { /* chain of calls, for limits and messages */
  const struct Frame *caller;
  const char *what;         /* "net.fc1", "relu" */
  const Decl *decl;         /* definition being evaluated */
  const Instance *instance; /* whose forward runs, or NULL */
  Span at;
  int depth;
} Frame;

struct Eval {
  Program *program;
  Arena *arena;
  Build *build; /* NULL: everything must be known while compiling */
  LeafStore *leaves;
  bool training;
  bool in_loop; /* a loop over a tensor: buffers may not be assigned */
  bool update;  /* body of an optimizer: buffers may be assigned although nothing is `training` */
  Scope scope;
  const Frame *frame;
  const char *need; /* reason while something must be known: "the condition of `if`" */
  struct Limits {
    int64_t instances, statements;
  } * limits;
};
Eval eval_new(Program *p, Build *build, LeafStore *leaves, bool training);

/* ---------- evaluation ---------- */

Datum eval_expr(Eval *e, const Expr *x, Env *env);
/* Statements in order; locals go to env. False after an error that ends the body. */
bool eval_stmts(Eval *e, StmtList body, Env *env);
/* One value, or a tuple of several. */
Datum eval_returns(Eval *e, ExprList returns, Env *env);

/* Calls anything callable: function, builtin, module (gives a description), instance (forward),
   list of instances, recipe. */
Datum eval_call(Eval *e, Datum callee, CallArgs args, Span at);
/* The arguments that a place supplies: only those that the definition declares and that were not
   given are taken. Completes recipes; a function or builtin by name is a recipe without arguments; a
   value that is no recipe comes back as it is. */
Datum eval_complete(Eval *e, Datum recipe, CallArgs supplied, Span at);
/* A formal of a definition or builtin with this name exists (to know what a place may give). */
bool closure_accepts(Datum callee, const char *name);

/* Checks and conversions; each reports and returns false (or DATUM_error). */
bool need_int(Eval *e, Datum d, Span at, const char *what, int64_t *out);
bool need_number(Eval *e, Datum d, Span at, const char *what, double *out);
bool need_bool(Eval *e, Datum d, Span at, const char *what, bool *out);
bool need_text(Eval *e, Datum d, Span at, const char *what, const char **out);
bool need_dim(Eval *e, Datum d, Span at, const char *what, Dim *out);
/* Numbers become constants, leaves and host scalars their nodes. E0501 for what is no tensor. */
bool need_tensor(Eval *e, Datum d, Span at, const char *what, Val *out);
/* A graph node for a host scalar or number in Build.host_dtype. */
Val host_node(Eval *e, Datum d, Span at);
Type tensor_type(const Eval *e, Datum d);

/* Dimensions of a type in a declaration of a leaf or field: all sizes must be known. */
bool eval_dims(Eval *e, const TypeExpr *t, Env *env, Type *out);
/* Adds an op through ir_add and reports its error at `at`. */
Datum emit_op(Eval *e, OpKind op, const Val *in, int n, const Attr *attrs, Span at);

/* ---------- modules ---------- */

typedef struct Child {
  const char *name;
  Instance *instance;
} Child;
struct Instance {
  enum { INSTANCE_module, INSTANCE_list, INSTANCE_optimizer } kind;
  const Closure *made; /* description it comes from; NULL for lists */
  const Decl *decl;    /* module or optimizer; NULL for lists */
  const char *path;    /* state-dict path: "" for the root */
  const char *model;   /* name of the model block */
  Env *env;            /* formals and members */
  VEC(Child) children; /* in member order */
  VEC(int32_t) leaves; /* own leaves in member order, indices into the LeafStore */
  bool eval;           /* `training` is false below (set by `eval` paths) */
  Span at;
};
/* A description (module, list or map of such) becomes an instance: members, leaves, draws in
   PyTorch's order, `init`, `tie`. path "" is the root of a model. NULL after a report. */
Instance *module_instantiate(Eval *e, Datum description, const char *path, const char *model,
                             Span at);
/* An optimizer with its supplied arguments (p, lr, ...): members evaluated, buffers are leaves of
   e->leaves with their fill. */
Instance *optimizer_instantiate(Eval *e, Datum optimizer, CallArgs supplied, Span at);
/* Calls `update` (args: g and, if declared, step); assigned values are read with env_find on
   instance->env (formals such as p) and build->leaf_value (buffers). False after a report. */
bool optimizer_update(Eval *e, Instance *optimizer, CallArgs args, Span at);
Datum instance_call(Eval *e, Instance *i, CallArgs args, Span at);
/* An operator of a C header, its formals and sizes bound in env. */
Datum external_call(Eval *e, const Closure *c, Env *env, Span at);
/* Leaf numbers in state-dict order; appends to job->leaves and job->init. Once, after the model
   blocks, before graphs. */
void leaves_number(Eval *e, LeafStore *store, Instance *const *models, uint32_t n, Job *job);

/* ---------- paths ---------- */

typedef struct PathHit {
  Instance *instance; /* a module, or */
  int32_t leaf;       /* a leaf (instance NULL) */
} PathHit;
typedef struct PathHits {
  VEC(PathHit) hits;
} PathHits;
/* Everything a path names below `root`; reports E0603-E0605. By kinds it may match nothing. */
bool path_resolve(Eval *e, Instance *root, const Path *path, Env *env, PathHits *out);
/* The leaves of hits: of an instance all below it. In order, each once. */
typedef struct LeafSet {
  VEC(int32_t) leaves;
} LeafSet;
bool path_leaves(Eval *e, Instance *root, const Path *path, Env *env, LeafSet *out);
void instance_leaves(Eval *e, const Instance *root, LeafSet *out);
/* `tie`, `init` and `require` as statements; also used for model blocks. */
bool module_tie(Eval *e, Instance *root, const Path *left, const Path *right, Env *env, Span at);
bool module_init(Eval *e, Instance *root, const Path *path, const Expr *value, Env *env, Span at);

/* ---------- errors ---------- */
/* diag_report plus a note for each call of the chain that stands in a file of the user. */
void eval_report(Eval *e, DiagCode code, Span at, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
#endif
