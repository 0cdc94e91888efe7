/* What the parts of the job analysis share. sema.c runs them in order: files (import.c), settings,
   dataset (data.c, source.c, lift.c), model (model.c, groups.c), objective, optimizers, schedule,
   spec. Each part fills its members of Job and reports what is wrong with its blocks. */
#ifndef SEMA_ANALYSIS_H
#define SEMA_ANALYSIS_H
#include "eval.h"
#include "sema.h"
#include "settings.h"

typedef struct LoadedFile {
  const char *real; /* path with links resolved */
  File *file;
  bool open; /* its imports are being read */
} LoadedFile;

typedef struct Analysis {
  Arena *arena;
  const SemaOptions *options;
  Program *program;
  Job *job;
  Settings *settings;
  File *root;
  VEC(LoadedFile) loaded;
  VEC(LoadedFile) headers;  /* of C */
  VEC(const char *) opened; /* paths of files whose imports are being read, for cycles */

  const Decl *objective, *train, *runtime, *sweep;
  VEC(const Decl *) datasets, models; /* of the job file, in the order written */
  VEC(struct DataState *) data;       /* data.c: the datasets that were asked for */
  VEC(struct ModelState *) model;     /* model.c */
  LeafStore *leaves;
  struct GroupKeys *group_keys; /* groups.c: by leaf of the store */
  uint32_t n_group_keys;
  VEC(struct OptimizerKey *) optimizer_keys;
  Build *build; /* objective.c: of the graph in the making */
  bool objective_ok;
} Analysis;

/* import.c */
bool import_job(Analysis *a, const char *path);
File *import_hook(void *self, File *from, const Decl *decl);
Datum import_param(Analysis *a, Eval *e, File *file, const Decl *decl);
void import_check_defines(Analysis *a);
/* The -D that sets a param; NULL. */
const SemaDefine *import_define(Analysis *a, const Decl *param);
/* Does `ALIAS.NAME` of a -D name a param of an imported file? */
bool import_defines(Analysis *a, const char *name);
/* Does the value fit the declared type of a param? Ints are taken for floats, and become them. */
bool param_fits(const TypeExpr *type, Datum *d);
const char *path_join(Arena *a, const char *directory, const char *file);
const char *path_directory(Arena *a, const char *path); /* "" or "dir/" */

/* The file of an import, read if it is new; NULL after a report. */
File *import_file(Analysis *a, File *from, const Decl *d);
/* external.c: a C header as a file of operators. */
File *external_file(Analysis *a, File *from, const Decl *d);
/* Once the target is known: functions or bodies. */
void external_choose(Analysis *a);

/* data.c */
Datum data_declare(Analysis *a, Eval *e, File *file, const Decl *decl);
void data_finish(Analysis *a); /* unused fields, needed splits */
/* Source of a `let` of the dataset; -1 when it was wrong, -2 when there is none. */
int32_t data_let(Analysis *a, const Dataset *d, const char *name);
void data_use(void *self, const Graph *g, Val v); /* hooks of the evaluator */
int64_t data_classes(void *self, const Graph *g, Val v);
/* Values that a field can have, as declared or by the characters of its text; 0: not known. */
int64_t data_field_classes(Analysis *a, const Field *f);
/* The field as an input of a graph. */
Val data_input(Graph *g, const Field *f);
/* transform.c: a field that is no tensor here: a text, one of differing length, any field outside of
   graphs. */
Datum transform_field(Field *f);
Field *transform_field_of(Datum d); /* NULL: another value */
/* source.c: a source expression -> index into Dataset.sources; -1 after a report. */
int32_t source_build(Analysis *a, Dataset *d, Eval *e, Env *env, const Expr *x);
/* lift.c: copies the values of a graph over one sample into `to`, with the batch in front. field_value
   maps input fields of the sample graph to values of `to`. */
Val lift_value(Graph *to, const Graph *sample, Val v, Val *map, Scope scope);

/* model.c */
Datum model_declare(Analysis *a, Eval *e, File *file, const Decl *decl);
bool model_finish(Analysis *a); /* false: a model has mistakes, or what is not supported yet */
/* groups.c: parameter groups and their optimizers. */
void groups_note(Analysis *a, const LeafSet *leaves, const SettingList *keys, const char *name,
                 Env *env);
void groups_make(Analysis *a);

/* target.c: the blocks and --target -> Job.target. */
void target_make(Analysis *a);
/* sweep.c: Job.sweep; after everything else, when it is known what is fixed in a program. */
void sweep_make(Analysis *a);

/* objective.c */
void objective_build(Analysis *a);
void objective_metric(void *self, Eval *e, const Stmt *stmt, Datum value);
void objective_output(void *self, Eval *e, const Stmt *stmt, Datum value);
/* optimizer.c */
typedef struct OptimizerChoice { /* values of `optim` and `optim_args` */
  const Expr *expr;              /* NULL: the default's name */
  const char *name;
  File *file;
  const SettingValue *args; /* map or none */
  Span at, args_at;
} OptimizerChoice;
/* The one for tensors of this type: an index into Job.optimizers; -1 after a report. Equal choices share
   one, or one for each shape; *first: the first one of the choice. */
int32_t optimizer_make(Analysis *a, const OptimizerChoice *choice, const Type *tensor,
                       int32_t *first);
/* Its first formal's type fits the parameter; E0618. */
bool optimizer_takes(Analysis *a, const OptimizerChoice *choice, const Leaf *leaf);
/* definition.c: what a key names, in the file, behind an alias, or in the library file; DATUM_error
   after a report. */
Datum definition_find(Analysis *a, Eval *e, const char *key, const char *library, const Expr *expr,
                      const char *name, File *file, Span at);
/* A setting's value in an expression; false for lists and maps. */
bool setting_scalar(const SettingValue *v, Datum *out);
typedef struct DefinitionArgs {
  VEC(CallArg) args;
} DefinitionArgs;
/* Appends the items of a map; E0715 for those that the definition does not have. */
bool definition_args(Analysis *a, Datum definition, const SettingValue *map, Span at,
                     DefinitionArgs *out);
/* E0715 for what is still missing. */
bool definition_complete(Datum definition, const DefinitionArgs *args, const char *key, Span at);
/* schedule.c */
void schedule_make(Analysis *a);
/* spec.c */
void spec_make(Analysis *a);
/* A path below the job's folder without that folder: the text is the same wherever the job lies. */
const char *job_shown_path(const Job *job, const char *path);

/* A compile-time evaluator over the names of a file. */
Eval analysis_eval(Analysis *a);
/* job_rules.c: rules between settings, data and model. */
void job_rules(Analysis *a);
#endif
