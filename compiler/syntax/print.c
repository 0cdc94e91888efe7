/* AST -> S-expressions, one declaration, member or statement a line, two spaces a level. Everything
   that was written is in it but places, comments and redundant parentheses. */
#include "print.h"
#include <string.h>

const char *ast_binary_text(BinaryOp op) {
  static const char *const texts[] = {"+", "-",  "*",  "/",  "//", "%",   "**", "@", "<",
                                      ">", "<=", ">=", "==", "!=", "and", "or", ".."};
  return texts[op];
}

/* ---------- small parts ---------- */
static void line(Text *out, int level) {
  text_add(out, "\n");
  for (int i = 0; i < level; i++) text_add(out, "  ");
}

static void quoted(Text *out, const char *s, size_t n) {
  text_add(out, "\"");
  for (size_t i = 0; i < n; i++) {
    switch (s[i]) {
    case '"':
      text_add(out, "\\\"");
      break;
    case '\\':
      text_add(out, "\\\\");
      break;
    case '\n':
      text_add(out, "\\n");
      break;
    case '\t':
      text_add(out, "\\t");
      break;
    case '\r':
      text_add(out, "\\r");
      break;
    default:
      text_add_n(out, s + i, 1);
    }
  }
  text_add(out, "\"");
}

static void quoted_text(Text *out, const char *s) {
  quoted(out, s, strlen(s));
}

static void indexed(Text *out, const char *text, const char *index, const char *suffix) {
  text_add(out, text ? text : "_");
  if (index) text_addf(out, "{%s}%s", index, suffix);
}

static void name(Text *out, const Name *n) {
  indexed(out, n->text, n->index, n->suffix);
}

static void names(Text *out, const NameList *list) {
  text_add(out, "(");
  for (uint32_t i = 0; i < list->len; i++) {
    if (i) text_add(out, " ");
    name(out, &list->at[i]);
  }
  text_add(out, ")");
}

static void maybe(Text *out, const Expr *e) {
  if (e)
    ast_print_expr(out, e);
  else
    text_add(out, "_");
}

static void exprs(Text *out, const ExprList *list) {
  for (uint32_t i = 0; i < list->len; i++) {
    text_add(out, " ");
    ast_print_expr(out, list->at[i]);
  }
}

static void args(Text *out, const ArgList *list) {
  for (uint32_t i = 0; i < list->len; i++) {
    const Arg *a = &list->at[i];
    text_add(out, " ");
    if (a->name) text_addf(out, "(= %s ", a->name);
    ast_print_expr(out, a->value);
    if (a->name) text_add(out, ")");
  }
}

static void subscript(Text *out, const Subscript *s) {
  if (s->kind == SUB_ellipsis) {
    text_add(out, "...");
  } else if (s->kind == SUB_index) {
    ast_print_expr(out, s->start);
  } else {
    text_add(out, "(: ");
    maybe(out, s->start);
    text_add(out, " ");
    maybe(out, s->stop);
    if (s->step) {
      text_add(out, " ");
      ast_print_expr(out, s->step);
    }
    text_add(out, ")");
  }
}

static void loop(Text *out, const Loop *l) {
  text_add(out, "(for ");
  names(out, &l->targets);
  exprs(out, &l->iterables);
  text_add(out, ")");
}

/* ---------- expressions ---------- */
static void literal(Text *out, const Expr *e) {
  switch (e->kind) {
  case EXPR_int:
    text_addf(out, "%lld", (long long)e->as.i);
    break;
  case EXPR_float:
    text_add_double(out, e->as.f);
    break;
  case EXPR_percent:
    text_add_double(out, e->as.f);
    text_add(out, "%");
    break;
  case EXPR_text:
    quoted(out, e->as.text.text, e->as.text.length);
    break;
  case EXPR_bool:
    text_add(out, e->as.b ? "true" : "false");
    break;
  case EXPR_none:
    text_add(out, "none");
    break;
  case EXPR_name:
    name(out, &e->as.name);
    break;
  default:
    text_add(out, "<error>");
    break;
  }
}

static void map(Text *out, const MapList *items) {
  text_add(out, "(map");
  for (uint32_t i = 0; i < items->len; i++) {
    text_add(out, " (");
    quoted_text(out, items->at[i].key);
    text_add(out, " ");
    ast_print_expr(out, items->at[i].value);
    text_add(out, ")");
  }
  text_add(out, ")");
}

static void sequence(Text *out, const Expr *e) {
  text_add(out, e->kind == EXPR_list ? "(list" : "(tuple");
  exprs(out, &e->as.items);
  text_add(out, ")");
}

static void operation(Text *out, const Expr *e) {
  if (e->kind == EXPR_unary) {
    text_add(out, e->as.unary.op == UN_neg ? "(neg " : "(not ");
    ast_print_expr(out, e->as.unary.operand);
  } else if (e->kind == EXPR_binary) {
    text_addf(out, "(%s ", ast_binary_text(e->as.binary.op));
    ast_print_expr(out, e->as.binary.left);
    text_add(out, " ");
    ast_print_expr(out, e->as.binary.right);
  } else {
    text_add(out, "(if ");
    ast_print_expr(out, e->as.cond.condition);
    text_add(out, " ");
    ast_print_expr(out, e->as.cond.yes);
    text_add(out, " ");
    ast_print_expr(out, e->as.cond.no);
  }
  text_add(out, ")");
}

static void access(Text *out, const Expr *e) {
  if (e->kind == EXPR_member) {
    text_add(out, "(. ");
    ast_print_expr(out, e->as.member.object);
    text_addf(out, " %s", e->as.member.name);
  } else if (e->kind == EXPR_call) {
    text_add(out, "(call ");
    ast_print_expr(out, e->as.call.callee);
    args(out, &e->as.call.args);
  } else {
    text_add(out, "(index ");
    ast_print_expr(out, e->as.index.object);
    for (uint32_t i = 0; i < e->as.index.subs.len; i++) {
      text_add(out, " ");
      subscript(out, &e->as.index.subs.at[i]);
    }
  }
  text_add(out, ")");
}

void ast_print_expr(Text *out, const Expr *e) {
  switch (e->kind) {
  case EXPR_unary:
  case EXPR_binary:
  case EXPR_if:
    operation(out, e);
    break;
  case EXPR_member:
  case EXPR_call:
  case EXPR_index:
    access(out, e);
    break;
  case EXPR_list:
  case EXPR_tuple:
    sequence(out, e);
    break;
  case EXPR_map:
    map(out, &e->as.map);
    break;
  case EXPR_comprehension:
    text_add(out, "(each ");
    ast_print_expr(out, e->as.comprehension.value);
    for (uint32_t i = 0; i < e->as.comprehension.loops.len; i++) {
      text_add(out, " ");
      loop(out, &e->as.comprehension.loops.at[i]);
    }
    text_add(out, ")");
    break;
  default:
    literal(out, e);
    break;
  }
}

/* ---------- types, formals, paths ---------- */
static void type(Text *out, const TypeExpr *t) {
  if (t->kind == TYPE_tensor) {
    text_addf(out, "(tensor %s", t->name ? t->name : "_");
    for (uint32_t i = 0; i < t->dims.len; i++) {
      text_add(out, " ");
      if (t->dims.at[i].value)
        ast_print_expr(out, t->dims.at[i].value);
      else
        text_add(out, "...");
    }
    text_add(out, ")");
  } else if (t->kind == TYPE_apply) {
    text_addf(out, "(%s", t->name);
    args(out, &t->args);
    text_add(out, ")");
  } else if (t->kind == TYPE_tuple) {
    text_add(out, "(tuple");
    for (uint32_t i = 0; i < t->items.len; i++) {
      text_add(out, " ");
      type(out, t->items.at[i]);
    }
    text_add(out, ")");
  } else {
    text_add(out, t->name ? t->name : "<error>");
  }
}

static void formals(Text *out, const FormalList *list) {
  text_add(out, " (");
  for (uint32_t i = 0; i < list->len; i++) {
    const Formal *f = &list->at[i];
    text_addf(out, "%s(%s ", i ? " " : "", f->name);
    type(out, f->type);
    if (f->value) {
      text_add(out, " ");
      ast_print_expr(out, f->value);
    }
    text_add(out, ")");
  }
  text_add(out, ")");
}

static void path(Text *out, const Path *p) {
  text_add(out, "(path");
  for (uint32_t i = 0; i < p->steps.len; i++) {
    const PathStep *s = &p->steps.at[i];
    text_add(out, " ");
    if (s->name) {
      indexed(out, s->name, s->index, s->suffix);
    } else {
      text_add(out, "[");
      subscript(out, &s->sub);
      text_add(out, "]");
    }
  }
  text_add(out, ")");
}

static void where(Text *out, const Where *w) {
  for (uint32_t i = 0; i < w->paths.len; i++) {
    text_add(out, " ");
    path(out, &w->paths.at[i]);
  }
  if (!w->except.len) return;
  text_add(out, " (except");
  for (uint32_t i = 0; i < w->except.len; i++) {
    text_add(out, " ");
    path(out, &w->except.at[i]);
  }
  text_add(out, ")");
}

static void settings(Text *out, const SettingList *list, int level) {
  for (uint32_t i = 0; i < list->len; i++) {
    const Setting *s = &list->at[i];
    line(out, level);
    text_addf(out, "(%s%s ", s->is_final ? "final " : "", s->key);
    ast_print_expr(out, s->value);
    text_add(out, ")");
  }
}

/* ---------- statements ---------- */
static void stmts(Text *out, const StmtList *list, int level);

static void stmt_for(Text *out, const Stmt *s, int level) {
  text_add(out, s->kind == STMT_collect ? "(collect " : "(loop ");
  if (s->kind == STMT_collect) {
    names(out, &s->targets);
    text_add(out, " ");
  }
  loop(out, &s->loop);
  stmts(out, &s->body, level + 1);
  if (s->kind == STMT_collect) {
    line(out, level + 1);
    text_add(out, "(yield");
    exprs(out, &s->yields);
    text_add(out, ")");
  }
}

static void stmt(Text *out, const Stmt *s, int level) {
  line(out, level);
  switch (s->kind) {
  case STMT_error:
    text_add(out, "(error");
    break;
  case STMT_assign:
  case STMT_metric:
  case STMT_output:
    text_add(out, s->kind == STMT_metric   ? "(metric "
                  : s->kind == STMT_output ? "(output "
                                           : "(set ");
    names(out, &s->targets);
    text_add(out, " ");
    ast_print_expr(out, s->value);
    break;
  case STMT_collect:
  case STMT_for:
    stmt_for(out, s, level);
    break;
  case STMT_if:
    text_add(out, "(if ");
    ast_print_expr(out, s->value);
    stmts(out, &s->body, level + 1);
    if (s->has_else) {
      line(out, level);
      text_add(out, " else");
      stmts(out, &s->orelse, level + 1);
    }
    break;
  case STMT_require:
    text_add(out, "(require ");
    ast_print_expr(out, s->value);
    if (s->message) {
      text_add(out, " ");
      quoted_text(out, s->message);
    }
    break;
  }
  text_add(out, ")");
}

static void stmts(Text *out, const StmtList *list, int level) {
  for (uint32_t i = 0; i < list->len; i++) stmt(out, list->at[i], level);
}

static void returns(Text *out, const ExprList *list, int level) {
  if (!list->len) return;
  line(out, level);
  text_add(out, "(return");
  exprs(out, list);
  text_add(out, ")");
}

static void kernel(Text *out, const char *k) {
  if (!k) return;
  text_add(out, " (kernel ");
  quoted_text(out, k);
  text_add(out, ")");
}

static void result(Text *out, const TypeExpr *t) {
  if (!t) return;
  text_add(out, " -> ");
  type(out, t);
}

/* ---------- members ---------- */
static void members(Text *out, const MemberList *list, int level);

static void step(Text *out, const Step *s, int level) {
  text_add(out, s->is_update ? "(update" : "(forward");
  kernel(out, s->kernel);
  formals(out, &s->formals);
  result(out, s->result);
  stmts(out, &s->body, level + 1);
  returns(out, &s->returns, level + 1);
}

static void leaf(Text *out, const Member *m) {
  text_add(out, m->kind == MEMBER_param ? "(param " : "(buffer ");
  name(out, &m->name);
  text_add(out, " ");
  type(out, m->type);
  text_add(out, " ");
  ast_print_expr(out, m->value);
}

static void member_block(Text *out, const Member *m, int level) {
  if (m->kind == MEMBER_for) {
    text_add(out, "(loop ");
    loop(out, &m->loop);
  } else {
    text_add(out, "(if ");
    ast_print_expr(out, m->value);
  }
  members(out, &m->body, level + 1);
  if (!m->has_else) return;
  line(out, level);
  text_add(out, " else");
  members(out, &m->orelse, level + 1);
}

static void member(Text *out, const Member *m, int level) {
  line(out, level);
  switch (m->kind) {
  case MEMBER_error:
    text_add(out, "(error");
    break;
  case MEMBER_assign:
    text_add(out, "(set ");
    name(out, &m->name);
    text_add(out, " ");
    ast_print_expr(out, m->value);
    break;
  case MEMBER_param:
  case MEMBER_buffer:
    leaf(out, m);
    break;
  case MEMBER_tie:
    text_add(out, "(tie ");
    path(out, &m->left);
    text_add(out, " ");
    path(out, &m->right);
    break;
  case MEMBER_init:
    text_add(out, "(init ");
    path(out, &m->left);
    text_add(out, " ");
    ast_print_expr(out, m->value);
    break;
  case MEMBER_require:
    text_add(out, "(require ");
    ast_print_expr(out, m->value);
    if (m->message) {
      text_add(out, " ");
      quoted_text(out, m->message);
    }
    break;
  case MEMBER_for:
  case MEMBER_if:
    member_block(out, m, level);
    break;
  case MEMBER_step:
    step(out, m->step, level);
    break;
  }
  text_add(out, ")");
}

static void members(Text *out, const MemberList *list, int level) {
  for (uint32_t i = 0; i < list->len; i++) member(out, list->at[i], level);
}

/* ---------- datasets, models ---------- */
static void data_item(Text *out, const DataItem *d, int level) {
  static const char *const words[] = {"error", "let", "field", "split", "transform"};
  line(out, level);
  text_addf(out, "(%s", words[d->kind]);
  if (d->name.text) {
    text_add(out, " ");
    name(out, &d->name);
  }
  if (d->type) {
    text_add(out, " ");
    type(out, d->type);
  }
  if (d->value) {
    text_add(out, " ");
    ast_print_expr(out, d->value);
  }
  if (d->range) {
    text_add(out, " (in ");
    ast_print_expr(out, d->range);
    text_add(out, ")");
  }
  if (d->source_name) {
    text_add(out, " (as ");
    quoted_text(out, d->source_name);
    text_add(out, ")");
  }
  stmts(out, &d->body, level + 1);
  text_add(out, ")");
}

static void model_item(Text *out, const ModelItem *m, int level) {
  static const char *const words[] = {"error", "load", "freeze", "eval",
                                      "group", "tie",  "init",   "loop"};
  line(out, level);
  text_addf(out, "(%s", words[m->kind]);
  if (m->kind == MODEL_for) {
    text_add(out, " ");
    loop(out, &m->loop);
  }
  if (m->path.steps.len) {
    text_add(out, " ");
    path(out, &m->path);
  }
  if (m->right.steps.len) {
    text_add(out, " ");
    path(out, &m->right);
  }
  if (m->file) {
    text_add(out, " ");
    quoted_text(out, m->file);
  }
  where(out, &m->where);
  if (m->value) {
    text_add(out, " ");
    ast_print_expr(out, m->value);
  }
  settings(out, &m->settings, level + 1);
  for (uint32_t i = 0; i < m->body.len; i++) model_item(out, m->body.at[i], level + 1);
  text_add(out, ")");
}

/* ---------- declarations ---------- */
static void decl_head(Text *out, const Decl *d) {
  static const char *const words[] = {"error",  "import",    "param",   "const", "def",
                                      "module", "optimizer", "dataset", "model", "objective",
                                      "train",  "runtime",   "target",  "sweep"};
  text_addf(out, "(%s", words[d->kind]);
  kernel(out, d->kernel);
  if (d->name.text) {
    text_add(out, " ");
    name(out, &d->name);
  }
  if (d->file) {
    text_addf(out, " %s", d->language ? d->language : "ddp");
    text_add(out, " ");
    quoted_text(out, d->file);
  }
  if (d->extends.len) {
    text_add(out, " extends ");
    names(out, &d->extends);
  }
}

static void decl(Text *out, const Decl *d) {
  decl_head(out, d);
  bool has_formals = d->kind == DECL_def || d->kind == DECL_module || d->kind == DECL_optimizer;
  if (has_formals) formals(out, &d->formals);
  if (d->kind == DECL_def) {
    result(out, d->type);
  } else if (d->type) {
    text_add(out, " ");
    type(out, d->type);
  }
  if (d->value) {
    text_add(out, " ");
    ast_print_expr(out, d->value);
  }
  stmts(out, &d->body, 2);
  returns(out, &d->returns, 2);
  members(out, &d->members, 2);
  for (uint32_t i = 0; i < d->data.len; i++) data_item(out, &d->data.at[i], 2);
  for (uint32_t i = 0; i < d->model.len; i++) model_item(out, d->model.at[i], 2);
  settings(out, &d->settings, 2);
  text_add(out, ")");
}

void ast_print(Text *out, const AstFile *file) {
  text_addf(out, "(file %lld", (long long)file->edition);
  for (uint32_t i = 0; i < file->decls.len; i++) {
    line(out, 1);
    decl(out, file->decls.at[i]);
  }
  text_add(out, ")\n");
}
