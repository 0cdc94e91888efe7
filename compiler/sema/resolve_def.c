/* Names of definitions and files (eval.h: resolve_file, resolve_unused): signatures with their sizes,
   members, recursion, unused members and file names. Looks at definitions, not at instances. */
#include "kernel.h"
#include "resolve.h"
#include "signature.h"
#include <string.h>

/* ---------- signatures ---------- */

static void size_use(Resolver *r, Names *names, const Expr *x, bool alone, bool result) {
  Known *k = names_find(names, x->as.name.text);
  if (!k) k = names_define(r, names, x->as.name.text, KNOWN_size, x->span);
  k->uses++;
  if (alone && !result) k->bound = true;
  if (!result) k->inputs++;
}

/* A dimension that is an expression: sizes in it are uses, everything else must be known. */
static void dim_expr(Resolver *r, Names *names, const Expr *x, bool result) {
  if (resolve_is_size(r, names, x)) {
    size_use(r, names, x, false, result);
    return;
  }
  switch (x->kind) {
  case EXPR_unary:
    dim_expr(r, names, x->as.unary.operand, result);
    return;
  case EXPR_binary:
    dim_expr(r, names, x->as.binary.left, result);
    dim_expr(r, names, x->as.binary.right, result);
    return;
  default:
    resolve_expr(r, names, x);
    return;
  }
}

static void dim_name(Resolver *r, Names *names, const Expr *x) {
  const char *name = x->as.name.text;
  bool known = names_find(names, name) || file_find(r->file, name) || size_like(name);
  if (known) {
    resolve_expr(r, names, x);
    return;
  }
  TextNearest near = {.wanted = name};
  for (Names *n = names; n; n = n->parent)
    for (uint32_t i = 0; i < n->known.len; i++) text_offer(&near, n->known.at[i].name);
  diag_report(DIAG_E0401, x->span, "`%s` in a dimension is not known", name);
  if (near.best)
    diag_help("did you mean `%s`?", near.best);
  else
    diag_help("sizes that a call binds begin with an upper-case letter");
}

static void resolve_type(Resolver *r, Names *names, const TypeExpr *t, bool result) {
  if (!t) return;
  int runs = 0;
  for (uint32_t i = 0; i < t->items.len; i++) resolve_type(r, names, t->items.at[i], result);
  for (uint32_t i = 0; i < t->dims.len; i++) {
    const Expr *x = t->dims.at[i].value;
    if (!x) {
      if (++runs == 2) diag_report(DIAG_E0407, t->dims.at[i].span, "more than one `...` in a type");
    } else if (x->kind == EXPR_name && x->as.name.text[0] == '_') {
      continue;
    } else if (resolve_is_size(r, names, x)) {
      size_use(r, names, x, true, result);
    } else if (x->kind == EXPR_name && !x->as.name.index) {
      dim_name(r, names, x);
    } else {
      dim_expr(r, names, x, result);
    }
  }
}

/* Formals in order: a default sees the formals left of it, types see them all. */
static void resolve_formals(Resolver *r, Names *names, FormalList formals) {
  for (uint32_t i = 0; i < formals.len; i++) {
    const Formal *f = &formals.at[i];
    resolve_expr(r, names, f->value);
    Known *k = names_own(names, f->name);
    if (k) {
      diag_report(DIAG_E0302, f->span, "formal `%s` is declared twice", f->name);
      diag_note(k->at, "the first one");
    } else {
      names_define(r, names, f->name, KNOWN_formal, f->span);
    }
  }
  for (uint32_t i = 0; i < formals.len; i++) resolve_type(r, names, formals.at[i].type, false);
}

static void resolve_step(Resolver *r, Names *outer, const Step *s) {
  kernel_check(s->kernel, s->formals, s->kernel_span);
  Names *names = names_new(r, outer);
  resolve_formals(r, names, s->formals);
  /* The place gives `update` what it declares; it need not look at all of it. */
  for (uint32_t i = 0; s->is_update && i < names->known.len; i++) names->known.at[i].exempt = true;
  resolve_type(r, names, s->result, true);
  resolve_body(r, names, s->body, s->returns);
  resolve_end(r, names);
}

/* ---------- members ---------- */

static KnownKind member_kind(const Member *m) {
  return m->kind == MEMBER_buffer  ? KNOWN_buffer
         : m->kind == MEMBER_param ? KNOWN_param
                                   : KNOWN_member;
}

static bool is_named(const Member *m) {
  return m->kind == MEMBER_assign || m->kind == MEMBER_param || m->kind == MEMBER_buffer;
}

/* All members of a module are announced first, so that an early use can be told. */
static void announce_members(Resolver *r, Names *names, MemberList members) {
  for (uint32_t i = 0; i < members.len; i++) {
    const Member *m = members.at[i];
    if (m->kind == MEMBER_if) {
      announce_members(r, names, m->body);
      announce_members(r, names, m->orelse);
    }
    if (!is_named(m) || m->name.index || names_find(names, m->name.text)) continue;
    names_define(r, names, m->name.text, member_kind(m), m->name.span)->not_yet = true;
  }
}

/* By the look of it: `Linear(...)`, or a list of such. */
static bool makes_module(const Expr *x) {
  if (x->kind == EXPR_comprehension) return makes_module(x->as.comprehension.value);
  if (x->kind == EXPR_list) return x->as.items.len && makes_module(x->as.items.at[0]);
  if (x->kind != EXPR_call) return false;
  const Expr *callee = x->as.call.callee;
  if (callee->kind == EXPR_name) return size_like(callee->as.name.text);
  return callee->kind == EXPR_member && size_like(callee->as.member.name);
}

static void make_member(Resolver *r, Names *module, Names *here, const Member *m) {
  const char *key = resolve_name_key(r, here, &m->name);
  /* In a loop constants belong to the turn, members with an index to the module. */
  Names *home = m->name.index ? module : here;
  Known *k = names_own(home, key);
  if (k && !k->not_yet && home == here && !m->name.index && here != module) k = NULL;
  if (!k) k = names_define(r, home, key, member_kind(m), m->name.span);
  k->kind = member_kind(m);
  k->not_yet = false;
  k->module = m->kind == MEMBER_assign && makes_module(m->value);
  if (m->name.index) k->at = m->name.span;
}

static void duplicate_members(MemberList members) {
  for (uint32_t i = 0; i < members.len; i++)
    for (uint32_t j = 0; j < i; j++) {
      const Member *a = members.at[j], *b = members.at[i];
      bool same = is_named(a) && is_named(b) && !a->name.index && !b->name.index &&
                  a->name.text == b->name.text;
      if (!same) continue;
      diag_report(DIAG_E0302, b->name.span, "member `%s` is declared twice", b->name.text);
      diag_note(a->name.span, "the first one");
      break;
    }
}

static void path_uses(Resolver *r, Names *names, const Path *p) {
  for (uint32_t i = 0; i < p->steps.len; i++) {
    const PathStep *s = &p->steps.at[i];
    if (s->name) continue;
    resolve_expr(r, names, s->sub.start);
    resolve_expr(r, names, s->sub.stop);
  }
}

static void resolve_members(Resolver *r, Names *module, Names *here, MemberList members) {
  duplicate_members(members);
  for (uint32_t i = 0; i < members.len; i++) {
    const Member *m = members.at[i];
    switch (m->kind) {
    case MEMBER_assign:
    case MEMBER_param:
    case MEMBER_buffer:
      resolve_type(r, here, m->type, false);
      resolve_expr(r, here, m->value);
      make_member(r, module, here, m);
      break;
    case MEMBER_init:
      path_uses(r, here, &m->left);
      resolve_expr(r, here, m->value);
      break;
    case MEMBER_tie:
      path_uses(r, here, &m->left);
      path_uses(r, here, &m->right);
      break;
    case MEMBER_require:
      resolve_expr(r, here, m->value);
      break;
    case MEMBER_for: {
      Names *inner = names_new(r, here);
      resolve_loop(r, here, inner, &m->loop);
      resolve_members(r, module, inner, m->body);
      resolve_end(r, inner);
      break;
    }
    case MEMBER_if:
      resolve_expr(r, here, m->value);
      resolve_members(r, module, here, m->body);
      resolve_members(r, module, here, m->orelse);
      break;
    default:
      break;
    }
  }
}

static void resolve_steps(Resolver *r, Names *names, MemberList members) {
  for (uint32_t i = 0; i < members.len; i++) {
    const Member *m = members.at[i];
    if (m->kind == MEMBER_step) resolve_step(r, names, m->step);
    if (m->kind == MEMBER_if) {
      resolve_steps(r, names, m->body);
      resolve_steps(r, names, m->orelse);
    }
  }
}

/* Read from outside: `bert.hidden_size`, `wte.weight`. */
static void count_dotted(Resolver *r, Names *names) {
  for (uint32_t i = 0; i < names->known.len; i++)
    for (uint32_t k = 0; k < r->dotted.len; k++)
      if (names->known.at[i].name == r->dotted.at[k]) names->known.at[i].uses++;
}

static bool has_step(MemberList members) {
  for (uint32_t i = 0; i < members.len; i++)
    if (members.at[i]->kind == MEMBER_step) return true;
  return false;
}

static void resolve_module(Resolver *r, const Decl *d) {
  Names *formals = names_new(r, NULL);
  resolve_formals(r, formals, d->formals);
  Names *members = names_new(r, formals);
  /* A member may take the name of a formal: until its line the formal is meant. */
  announce_members(r, members, d->members);
  resolve_members(r, members, members, d->members);
  resolve_steps(r, members, d->members);
  count_dotted(r, formals);
  count_dotted(r, members);
  if (d->kind == DECL_module && !has_step(d->members)) /* a holder of members */
    for (uint32_t i = 0; i < members->known.len; i++) members->known.at[i].exempt = true;
  resolve_end(r, members);
  resolve_end(r, formals);
}

static void resolve_def(Resolver *r, const Decl *d) {
  kernel_check(d->kernel, d->formals, d->kernel_span);
  Names *names = names_new(r, NULL);
  resolve_formals(r, names, d->formals);
  resolve_type(r, names, d->type, true);
  if (d->has_body) {
    resolve_body(r, names, d->body, d->returns);
  } else {
    resolve_expr(r, names, d->value);
  }
  resolve_end(r, names);
}

/* ---------- blocks of a job: the evaluator sees all of them; here uses are counted ---------- */

static void soft_settings(Resolver *r, Names *names, SettingList settings) {
  for (uint32_t i = 0; i < settings.len; i++) resolve_expr(r, names, settings.at[i].value);
}

static void soft_model(Resolver *r, Names *names, ModelList items) {
  for (uint32_t i = 0; i < items.len; i++) {
    const ModelItem *m = items.at[i];
    resolve_expr(r, names, m->value);
    soft_settings(r, names, m->settings);
    path_uses(r, names, &m->path);
    path_uses(r, names, &m->right);
    for (uint32_t k = 0; k < m->where.paths.len; k++) path_uses(r, names, &m->where.paths.at[k]);
    for (uint32_t k = 0; k < m->where.except.len; k++) path_uses(r, names, &m->where.except.at[k]);
    if (m->kind != MODEL_for) continue;
    Names *inner = names_new(r, names);
    resolve_loop(r, names, inner, &m->loop);
    soft_model(r, inner, m->body);
  }
}

static void soft_type(Resolver *r, Names *names, const TypeExpr *t) {
  if (!t) return;
  for (uint32_t i = 0; i < t->dims.len; i++) resolve_expr(r, names, t->dims.at[i].value);
  for (uint32_t i = 0; i < t->args.len; i++) resolve_expr(r, names, t->args.at[i].value);
}

static void soft_data(Resolver *r, const Decl *d) {
  Names *names = names_new(r, NULL);
  for (uint32_t i = 0; i < d->data.len; i++) {
    const DataItem *item = &d->data.at[i];
    resolve_expr(r, names, item->value);
    resolve_expr(r, names, item->range);
    soft_type(r, names, item->type);
    if (item->kind == DATA_let)
      names_define(r, names, item->name.text, KNOWN_local, item->name.span);
    if (item->kind == DATA_field)
      names_define(r, names, item->name.text, KNOWN_index, item->name.span);
    resolve_stmts(r, names, item->body);
  }
  r->soft = false;
  for (uint32_t i = 0; i < names->known.len; i++) /* only `let` is ours to report */
    if (names->known.at[i].kind != KNOWN_local) names->known.at[i].exempt = true;
  for (uint32_t i = 0; i < d->data.len; i++)
    for (uint32_t k = 0; k < d->data.at[i].body.len; k++) {
      NameList t = d->data.at[i].body.at[k]->targets;
      for (uint32_t n = 0; n < t.len; n++) {
        Known *known = names_own(names, t.at[n].text);
        if (known) known->exempt = true;
      }
    }
  resolve_end(r, names);
}

static void resolve_objective(Resolver *r, const Decl *d) {
  for (uint32_t i = 0; i < d->body.len; i++)
    if (d->body.at[i]->kind == STMT_metric)
      vec_push(r->arena, &r->metrics, d->body.at[i]->targets.at[0].text);
  Names *names = names_new(r, NULL);
  resolve_body(r, names, d->body, (ExprList){0});
  Known *loss = names_own(names, text_intern("loss"));
  if (loss) loss->exempt = true;
  resolve_end(r, names);
  r->metrics.len = 0;
}

static void resolve_decl(Resolver *r, const Decl *d) {
  r->decl = d;
  r->refers.len = 0;
  r->soft = false;
  switch (d->kind) {
  case DECL_def:
    resolve_def(r, d);
    return;
  case DECL_module:
  case DECL_optimizer:
    resolve_module(r, d);
    return;
  case DECL_objective:
    resolve_objective(r, d);
    return;
  case DECL_dataset:
    r->soft = true;
    soft_data(r, d);
    return;
  default:
    break;
  }
  r->soft = true;
  Names *names = names_new(r, NULL);
  resolve_expr(r, names, d->value);
  soft_settings(r, names, d->settings);
  soft_model(r, names, d->model);
}

/* ---------- names after a dot ---------- */

static void dotted_expr(Resolver *r, const Expr *x);

static void dotted_list(Resolver *r, ExprList list) {
  for (uint32_t i = 0; i < list.len; i++) dotted_expr(r, list.at[i]);
}

static void dotted_expr(Resolver *r, const Expr *x) {
  if (!x) return;
  switch (x->kind) {
  case EXPR_member:
    vec_push(r->arena, &r->dotted, text_intern(x->as.member.name));
    dotted_expr(r, x->as.member.object);
    return;
  case EXPR_unary:
    dotted_expr(r, x->as.unary.operand);
    return;
  case EXPR_binary:
    dotted_expr(r, x->as.binary.left);
    dotted_expr(r, x->as.binary.right);
    return;
  case EXPR_if:
    dotted_expr(r, x->as.cond.condition);
    dotted_expr(r, x->as.cond.yes);
    dotted_expr(r, x->as.cond.no);
    return;
  case EXPR_call:
    dotted_expr(r, x->as.call.callee);
    for (uint32_t i = 0; i < x->as.call.args.len; i++) dotted_expr(r, x->as.call.args.at[i].value);
    return;
  case EXPR_index:
    dotted_expr(r, x->as.index.object);
    return;
  case EXPR_list:
  case EXPR_tuple:
    dotted_list(r, x->as.items);
    return;
  case EXPR_comprehension:
    dotted_expr(r, x->as.comprehension.value);
    return;
  default:
    return;
  }
}

static void dotted_stmts(Resolver *r, StmtList body) {
  for (uint32_t i = 0; i < body.len; i++) {
    const Stmt *s = body.at[i];
    dotted_expr(r, s->value);
    dotted_list(r, s->loop.iterables);
    dotted_list(r, s->yields);
    dotted_stmts(r, s->body);
    dotted_stmts(r, s->orelse);
  }
}

static void dotted_members(Resolver *r, MemberList members) {
  for (uint32_t i = 0; i < members.len; i++) {
    const Member *m = members.at[i];
    dotted_expr(r, m->value);
    dotted_members(r, m->body);
    dotted_members(r, m->orelse);
    if (m->kind != MEMBER_step) continue;
    dotted_stmts(r, m->step->body);
    dotted_list(r, m->step->returns);
  }
}

static void dotted_file(Resolver *r, const File *file) {
  for (uint32_t i = 0; i < file->ast->decls.len; i++) {
    const Decl *d = file->ast->decls.at[i];
    dotted_expr(r, d->value);
    dotted_stmts(r, d->body);
    dotted_list(r, d->returns);
    dotted_members(r, d->members);
  }
}

/* ---------- recursion ---------- */

typedef struct Node {
  const Decl *decl;
  VEC(uint32_t) to;
  int state; /* 0 new, 1 on the way, 2 done */
} Node;
typedef VEC(Node) Nodes;

/* False after a report. */
static bool visit(Nodes *nodes, uint32_t i) {
  Node *n = &nodes->at[i];
  bool ends = true;
  n->state = 1;
  for (uint32_t k = 0; k < n->to.len; k++) {
    uint32_t to = n->to.at[k];
    if (nodes->at[to].state == 1) {
      const Decl *d = nodes->at[to].decl;
      diag_report(DIAG_E0310, d->name.span, "`%s` is defined by itself", d->name.text);
      if (to != i) diag_note(n->decl->name.span, "by way of `%s`", n->decl->name.text);
      ends = false;
    } else if (!nodes->at[to].state) {
      ends = visit(nodes, to) && ends;
    }
  }
  n->state = 2;
  return ends;
}

/* Only what is evaluated in place refers: definitions, constants. */
static bool evaluates(const Decl *d) {
  return d->kind == DECL_def || d->kind == DECL_module || d->kind == DECL_const ||
         d->kind == DECL_param || d->kind == DECL_optimizer;
}

static void add_node(Resolver *r, Nodes *nodes, const Decl *d) {
  Node n = {.decl = d};
  for (uint32_t k = 0; k < r->refers.len; k++) {
    uint32_t index = (uint32_t)(r->refers.at[k] - r->file->names.at);
    vec_push(r->arena, &n.to, index);
  }
  for (uint32_t i = 0; i < r->file->names.len; i++)
    if (r->file->names.at[i].decl == d) nodes->at[i] = n;
}

bool resolve_file(Program *p, File *file) {
  Resolver r = {.p = p, .file = file, .arena = p->arena};
  for (const File *f = p->files; f; f = f->next)
    if (!f->library || f == file) dotted_file(&r, f);
  Nodes nodes = {0};
  for (uint32_t i = 0; i < file->names.len; i++) {
    Node empty = {.decl = file->names.at[i].decl};
    vec_push(p->arena, &nodes, empty);
  }
  for (uint32_t i = 0; i < file->ast->decls.len; i++) {
    resolve_decl(&r, file->ast->decls.at[i]);
    if (evaluates(file->ast->decls.at[i])) add_node(&r, &nodes, file->ast->decls.at[i]);
  }
  bool ends = true;
  for (uint32_t i = 0; i < nodes.len; i++)
    if (!nodes.at[i].state) ends = visit(&nodes, i) && ends;
  return ends;
}

/* ---------- names of the file ---------- */

void resolve_unused(Program *p, File *job) {
  (void)p;
  bool whole = false; /* a fragment is there for others */
  for (uint32_t i = 0; i < job->ast->decls.len; i++)
    whole = whole || job->ast->decls.at[i]->kind == DECL_objective;
  for (uint32_t i = 0; i < job->names.len; i++) {
    const FileName *n = &job->names.at[i];
    if (n->used || n->name[0] == '_') continue;
    const Decl *d = n->decl;
    switch (d->kind) {
    case DECL_import:
      diag_report(DIAG_E0304, d->name.span, "import `%s` is never used", n->name);
      diag_help("remove the line");
      break;
    case DECL_const:
    case DECL_def:
    case DECL_module:
    case DECL_optimizer:
      if (!whole) break;
      diag_report(DIAG_E0303, d->name.span, "`%s` is never used", n->name);
      diag_help("remove it, or call it `_%s` if that is meant", n->name);
      break;
    case DECL_param:
      diag_report(DIAG_E0303, d->name.span, "param `%s` is never used", n->name);
      break;
    default:
      break;
    }
  }
}
