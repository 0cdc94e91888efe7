/* Constructors of the syntax tree, one for each action of grammar/ddp.y. `at` is the place of the
   whole construct. Lists grow in the arena; NULL is the empty list; adding gives the list back.
   Refused here: what the grammar lets through for the sake of a better message. */
#ifndef SYNTAX_BUILD_H
#define SYNTAX_BUILD_H
#include "ast.h"
#include "vec.h"

typedef struct Parse Parse;

#define AST_VECS(X)                                                                                \
  X(ExprVec, Expr *, ast_exprs)                                                                    \
  X(TypeVec, TypeExpr *, ast_types)                                                                \
  X(MemberVec, Member *, ast_members)                                                              \
  X(DeclVec, Decl *, ast_decls)                                                                    \
  X(NameVec, Name, ast_names)                                                                      \
  X(ArgVec, Arg, ast_args)                                                                         \
  X(SubVec, Subscript, ast_subs)                                                                   \
  X(LoopVec, Loop, ast_loops)                                                                      \
  X(MapVec, MapItem, ast_map_items)                                                                \
  X(DimVec, DimExpr, ast_dims)                                                                     \
  X(FormalVec, Formal, ast_formals)                                                                \
  X(PathVec, Path, ast_paths)                                                                      \
  X(SettingVec, Setting, ast_settings)                                                             \
  X(DataVec, DataItem, ast_data)                                                                   \
  X(ModelVec, ModelItem *, ast_model_items)

#define AST_VEC(V, T, add)                                                                         \
  typedef VEC(T) V;                                                                                \
  V *add(Parse *p, V *list, T item);
AST_VECS(AST_VEC)
#undef AST_VEC

/* A body while it is read: statements, and what `return` or `yield` gives. */
typedef struct Block {
  VEC(Stmt *) stmts;
  ExprVec *returns, *yields;
  Span return_span, yield_span; /* of the word; file 0: there was none */
} Block;
Block *ast_block_add(Parse *p, Block *b, Stmt *s);
Block *ast_block_return(Parse *p, Block *b, Span word, ExprVec *values);
Block *ast_block_yield(Parse *p, Block *b, Span word, ExprVec *values);

/* ---------- names and expressions: build_expr.c ---------- */
Name ast_name(Parse *p, Span at);
Name ast_indexed_name(Parse *p, Span at);
/* Text of a name where no index may stand. */
const char *ast_plain(Parse *p, Name name);
Expr *ast_int(Parse *p, Span at);
Expr *ast_float(Parse *p, Span at);
Expr *ast_percent(Parse *p, Span at);
Expr *ast_text(Parse *p, Span at);
Expr *ast_bool(Parse *p, Span at, bool value);
Expr *ast_none(Parse *p, Span at);
Expr *ast_name_expr(Parse *p, Name name);
Expr *ast_unary(Parse *p, Span at, UnaryOp op, Expr *operand);
Expr *ast_binary(Parse *p, Span at, BinaryOp op, Span op_span, Expr *left, Expr *right);
Expr *ast_choice(Parse *p, Span at, Expr *condition, Expr *yes, Expr *no);
Expr *ast_member(Parse *p, Span at, Expr *object, Name name);
Expr *ast_call(Parse *p, Span at, Expr *callee, ArgVec *args);
Expr *ast_index(Parse *p, Span at, Expr *object, SubVec *subs);
Expr *ast_parens(Parse *p, Span at, Expr *inner);
Expr *ast_sequence(Parse *p, Span at, ExprKind kind, Expr *first, ExprVec *rest);
Expr *ast_comprehension(Parse *p, Span at, Expr *value, LoopVec *loops);
Expr *ast_map(Parse *p, Span at, MapVec *items);
Arg ast_named_arg(Parse *p, Name name, Expr *value);
MapItem ast_map_item(Parse *p, Span at, Name key, Expr *value);
MapItem ast_quoted_item(Parse *p, Span at, Span key, Expr *value);
Loop ast_loop(Parse *p, Span at, NameVec *targets, ExprVec *iterables);

/* ---------- types, statements, members: build_body.c ---------- */
TypeExpr *ast_tensor(Parse *p, Span at, const Span *dtype, DimVec *dims);
TypeExpr *ast_type_name(Parse *p, Span at);
TypeExpr *ast_type_apply(Parse *p, Span at, Span name, ArgVec *args);
TypeExpr *ast_type_word(Parse *p, Span at, TypeKind kind);
TypeExpr *ast_type_tuple(Parse *p, Span at, TypeVec *items);
Formal ast_formal(Parse *p, Span at, Name name, TypeExpr *type, Expr *value);

Stmt *ast_stmt_error(Parse *p, Span at);
Stmt *ast_assign(Parse *p, Span at, NameVec *targets, Expr *value);
Stmt *ast_collect(Parse *p, Span at, NameVec *targets, Loop loop, Block *body);
Stmt *ast_for(Parse *p, Span at, Loop loop, Block *body);
Stmt *ast_if(Parse *p, Span at, Expr *condition, Block *yes, bool has_else, Block *no);
Stmt *ast_require(Parse *p, Span at, Expr *condition, const Span *message);
Stmt *ast_metric(Parse *p, Span at, Name name, Expr *value);
Stmt *ast_output(Parse *p, Span at, Name name, Expr *value);

Path ast_path(Parse *p, Span at, Name name);
Path ast_path_name(Parse *p, Span at, Path path, Name name);
Path ast_path_slice(Parse *p, Span at, Path path, Subscript sub);
Where ast_where(PathVec *paths, PathVec *except);

Member *ast_member_error(Parse *p, Span at);
Member *ast_member_assign(Parse *p, Span at, Name name, Expr *value);
Member *ast_leaf(Parse *p, Span at, MemberKind kind, Name name, TypeExpr *type, Expr *value);
Member *ast_member_tie(Parse *p, Span at, Path left, Path right);
Member *ast_member_init(Parse *p, Span at, Path left, Expr *value);
Member *ast_member_require(Parse *p, const Stmt *require);
Member *ast_member_for(Parse *p, Span at, Loop loop, MemberVec *body);
Member *ast_member_if(Parse *p, Span at, Expr *condition, MemberVec *yes, bool has_else,
                      MemberVec *no);
Member *ast_member_step(Parse *p, Step *step);
Step *ast_forward(Parse *p, Span at, FormalVec *formals, TypeExpr *result, Block *body);
Step *ast_update(Parse *p, Span at, FormalVec *formals, Block *body);
Step *ast_step_kernel(Parse *p, Span at, Span kernel, Step *step);

/* ---------- declarations: build_decl.c ---------- */
void ast_file(Parse *p, Span edition, DeclVec *decls);
Decl *ast_decl_error(Parse *p, Span at);
Decl *ast_import(Parse *p, Span at, const Span *language, Span file, Span alias);
Decl *ast_param(Parse *p, Span at, Name name, TypeExpr *type, Expr *value);
Decl *ast_const(Parse *p, Span at, Name name, Expr *value);
Decl *ast_kernel(Parse *p, Span at, Span kernel, Decl *decl);
/* value: def ... = value; body: def ... { body }, NULL when it is empty or there is a value. */
Decl *ast_def(Parse *p, Span at, Span name, FormalVec *formals, TypeExpr *result, Expr *value,
              Block *body);
Decl *ast_module(Parse *p, Span at, DeclKind kind, Span name, FormalVec *formals,
                 MemberVec *members);
Decl *ast_dataset(Parse *p, Span at, Name name, DataVec *items);
Decl *ast_model(Parse *p, Span at, Name name, Expr *value, bool has_block, ModelVec *items);
Decl *ast_objective(Parse *p, Span at, Block *body);
Decl *ast_train(Parse *p, Span at, NameVec *extends, SettingVec *settings);
Decl *ast_settings_block(Parse *p, Span at, DeclKind kind, SettingVec *settings);
Decl *ast_target(Parse *p, Span at, Name name, SettingVec *settings);
Decl *ast_sweep(Parse *p, Span at, SettingVec *axes);
Setting ast_setting(Parse *p, Span at, Name key, Expr *value, bool is_final, bool comma);

DataItem ast_data_error(Span at);
DataItem ast_let(Span at, enum DataKind kind, Name name, Expr *value); /* DATA_let or DATA_split */
DataItem ast_field(Parse *p, Span at, Name name, TypeExpr *type, Expr *range, const Span *source);
DataItem ast_transform(Parse *p, Span at, const Name *split, Block *body);

ModelItem *ast_model_error(Parse *p, Span at);
ModelItem *ast_load(Parse *p, Span at, const Path *path, Span file, PathVec *except);
ModelItem *ast_freeze(Parse *p, Span at, Where where);
ModelItem *ast_eval(Parse *p, Span at, Where where);
ModelItem *ast_group(Parse *p, Span at, Where where, SettingVec *settings);
ModelItem *ast_model_tie(Parse *p, Span at, Path left, Path right);
ModelItem *ast_model_init(Parse *p, Span at, Path path, Expr *value);
ModelItem *ast_model_for(Parse *p, Span at, Loop loop, ModelVec *body);
#endif
