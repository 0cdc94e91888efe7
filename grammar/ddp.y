/* Grammar of .ddp, edition 1. In: the tokens of a Parse. Out: p->file or p->expression.
   LALR(1), no conflicts, no precedence declarations, no statement separators. Every action is one
   ast_*() call (build.h); what the grammar lets through although it is no job's text (a statement
   after `return`, arguments by position after named ones) is refused there, with a better message.
   After an error the innermost list of lines goes on at the next line that can begin an item. */
%define api.prefix {ddp_}
%define api.token.prefix {T_}
%define api.pure full
%define api.location.type {Span}
%define parse.error custom
%define parse.lac full
%locations
%expect 0
%param {Parse *p}
%initial-action { @$ = (Span){p->source, 0, 0}; }

%code requires {
#include "build.h"
}
%code {
#include "parser.h"
#define YYLLOC_DEFAULT(now, right, n)                                                              \
  ((now) = (n) ? span_join(YYRHSLOC(right, 1), YYRHSLOC(right, n))                                 \
               : (Span){YYRHSLOC(right, 0).file, YYRHSLOC(right, 0).end, YYRHSLOC(right, 0).end})
/* The lookahead token is dropped, for parse_resume chose where to go on. */
#define RESUME                                                                                     \
  do {                                                                                             \
    if (!parse_resume(p)) YYABORT;                                                                 \
    yyclearin;                                                                                     \
    yyerrok;                                                                                       \
  } while (0)
#define ddp_lex(value, place, p) parse_next((p), (place))
static void ddp_error(const Span *at, Parse *p, const char *message);
}

%union {
  Name name;
  Expr *expr;
  TypeExpr *type;
  Stmt *stmt;
  Member *member;
  Step *step;
  Decl *decl;
  ModelItem *model_item;
  Arg arg;
  Subscript sub;
  Loop loop;
  MapItem map_item;
  DimExpr dim;
  Formal formal;
  Path path;
  Where where;
  Setting setting;
  DataItem data_item;
  Block *block;
  ExprVec *exprs;
  TypeVec *types;
  MemberVec *members;
  DeclVec *decls;
  NameVec *names;
  ArgVec *args;
  SubVec *subs;
  LoopVec *loops;
  MapVec *map;
  DimVec *dims;
  FormalVec *formals;
  PathVec *paths;
  SettingVec *settings;
  DataVec *data;
  ModelVec *model;
  BinaryOp op;
  bool flag;
}

%token END 0 "end of file"
%token START_FILE START_EXPRESSION
%token EDITION "edition" IMPORT "import" AS "as" CONST "const" DEF "def" MODULE "module"
%token RETURN "return" YIELD "yield" REQUIRE "require" EXCEPT "except"
%token FOR "for" IN "in" IF "if" THEN "then" ELSE "else"
%token AND "and" OR "or" NOT "not" TRUE "true" FALSE "false" NONE "none"
%token TIE "tie" INIT "init" FREEZE "freeze" LOAD "load" EVAL "eval" GROUP "group"
%token PARAM "param" BUFFER "buffer" FORWARD "forward" OPTIMIZER "optimizer" UPDATE "update"
%token DATASET "dataset" LET "let" FIELD "field" SPLIT "split" TRANSFORM "transform"
%token MODEL "model" OBJECTIVE "objective" METRIC "metric" OUTPUT "output" TRAIN "train" EXTENDS "extends"
%token RUNTIME "runtime" TARGET "target" SWEEP "sweep" FINAL "final"
%token AT_KERNEL "@kernel" INT "an integer" FLOAT "a float" PERCENT "a percentage"
%token STRING "a text" IDENT "a name" INDEXED "an indexed name"
%token ARROW "->" RANGE ".." ELLIPSIS "..." EQ "==" NE "!=" LE "<=" GE ">=" LT "<" GT ">"
%token PLUS "+" MINUS "-" TIMES "*" DIVIDE "/" FLOORDIV "//" MOD "%" POW "**" MATMUL "@"
%token ASSIGN "=" DOT "." COMMA "," COLON ":" SEMICOLON ";"
%token LPAREN "(" RPAREN ")" LBRACKET "[" RBRACKET "]" LBRACE "{" RBRACE "}"

%type <name> word name
%type <names> targets dotted
%type <decls> decls
%type <decl> decl definition function module optimizer dataset model objective train
%type <formals> formals formal_list
%type <formal> formal
%type <type> type result
%type <types> type_list
%type <dims> dims dim_list
%type <dim> dim
%type <members> member_items member_block
%type <member> member_item
%type <step> step
%type <block> stmts block objective_stmts transform_stmts
%type <stmt> stmt objective_stmt transform_stmt require
%type <loop> loop
%type <loops> loops
%type <path> path
%type <paths> paths except
%type <where> where
%type <data> data_items
%type <data_item> data_item
%type <expr> range expr or_expr and_expr not_expr cmp_expr range_expr add_expr mul_expr unary_expr
%type <expr> pow_expr post_expr atom bound
%type <model> model_items
%type <model_item> model_item
%type <settings> settings axes
%type <setting> setting axis
%type <flag> comma
%type <op> cmp_op
%type <exprs> exprs list_tail
%type <args> args arg_list
%type <arg> arg
%type <subs> subs
%type <sub> slice
%type <map> map_items
%type <map_item> map_item

%start text
%%
text
  : START_FILE EDITION INT decls                      { ast_file(p, @3, $4); }
  | START_EXPRESSION expr                             { p->expression = $2; }
  ;
decls
  : %empty                                            { $$ = NULL; }
  | decls decl                                        { $$ = ast_decls(p, $1, $2); }
  | decls error                   { $$ = ast_decls(p, $1, ast_decl_error(p, @2)); RESUME; }
  ;
decl
  : "import" STRING "as" IDENT                        { $$ = ast_import(p, @$, NULL, @2, @4); }
  | "import" IDENT STRING "as" IDENT                  { $$ = ast_import(p, @$, &@2, @3, @5); }
  | "param" word ":" type "=" expr                    { $$ = ast_param(p, @$, $2, $4, $6); }
  | "const" word "=" expr                             { $$ = ast_const(p, @$, $2, $4); }
  | definition
  | "@kernel" "(" STRING ")" function                 { $$ = ast_kernel(p, @$, @3, $5); }
  | "@kernel" "(" STRING ")" optimizer                { $$ = ast_kernel(p, @$, @3, $5); }
  | dataset
  | model
  | objective
  | train
  | "runtime" "{" settings "}"                { $$ = ast_settings_block(p, @$, DECL_runtime, $3); }
  | "target" name "{" settings "}"                    { $$ = ast_target(p, @$, $2, $4); }
  | "sweep" "{" axes "}"                              { $$ = ast_sweep(p, @$, $3); }
  ;
definition
  : function
  | module
  | optimizer
  ;

/* Words that open a block or a line are names everywhere else. The six verbs on paths are names only
   after a dot and left of `=` in settings and arguments. */
word
  : IDENT                                             { $$ = ast_name(p, @1); }
  | INDEXED                                           { $$ = ast_indexed_name(p, @1); }
  | open_word                                         { $$ = ast_name(p, @1); }
  ;
open_word
  : "param" | "buffer" | "forward" | "optimizer" | "update" | "dataset" | "let" | "field" | "split"
  | "transform" | "model" | "objective" | "metric" | "output" | "train" | "extends" | "runtime" | "target"
  | "sweep" | "final"
  ;
name
  : word
  | verb                                              { $$ = ast_name(p, @1); }
  ;
verb
  : "tie" | "init" | "freeze" | "load" | "eval" | "group"
  ;

/* ---------- functions, modules, optimizers ---------- */
function
  : "def" IDENT "(" formals ")" result "=" expr  { $$ = ast_def(p, @$, @2, $4, $6, $8, NULL); }
  | "def" IDENT "(" formals ")" result block     { $$ = ast_def(p, @$, @2, $4, $6, NULL, $7); }
  ;
module
  : "module" IDENT "(" formals ")" member_block
                                         { $$ = ast_module(p, @$, DECL_module, @2, $4, $6); }
  ;
optimizer
  : "optimizer" IDENT "(" formals ")" member_block
                                         { $$ = ast_module(p, @$, DECL_optimizer, @2, $4, $6); }
  ;
formals
  : %empty                                            { $$ = NULL; }
  | formal_list
  | formal_list ","
  ;
formal_list
  : formal                                            { $$ = ast_formals(p, NULL, $1); }
  | formal_list "," formal                            { $$ = ast_formals(p, $1, $3); }
  ;
formal
  : word ":" type                                     { $$ = ast_formal(p, @$, $1, $3, NULL); }
  | word ":" type "=" expr                            { $$ = ast_formal(p, @$, $1, $3, $5); }
  ;
result
  : %empty                                            { $$ = NULL; }
  | "->" type                                         { $$ = $2; }
  ;
member_items
  : %empty                                            { $$ = NULL; }
  | member_items member_item                          { $$ = ast_members(p, $1, $2); }
  | member_items error            { $$ = ast_members(p, $1, ast_member_error(p, @2)); RESUME; }
  ;
member_item
  : word "=" expr                                     { $$ = ast_member_assign(p, @$, $1, $3); }
  | word ":" "param" type "=" expr        { $$ = ast_leaf(p, @$, MEMBER_param, $1, $4, $6); }
  | word ":" "buffer" type "=" expr       { $$ = ast_leaf(p, @$, MEMBER_buffer, $1, $4, $6); }
  | "tie" path "=" path                               { $$ = ast_member_tie(p, @$, $2, $4); }
  | "init" path "=" expr                              { $$ = ast_member_init(p, @$, $2, $4); }
  | require                                           { $$ = ast_member_require(p, $1); }
  | loop member_block                                 { $$ = ast_member_for(p, @$, $1, $2); }
  | "if" expr member_block                { $$ = ast_member_if(p, @$, $2, $3, false, NULL); }
  | "if" expr member_block "else" member_block
                                          { $$ = ast_member_if(p, @$, $2, $3, true, $5); }
  | step                                              { $$ = ast_member_step(p, $1); }
  | "@kernel" "(" STRING ")" step         { $$ = ast_member_step(p, ast_step_kernel(p, @$, @3, $5)); }
  ;
/* Blocks are whole before their `else` is looked for: recovery then never goes back into them. */
member_block
  : "{" member_items "}"                              { $$ = $2; }
  ;
step
  : "forward" "(" formals ")" result block            { $$ = ast_forward(p, @$, $3, $5, $6); }
  | "update" "(" formals ")" block                    { $$ = ast_update(p, @$, $3, $5); }
  ;
require
  : "require" expr                                    { $$ = ast_require(p, @$, $2, NULL); }
  | "require" expr "," STRING                         { $$ = ast_require(p, @$, $2, &@4); }
  ;
type
  : dims                                              { $$ = ast_tensor(p, @$, NULL, $1); }
  | IDENT                                             { $$ = ast_type_name(p, @1); }
  | IDENT dims                                        { $$ = ast_tensor(p, @$, &@1, $2); }
  | IDENT "(" args ")"                                { $$ = ast_type_apply(p, @$, @1, $3); }
  | "module"                                          { $$ = ast_type_word(p, @1, TYPE_module); }
  | "optimizer"                                  { $$ = ast_type_word(p, @1, TYPE_optimizer); }
  | "(" type_list ")"                                 { $$ = ast_type_tuple(p, @$, $2); }
  ;
type_list
  : type "," type                     { $$ = ast_types(p, ast_types(p, NULL, $1), $3); }
  | type_list "," type                                { $$ = ast_types(p, $1, $3); }
  ;
dims
  : "[" "]"                                           { $$ = NULL; }
  | "[" dim_list "]"                                  { $$ = $2; }
  ;
dim_list
  : dim                                               { $$ = ast_dims(p, NULL, $1); }
  | dim_list "," dim                                  { $$ = ast_dims(p, $1, $3); }
  ;
dim
  : expr                                              { $$ = (DimExpr){$1, @1}; }
  | "..."                                             { $$ = (DimExpr){NULL, @1}; }
  ;

/* ---------- statements ---------- */
stmts
  : %empty                                            { $$ = NULL; }
  | stmts stmt                                        { $$ = ast_block_add(p, $1, $2); }
  | stmts "return" exprs                              { $$ = ast_block_return(p, $1, @2, $3); }
  | stmts "yield" exprs                               { $$ = ast_block_yield(p, $1, @2, $3); }
  | stmts error                   { $$ = ast_block_add(p, $1, ast_stmt_error(p, @2)); RESUME; }
  ;
block
  : "{" stmts "}"                                     { $$ = $2; }
  ;
stmt
  : targets "=" expr                                  { $$ = ast_assign(p, @$, $1, $3); }
  | targets "=" loop block                            { $$ = ast_collect(p, @$, $1, $3, $4); }
  | loop block                                        { $$ = ast_for(p, @$, $1, $2); }
  | "if" expr block                              { $$ = ast_if(p, @$, $2, $3, false, NULL); }
  | "if" expr block "else" block                      { $$ = ast_if(p, @$, $2, $3, true, $5); }
  | require
  ;
exprs
  : expr                                              { $$ = ast_exprs(p, NULL, $1); }
  | exprs "," expr                                    { $$ = ast_exprs(p, $1, $3); }
  ;
loop
  : "for" targets "in" exprs                          { $$ = ast_loop(p, @$, $2, $4); }
  ;
loops
  : loop                                              { $$ = ast_loops(p, NULL, $1); }
  | loops loop                                        { $$ = ast_loops(p, $1, $2); }
  ;
targets
  : word                                              { $$ = ast_names(p, NULL, $1); }
  | targets "," word                                  { $$ = ast_names(p, $1, $3); }
  ;

/* A member, an item or a run of items, or a kind of module: Linear.weight */
path
  : word                                              { $$ = ast_path(p, @$, $1); }
  | path "." name                                     { $$ = ast_path_name(p, @$, $1, $3); }
  | path "[" slice "]"                                { $$ = ast_path_slice(p, @$, $1, $3); }
  ;
paths
  : path                                              { $$ = ast_paths(p, NULL, $1); }
  | paths "," path                                    { $$ = ast_paths(p, $1, $3); }
  ;
where
  : %empty                                            { $$ = ast_where(NULL, NULL); }
  | paths                                             { $$ = ast_where($1, NULL); }
  | except                                            { $$ = ast_where(NULL, $1); }
  | paths except                                      { $$ = ast_where($1, $2); }
  ;
except
  : "except" paths                                    { $$ = $2; }
  ;

/* ---------- datasets ---------- */
dataset
  : "dataset" name "{" data_items "}"                 { $$ = ast_dataset(p, @$, $2, $4); }
  ;
data_items
  : %empty                                            { $$ = NULL; }
  | data_items data_item                              { $$ = ast_data(p, $1, $2); }
  | data_items error              { $$ = ast_data(p, $1, ast_data_error(@2)); RESUME; }
  ;
data_item
  : "let" word "=" expr                               { $$ = ast_let(@$, DATA_let, $2, $4); }
  | "field" name ":" type range                  { $$ = ast_field(p, @$, $2, $4, $5, NULL); }
  | "field" name ":" type range "as" STRING      { $$ = ast_field(p, @$, $2, $4, $5, &@7); }
  | "split" name "=" expr                             { $$ = ast_let(@$, DATA_split, $2, $4); }
  | "transform" "{" transform_stmts "}"               { $$ = ast_transform(p, @$, NULL, $3); }
  | "transform" name "{" transform_stmts "}"          { $$ = ast_transform(p, @$, &$2, $4); }
  ;
range
  : %empty                                            { $$ = NULL; }
  | "in" expr                                         { $$ = $2; }
  ;
transform_stmts
  : %empty                                            { $$ = NULL; }
  | transform_stmts transform_stmt                    { $$ = ast_block_add(p, $1, $2); }
  | transform_stmts error         { $$ = ast_block_add(p, $1, ast_stmt_error(p, @2)); RESUME; }
  ;
transform_stmt
  : targets "=" expr                                  { $$ = ast_assign(p, @$, $1, $3); }
  ;

/* ---------- model, objective ---------- */
model
  : "model" name "=" expr                        { $$ = ast_model(p, @$, $2, $4, false, NULL); }
  | "model" name "=" expr "{" model_items "}"    { $$ = ast_model(p, @$, $2, $4, true, $6); }
  ;
model_items
  : %empty                                            { $$ = NULL; }
  | model_items model_item                            { $$ = ast_model_items(p, $1, $2); }
  | model_items error       { $$ = ast_model_items(p, $1, ast_model_error(p, @2)); RESUME; }
  ;
model_item
  : "load" STRING                                { $$ = ast_load(p, @$, NULL, @2, NULL); }
  | "load" STRING except                         { $$ = ast_load(p, @$, NULL, @2, $3); }
  | "load" path "=" STRING                       { $$ = ast_load(p, @$, &$2, @4, NULL); }
  | "load" path "=" STRING except                { $$ = ast_load(p, @$, &$2, @4, $5); }
  | "freeze" where                               { $$ = ast_freeze(p, @$, $2); }
  | "eval" where                                 { $$ = ast_eval(p, @$, $2); }
  | "group" where "{" settings "}"               { $$ = ast_group(p, @$, $2, $4); }
  | "tie" path "=" path                          { $$ = ast_model_tie(p, @$, $2, $4); }
  | "init" path "=" expr                         { $$ = ast_model_init(p, @$, $2, $4); }
  | loop "{" model_items "}"                     { $$ = ast_model_for(p, @$, $1, $3); }
  ;
objective
  : "objective" "{" objective_stmts "}"               { $$ = ast_objective(p, @$, $3); }
  ;
objective_stmts
  : %empty                                            { $$ = NULL; }
  | objective_stmts objective_stmt                    { $$ = ast_block_add(p, $1, $2); }
  | objective_stmts error         { $$ = ast_block_add(p, $1, ast_stmt_error(p, @2)); RESUME; }
  ;
objective_stmt
  : stmt
  | "metric" name "=" expr                            { $$ = ast_metric(p, @$, $2, $4); }
  | "output" name "=" expr                            { $$ = ast_output(p, @$, $2, $4); }
  ;

/* ---------- settings ---------- */
train
  : "train" "{" settings "}"                     { $$ = ast_train(p, @$, NULL, $3); }
  | "train" "extends" dotted "{" settings "}"    { $$ = ast_train(p, @$, $3, $5); }
  ;
dotted
  : name                                              { $$ = ast_names(p, NULL, $1); }
  | dotted "." name                                   { $$ = ast_names(p, $1, $3); }
  ;
settings
  : %empty                                            { $$ = NULL; }
  | settings setting                                  { $$ = ast_settings(p, $1, $2); }
  | settings error                { $$ = $1; RESUME; }
  ;
setting
  : name "=" expr comma                          { $$ = ast_setting(p, @$, $1, $3, false, $4); }
  | "final" name "=" expr comma                  { $$ = ast_setting(p, @$, $2, $4, true, $5); }
  ;
comma
  : %empty                                            { $$ = false; }
  | ","                                               { $$ = true; }
  ;
axes
  : %empty                                            { $$ = NULL; }
  | axes axis                                         { $$ = ast_settings(p, $1, $2); }
  | axes error                    { $$ = $1; RESUME; }
  ;
axis
  : name "in" expr comma                         { $$ = ast_setting(p, @$, $1, $3, false, $4); }
  ;

/* ---------- expressions ---------- */
expr
  : "if" or_expr "then" expr "else" expr              { $$ = ast_choice(p, @$, $2, $4, $6); }
  | or_expr
  ;
or_expr
  : and_expr
  | or_expr "or" and_expr                        { $$ = ast_binary(p, @$, BIN_or, @2, $1, $3); }
  ;
and_expr
  : not_expr
  | and_expr "and" not_expr                      { $$ = ast_binary(p, @$, BIN_and, @2, $1, $3); }
  ;
not_expr
  : cmp_expr
  | "not" not_expr                                    { $$ = ast_unary(p, @$, UN_not, $2); }
  ;
cmp_expr
  : range_expr
  | range_expr cmp_op range_expr                      { $$ = ast_binary(p, @$, $2, @2, $1, $3); }
  ;
cmp_op
  : "<"                                               { $$ = BIN_lt; }
  | ">"                                               { $$ = BIN_gt; }
  | "<="                                              { $$ = BIN_le; }
  | ">="                                              { $$ = BIN_ge; }
  | "=="                                              { $$ = BIN_eq; }
  | "!="                                              { $$ = BIN_ne; }
  ;
range_expr
  : add_expr
  | add_expr ".." add_expr                       { $$ = ast_binary(p, @$, BIN_range, @2, $1, $3); }
  ;
add_expr
  : mul_expr
  | add_expr "+" mul_expr                        { $$ = ast_binary(p, @$, BIN_add, @2, $1, $3); }
  | add_expr "-" mul_expr                        { $$ = ast_binary(p, @$, BIN_sub, @2, $1, $3); }
  ;
mul_expr
  : unary_expr
  | mul_expr "*" unary_expr                      { $$ = ast_binary(p, @$, BIN_mul, @2, $1, $3); }
  | mul_expr "/" unary_expr                      { $$ = ast_binary(p, @$, BIN_div, @2, $1, $3); }
  | mul_expr "//" unary_expr                { $$ = ast_binary(p, @$, BIN_floordiv, @2, $1, $3); }
  | mul_expr "%" unary_expr                      { $$ = ast_binary(p, @$, BIN_mod, @2, $1, $3); }
  | mul_expr "@" unary_expr                 { $$ = ast_binary(p, @$, BIN_matmul, @2, $1, $3); }
  ;
unary_expr
  : pow_expr
  | "-" unary_expr                                    { $$ = ast_unary(p, @$, UN_neg, $2); }
  ;
pow_expr
  : post_expr
  | post_expr "**" unary_expr                    { $$ = ast_binary(p, @$, BIN_pow, @2, $1, $3); }
  ;
post_expr
  : atom
  | post_expr "." name                                { $$ = ast_member(p, @$, $1, $3); }
  | post_expr "(" args ")"                            { $$ = ast_call(p, @$, $1, $3); }
  | post_expr "[" subs "]"                            { $$ = ast_index(p, @$, $1, $3); }
  ;
args
  : %empty                                            { $$ = NULL; }
  | arg_list
  | arg_list ","
  ;
arg_list
  : arg                                               { $$ = ast_args(p, NULL, $1); }
  | arg_list "," arg                                  { $$ = ast_args(p, $1, $3); }
  ;
arg
  : expr                                              { $$ = (Arg){NULL, $1, @1}; }
  | name "=" expr                                     { $$ = ast_named_arg(p, $1, $3); }
  ;
subs
  : slice                                             { $$ = ast_subs(p, NULL, $1); }
  | subs "," slice                                    { $$ = ast_subs(p, $1, $3); }
  ;
slice
  : expr                         { $$ = (Subscript){SUB_index, $1, NULL, NULL, @$}; }
  | bound ":" bound              { $$ = (Subscript){SUB_slice, $1, $3, NULL, @$}; }
  | bound ":" bound ":" bound    { $$ = (Subscript){SUB_slice, $1, $3, $5, @$}; }
  | "..."                        { $$ = (Subscript){SUB_ellipsis, NULL, NULL, NULL, @$}; }
  ;
bound
  : %empty                                            { $$ = NULL; }
  | expr
  | PERCENT                                           { $$ = ast_percent(p, @1); }
  ;
atom
  : INT                                               { $$ = ast_int(p, @1); }
  | FLOAT                                             { $$ = ast_float(p, @1); }
  | STRING                                            { $$ = ast_text(p, @1); }
  | "true"                                            { $$ = ast_bool(p, @1, true); }
  | "false"                                           { $$ = ast_bool(p, @1, false); }
  | "none"                                            { $$ = ast_none(p, @1); }
  | word                                              { $$ = ast_name_expr(p, $1); }
  | "(" expr ")"                                      { $$ = ast_parens(p, @$, $2); }
  | "(" expr "," list_tail ")"          { $$ = ast_sequence(p, @$, EXPR_tuple, $2, $4); }
  | "[" "]"                             { $$ = ast_sequence(p, @$, EXPR_list, NULL, NULL); }
  | "[" list_tail "]"                   { $$ = ast_sequence(p, @$, EXPR_list, NULL, $2); }
  | "[" expr loops "]"                                { $$ = ast_comprehension(p, @$, $2, $3); }
  | "{" "}"                                           { $$ = ast_map(p, @$, NULL); }
  | "{" map_items "}"                                 { $$ = ast_map(p, @$, $2); }
  | "{" map_items "," "}"                             { $$ = ast_map(p, @$, $2); }
  ;
list_tail
  : exprs
  | exprs ","
  ;
map_items
  : map_item                                          { $$ = ast_map_items(p, NULL, $1); }
  | map_items "," map_item                            { $$ = ast_map_items(p, $1, $3); }
  ;
map_item
  : name "=" expr                                     { $$ = ast_map_item(p, @$, $1, $3); }
  | STRING ":" expr                                   { $$ = ast_quoted_item(p, @$, @1, $3); }
  ;
%%
/* Only for "memory exhausted": syntax errors go to parse_unexpected. */
static void ddp_error(const Span *at, Parse *p, const char *message) {
  (void)message;
  parse_too_deep(p, *at);
}

static int yyreport_syntax_error(const yypcontext_t *context, Parse *p) {
  yysymbol_kind_t kinds[YYNTOKENS];
  const char *names[YYNTOKENS];
  if (p->reports >= REPORTS_MAX) { /* nobody would see it */
    p->failed = true;
    return 0;
  }
  int n = yypcontext_expected_tokens(context, kinds, YYNTOKENS);
  for (int i = 0; i < n; i++) names[i] = yysymbol_name(kinds[i]);
  parse_unexpected(p, names, n);
  return 0;
}
