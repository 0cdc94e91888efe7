/* Names of expressions and bodies, without evaluating anything: unknown names, names used before they
   are made, locals that take the name of a member, and what is made and never read. */
#include "resolve.h"
#include "builtin.h"
#include "expr.h"
#include "signature.h"
#include <string.h>

/* ---------- scopes ---------- */

Names *names_new(Resolver *r, Names *parent) {
  Names *n = ARENA_NEW(r->arena, Names);
  n->parent = parent;
  return n;
}

Known *names_own(Names *names, const char *name) {
  for (uint32_t i = names->known.len; i-- > 0;)
    if (names->known.at[i].name == name) return &names->known.at[i];
  return NULL;
}

Known *names_find(Names *names, const char *name) {
  for (; names; names = names->parent) {
    Known *k = names_own(names, name);
    if (k) return k;
  }
  return NULL;
}

Known *names_define(Resolver *r, Names *names, const char *name, KnownKind kind, Span at) {
  Known k = {.name = name, .kind = kind, .at = at};
  k.exempt = name[0] == '_' || kind == KNOWN_index;
  vec_push(r->arena, &names->known, k);
  return &names->known.at[names->known.len - 1];
}

static const char *kind_word(KnownKind k) {
  switch (k) {
  case KNOWN_formal:
    return "formal";
  case KNOWN_size:
    return "size";
  case KNOWN_local:
    return "local";
  default:
    return "member";
  }
}

void resolve_end(Resolver *r, Names *names) {
  for (uint32_t i = 0; i < names->known.len; i++) {
    const Known *k = &names->known.at[i];
    if (k->exempt || k->not_yet || r->soft) continue;
    if (k->kind == KNOWN_size) {
      if (!k->bound && !k->inputs) {
        diag_report(DIAG_E0402, k->at, "size `%s` stands in the result only", k->name);
      } else if (!k->bound) {
        diag_report(DIAG_E0404, k->at, "size `%s` never stands alone in an input", k->name);
      } else if (k->uses < 2) {
        diag_report(DIAG_E0403, k->at, "size `%s` is named once", k->name);
        diag_help("write `_` for a dimension that nothing refers to");
      }
    } else if (!k->uses) {
      diag_report(DIAG_E0303, k->at, "%s `%s` is never used", kind_word(k->kind), k->name);
      diag_help("remove it, or call it `_%s` if that is meant", k->name);
    }
  }
}

/* ---------- uses ---------- */

static void report_unknown(Resolver *r, Names *names, const char *name, Span at) {
  for (uint32_t i = 0; i < r->metrics.len; i++) {
    if (r->metrics.at[i] != name) continue;
    diag_report(DIAG_E0315, at, "`%s` is a metric, which is no value", name);
    diag_help("give the value a name of its own and write `metric %s = THAT_NAME`", name);
    return;
  }
  TextNearest near = {.wanted = name};
  for (Names *n = names; n; n = n->parent)
    for (uint32_t i = 0; i < n->known.len; i++)
      if (!n->known.at[i].not_yet) text_offer(&near, n->known.at[i].name);
  for (uint32_t i = 0; i < r->file->names.len; i++) text_offer(&near, r->file->names.at[i].name);
  library_offer(r->p, &near);
  builtin_offer(&near);
  diag_report(DIAG_E0301, at, "unknown name `%s`", name);
  if (near.best) diag_help("did you mean `%s`?", near.best);
}

void resolve_use(Resolver *r, Names *names, const char *name, Span at) {
  Known *k = names_find(names, name);
  if (k) k->uses++;
  if (k && k->half && !r->soft) {
    diag_report(DIAG_E0301, at, "`%s` is made in one branch of the `if` only", name);
    diag_note(k->at, "made here");
    return;
  }
  if (k && !k->not_yet) return;
  FileName *f = file_find(r->file, name);
  if (f) {
    if (f->decl != r->decl) f->used = true;
    vec_push(r->arena, &r->refers, f);
    return;
  }
  File *file;
  FileName *found;
  if (library_find(r->p, name, &file, &found) || builtin_find(name) || builtin_constant_name(name))
    return;
  if (r->soft) return;
  if (k) {
    diag_report(DIAG_E0306, at, "`%s` is used before the line that makes it", name);
    diag_note(k->at, "made here");
  } else {
    report_unknown(r, names, name, at);
  }
}

const char *resolve_name_key(Resolver *r, Names *names, const Name *n) {
  if (!n->index) return n->text;
  Known *k = names_find(names, n->index);
  if (k && k->kind == KNOWN_index)
    k->uses++;
  else if (!r->soft)
    diag_report(DIAG_E0312, n->span, "`%s` is not the index of a `for` around this name", n->index);
  return text_intern(arena_printf(r->arena, "%s{}%s", n->text, n->suffix ? n->suffix : ""));
}

bool resolve_is_size(Resolver *r, Names *names, const Expr *x) {
  if (x->kind != EXPR_name || x->as.name.index || !size_like(x->as.name.text)) return false;
  const char *name = x->as.name.text;
  Known *k = names_find(names, name);
  if (k) return k->kind == KNOWN_size;
  File *file;
  FileName *found;
  return !file_find(r->file, name) && !library_find(r->p, name, &file, &found);
}

/* ---------- expressions ---------- */

void resolve_loop(Resolver *r, Names *outer, Names *inner, const Loop *loop) {
  for (uint32_t i = 0; i < loop->iterables.len; i++) resolve_expr(r, outer, loop->iterables.at[i]);
  for (uint32_t i = 0; i < loop->targets.len; i++) {
    const Name *t = &loop->targets.at[i];
    Known *member = names_find(outer, t->text);
    bool hides = member && (member->kind == KNOWN_member || member->kind == KNOWN_param ||
                            member->kind == KNOWN_buffer);
    if (hides && !r->soft) {
      diag_report(DIAG_E0305, t->span, "local `%s` takes the name of a member", t->text);
      diag_note(member->at, "the member");
    }
    names_define(r, inner, t->text, KNOWN_index, t->span);
  }
}

static void resolve_comprehension(Resolver *r, Names *names, const Expr *x) {
  for (uint32_t i = 0; i < x->as.comprehension.loops.len; i++) {
    Names *inner = names_new(r, names);
    resolve_loop(r, names, inner, &x->as.comprehension.loops.at[i]);
    names = inner;
  }
  resolve_expr(r, names, x->as.comprehension.value);
}

static void resolve_subscripts(Resolver *r, Names *names, const Expr *x) {
  for (uint32_t i = 0; i < x->as.index.subs.len; i++) {
    const Subscript *s = &x->as.index.subs.at[i];
    resolve_expr(r, names, s->start);
    resolve_expr(r, names, s->stop);
    resolve_expr(r, names, s->step);
  }
}

static bool is_settings(Resolver *r, Names *names, const Expr *x) {
  if (x->kind != EXPR_name) return false;
  const char *n = x->as.name.text;
  bool block = !strcmp(n, "train") || !strcmp(n, "runtime");
  return block && !names_find(names, n) && !file_find(r->file, n);
}

static void resolve_list(Resolver *r, Names *names, ExprList list) {
  for (uint32_t i = 0; i < list.len; i++) resolve_expr(r, names, list.at[i]);
}

void resolve_expr(Resolver *r, Names *names, const Expr *x) {
  if (!x) return;
  switch (x->kind) {
  case EXPR_name: {
    const char *key = resolve_name_key(r, names, &x->as.name);
    resolve_use(r, names, key, x->span);
    return;
  }
  case EXPR_unary:
    resolve_expr(r, names, x->as.unary.operand);
    return;
  case EXPR_binary:
    resolve_expr(r, names, x->as.binary.left);
    resolve_expr(r, names, x->as.binary.right);
    return;
  case EXPR_if:
    resolve_expr(r, names, x->as.cond.condition);
    resolve_expr(r, names, x->as.cond.yes);
    resolve_expr(r, names, x->as.cond.no);
    return;
  case EXPR_member:
    if (!is_settings(r, names, x->as.member.object)) resolve_expr(r, names, x->as.member.object);
    return;
  case EXPR_call:
    resolve_expr(r, names, x->as.call.callee);
    for (uint32_t i = 0; i < x->as.call.args.len; i++)
      resolve_expr(r, names, x->as.call.args.at[i].value);
    return;
  case EXPR_index:
    resolve_expr(r, names, x->as.index.object);
    resolve_subscripts(r, names, x);
    return;
  case EXPR_list:
  case EXPR_tuple:
    resolve_list(r, names, x->as.items);
    return;
  case EXPR_comprehension:
    resolve_comprehension(r, names, x);
    return;
  case EXPR_map:
    for (uint32_t i = 0; i < x->as.map.len; i++) resolve_expr(r, names, x->as.map.at[i].value);
    return;
  default:
    return;
  }
}

/* ---------- statements ---------- */

static void make_target(Resolver *r, Names *names, const Name *t) {
  const char *key = resolve_name_key(r, names, t);
  if (!strcmp(key, "_")) return;
  Known *k = names_find(names, key);
  if (!k) {
    names_define(r, names, key, KNOWN_local, t->span);
    return;
  }
  if (k->not_yet || k->half) {
    k->not_yet = k->half = false;
    k->at = t->span;
    return;
  }
  if (k->kind == KNOWN_buffer) {
    k->uses++;
  } else if (k->kind == KNOWN_param) {
    diag_report(DIAG_E0610, t->span, "`%s` is a parameter; only the optimizer changes it", key);
  } else if (k->kind == KNOWN_member) {
    if (k->module)
      diag_report(DIAG_E0610, t->span, "`%s` is a module; `forward` cannot assign it", key);
    else
      diag_report(DIAG_E0305, t->span, "local `%s` takes the name of a member", key);
    diag_note(k->at, "the member");
  } else if (k->kind == KNOWN_index) {
    k->kind = KNOWN_local;
    k->exempt = true;
  }
}

static void make_targets(Resolver *r, Names *names, NameList targets) {
  for (uint32_t i = 0; i < targets.len; i++) make_target(r, names, &targets.at[i]);
}

/* Names that a body will make further down, so that an early use is told from an unknown name. */
static void announce(Resolver *r, Names *names, StmtList body) {
  for (uint32_t i = 0; i < body.len; i++) {
    NameList t = body.at[i]->targets;
    if (body.at[i]->kind == STMT_metric || body.at[i]->kind == STMT_output) continue;
    for (uint32_t k = 0; k < t.len; k++)
      if (!t.at[k].index && !names_find(names, t.at[k].text) && strcmp(t.at[k].text, "_") != 0)
        names_define(r, names, t.at[k].text, KNOWN_local, t.at[k].span)->not_yet = true;
  }
}

/* What both branches made lives on behind the `if`; what one of them made is kept to tell the reader
   who uses it. */
static void join_branches(Resolver *r, Names *names, Names *yes, Names *no, bool shared) {
  for (uint32_t i = 0; i < yes->known.len; i++) {
    Known *a = &yes->known.at[i];
    Known *b = names_own(no, a->name);
    bool both = b && !b->not_yet;
    if (a->kind != KNOWN_local || a->not_yet || both != shared) continue;
    Known *out = names_own(names, a->name);
    if (!out) out = names_define(r, names, a->name, KNOWN_local, a->at);
    out->not_yet = false;
    out->half = !both;
    out->uses += a->uses + (both ? b->uses : 0);
    out->exempt = a->exempt;
    a->exempt = true;
    if (both) b->exempt = true;
  }
}

static void resolve_if(Resolver *r, Names *names, const Stmt *s) {
  resolve_expr(r, names, s->value);
  Names *yes = names_new(r, names), *no = names_new(r, names);
  announce(r, yes, s->body);
  resolve_stmts(r, yes, s->body);
  announce(r, no, s->orelse);
  resolve_stmts(r, no, s->orelse);
  join_branches(r, names, yes, no, true);
  join_branches(r, names, yes, no, false);
  join_branches(r, names, no, yes, false);
  resolve_end(r, yes);
  resolve_end(r, no);
}

static void resolve_for(Resolver *r, Names *names, const Stmt *s) {
  Names *inner = names_new(r, names);
  resolve_loop(r, names, inner, &s->loop);
  announce(r, inner, s->body);
  resolve_stmts(r, inner, s->body);
  resolve_list(r, inner, s->yields);
  resolve_end(r, inner);
  if (s->kind == STMT_collect) make_targets(r, names, s->targets);
}

void resolve_stmts(Resolver *r, Names *names, StmtList body) {
  for (uint32_t i = 0; i < body.len; i++) {
    const Stmt *s = body.at[i];
    switch (s->kind) {
    case STMT_assign:
      resolve_expr(r, names, s->value);
      make_targets(r, names, s->targets);
      break;
    case STMT_collect:
    case STMT_for:
      resolve_for(r, names, s);
      break;
    case STMT_if:
      resolve_if(r, names, s);
      break;
    case STMT_require:
    case STMT_metric:
    case STMT_output:
      resolve_expr(r, names, s->value);
      break;
    default:
      break;
    }
  }
}

void resolve_body(Resolver *r, Names *names, StmtList body, ExprList returns) {
  announce(r, names, body);
  resolve_stmts(r, names, body);
  resolve_list(r, names, returns);
}
