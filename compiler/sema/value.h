/* What an expression of the language gives: a Datum. Small and copied freely; what it points to lives
   in the arena of the program and is never changed after it was made.
   A DATUM_error stands where an error was reported already: it is accepted everywhere and causes no
   second report. */
#ifndef SEMA_VALUE_H
#define SEMA_VALUE_H
#include "ast.h"
#include "ir.h"

typedef struct Datum Datum;
typedef struct Eval Eval;
typedef struct Env Env;
typedef struct File File;
typedef struct Instance Instance;
typedef struct Builtin Builtin;

typedef enum DatumKind {
  DATUM_error,
  DATUM_none,
  DATUM_bool,
  DATUM_int,
  DATUM_float,
  DATUM_percent,
  DATUM_text,
  DATUM_dtype,
  DATUM_dim,  /* symbolic int: linear in the batch; never a known number (that is DATUM_int) */
  DATUM_list, /* list and range; a list of descriptions or instances is a module as well */
  DATUM_tuple,
  DATUM_map,
  DATUM_tensor,   /* a value of the graph being built */
  DATUM_host,     /* a setting that may change at run time, or what is computed from such */
  DATUM_draw,     /* initial value of a leaf: fill, uniform, normal (InitStep) */
  DATUM_leaf,     /* parameter or buffer of an instance; reading it in a graph gives a tensor */
  DATUM_function, /* def */
  DATUM_builtin,
  DATUM_recipe,    /* call that waits for arguments of a place */
  DATUM_module,    /* description: module with its arguments, not an instance yet */
  DATUM_optimizer, /* optimizer with the arguments given so far */
  DATUM_instance,
  DATUM_namespace, /* import ... as NAME */
  DATUM_object,    /* something with members that others own: dataset, settings block */
  DATUM_word,      /* a bare word where settings allow one */
} DatumKind;

typedef struct DatumList {
  const Datum *at;
  uint32_t len;
} DatumList;

/* An argument: by position when name is NULL. */
typedef struct CallArg CallArg;
typedef struct CallArgs {
  const CallArg *at;
  uint32_t len;
} CallArgs;

/* Definition with arguments: function, recipe, module description, optimizer. */
typedef struct Closure {
  const Decl *decl; /* NULL: a builtin */
  File *file;       /* where it is defined */
  const Builtin *builtin;
  CallArgs args;                 /* as given, for recipes and optimizers */
  bool called;                   /* module: with arguments; false: the bare name of a module */
  Env *bound;                    /* module: formals with their values, once called */
  const struct Closure *made_by; /* description returned by a def: that def, for kinds in paths */
  Span at;                       /* of the call */
} Closure;

/* A number of the host. `known` holds its value under the settings as written; reading it where it
   must be known fixes all keys it comes from. */
typedef struct HostValue {
  bool known;
  bool is_bool, is_int;
  double value;
  const char *const *keys; /* "train.learning_rate" */
  uint32_t n_keys;
} HostValue;

/* Members of something that another part owns. */
typedef struct ObjectClass {
  const char *what; /* "dataset" */
  /* Value of a member; DATUM_error after a report. */
  Datum (*member)(void *self, Eval *e, const char *name, Span at);
  /* Optional: text for messages. */
  const char *(*describe)(void *self);
} ObjectClass;

typedef struct MapEntry MapEntry;

typedef struct Draw { /* as InitStep */
  int kind;           /* INIT_fill, INIT_uniform ... of job.h */
  double a, b, low, high;
  int64_t count, offset, step; /* afterwards these elements become `value`; count 0: none */
  double value;
} Draw;

struct Datum {
  DatumKind kind;
  union {
    bool b;
    int64_t i;
    double f; /* float, percent */
    struct {
      const char *at;
      uint32_t length;
    } text; /* also word */
    DType dtype;
    Dim dim;
    DatumList list; /* list, tuple */
    struct {
      const MapEntry *at;
      uint32_t len;
    } map;
    Val tensor;
    struct {
      const HostValue *value;
      Val val;
    } host; /* val: its node in the graph; NO_VAL outside */
    struct {
      Draw draw;
      DatumList shape;
    } draw;
    int32_t leaf;           /* index into the LeafStore of the evaluation */
    const Closure *closure; /* function, recipe, module, optimizer */
    const Builtin *builtin;
    Instance *instance;
    File *file;
    struct {
      void *self;
      const ObjectClass *class;
    } object;
  } as;
};

struct CallArg {
  const char *name;
  Datum value;
  Span at;
};
struct MapEntry {
  const char *key;
  Datum value;
};

static inline Datum datum_error(void) {
  return (Datum){.kind = DATUM_error};
}
static inline Datum datum_none(void) {
  return (Datum){.kind = DATUM_none};
}
static inline Datum datum_bool(bool b) {
  return (Datum){.kind = DATUM_bool, .as.b = b};
}
static inline Datum datum_int(int64_t i) {
  return (Datum){.kind = DATUM_int, .as.i = i};
}
static inline Datum datum_float(double f) {
  return (Datum){.kind = DATUM_float, .as.f = f};
}
static inline Datum datum_dtype(DType t) {
  return (Datum){.kind = DATUM_dtype, .as.dtype = t};
}
static inline Datum datum_instance(Instance *i) {
  return (Datum){.kind = DATUM_instance, .as.instance = i};
}
static inline Datum datum_object(void *self, const ObjectClass *class) {
  return (Datum){.kind = DATUM_object, .as.object = {self, class}};
}
Datum datum_text(const char *text);                        /* must live as long as the program */
Datum datum_tensor(Val v);                                 /* NO_VAL gives DATUM_error */
Datum datum_dim(Dim d);                                    /* DATUM_int when known */
Datum datum_list(Arena *a, const Datum *at, uint32_t len); /* copies */
Datum datum_tuple(Arena *a, const Datum *at, uint32_t len);

static inline bool datum_is(Datum d, DatumKind k) {
  return d.kind == k;
}
/* int or float (not bool), known while compiling. */
bool datum_number(Datum d, double *out);
bool datum_int_value(Datum d, int64_t *out);
bool datum_dim_value(Datum d, Dim *out); /* int or symbolic */
/* Equality of compile-time values, as `==` has it; *comparable = false when `==` has no meaning. */
bool datum_equal(Datum a, Datum b, bool *comparable);
const char *datum_kind_name(DatumKind k); /* "int", "tensor", ... for messages, with no article */
const char *datum_describe(Eval *e, Datum d); /* "int 3", "tensor f32[B,64]", "module Linear" */
void datum_print(Text *t, Datum d);           /* the literal, where there is one */
const Datum *datum_map_find(Datum map, const char *key);
#endif
