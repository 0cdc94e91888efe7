/* Types, formals, results, paths. */
#include "layout.h"

static void put_dims(Layout *l, const DimList *dims) {
  if (!dims->len) {
    put(l, "[]");
    return;
  }
  put_open(l, "[", false);
  for (uint32_t i = 0; i < dims->len; i++) {
    const DimExpr *d = &dims->at[i];
    put_next(l, i, d->span.begin);
    if (d->value)
      put_line_expr(l, d->value);
    else
      put(l, "...");
  }
  put_end(l, "]", (ListEnd){.last = dims->at[dims->len - 1].span.end});
}

void put_type(Layout *l, const TypeExpr *t) {
  if (t->name) put(l, t->name);
  if (t->kind == TYPE_tensor) put_dims(l, &t->dims);
  if (t->kind == TYPE_apply) put_args(l, &t->args);
  if (t->kind != TYPE_tuple) return;
  put_open(l, "(", false);
  for (uint32_t i = 0; i < t->items.len; i++) {
    put_next(l, i, t->items.at[i]->span.begin);
    put_type(l, t->items.at[i]);
  }
  put_end(l, ")", (ListEnd){.last = t->items.at[t->items.len - 1]->span.end});
}

void put_formals(Layout *l, const FormalList *list) {
  if (!list->len) {
    put(l, "()");
    return;
  }
  put_open(l, "(", false);
  for (uint32_t i = 0; i < list->len; i++) {
    const Formal *f = &list->at[i];
    put_next(l, i, f->span.begin);
    put(l, f->name);
    put(l, ": ");
    put_type(l, f->type);
    if (!f->value) continue;
    put(l, " = ");
    put_expr(l, f->value);
  }
  put_end(l, ")", (ListEnd){.last = list->at[list->len - 1].span.end, .comma = true});
}

void put_result(Layout *l, const TypeExpr *t) {
  if (!t) return;
  put(l, " -> ");
  put_type(l, t);
}

void put_kernel(Layout *l, const char *kernel) {
  if (!kernel) return;
  put(l, "@kernel(");
  put_quoted(l, kernel, strlen(kernel));
  put(l, ")");
  doc_hard(&l->doc);
}

void put_path(Layout *l, const Path *p) {
  for (uint32_t i = 0; i < p->steps.len; i++) {
    const PathStep *s = &p->steps.at[i];
    if (!s->name) {
      put(l, "[");
      put_subscript(l, &s->sub);
      put(l, "]");
      continue;
    }
    if (i) put(l, ".");
    Name name = {.text = s->name, .index = s->index, .suffix = s->suffix};
    put_name(l, &name);
  }
}

static void put_paths(Layout *l, const PathList *list) {
  for (uint32_t i = 0; i < list->len; i++) {
    if (i) put_next(l, i, list->at[i].span.begin);
    put_path(l, &list->at[i]);
  }
}

void put_where(Layout *l, const Where *w) {
  doc_open(&l->doc);
  doc_indent(&l->doc);
  if (w->paths.len) {
    put(l, " ");
    put_paths(l, &w->paths);
  }
  if (w->except.len) {
    if (w->paths.len)
      doc_line(&l->doc);
    else
      put(l, " ");
    put(l, "except ");
    put_paths(l, &w->except);
  }
  doc_dedent(&l->doc);
  doc_close(&l->doc);
}
