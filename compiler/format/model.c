/* Statements of a model block. */
#include "layout.h"

static void put_load(Layout *l, const ModelItem *m) {
  put(l, "load ");
  if (m->path.steps.len) {
    put_path(l, &m->path);
    put(l, " = ");
  }
  put_quoted(l, m->file, strlen(m->file));
  put_where(l, &m->where);
}

static void put_model_item(Layout *l, const ModelItem *m) {
  switch (m->kind) {
  case MODEL_load:
    put_load(l, m);
    break;
  case MODEL_freeze:
  case MODEL_eval:
    put(l, m->kind == MODEL_freeze ? "freeze" : "eval");
    put_where(l, &m->where);
    break;
  case MODEL_group:
    put(l, "group");
    put_where(l, &m->where);
    put(l, " ");
    put_settings(l, (SettingsBlock){&m->settings, "train", false, m->span.end - 1});
    break;
  case MODEL_tie:
  case MODEL_init:
    put(l, m->kind == MODEL_tie ? "tie " : "init ");
    put_path(l, &m->path);
    put(l, " = ");
    if (m->kind == MODEL_tie)
      put_path(l, &m->right);
    else
      put_value(l, m->value, false);
    break;
  case MODEL_for:
    put_loop(l, &m->loop);
    put(l, " ");
    put_model_items(l, &m->body, m->span.end - 1);
    break;
  case MODEL_error:
    break;
  }
}

void put_model_items(Layout *l, const ModelList *list, uint32_t close) {
  put_block_open(l);
  for (uint32_t i = 0; i < list->len; i++) {
    const ModelItem *m = list->at[i];
    uint32_t until = m->value ? m->value->span.begin : m->span.begin;
    doc_hard(&l->doc);
    put_item(l, (Item){.begin = m->span.begin, .until = until, .first = i == 0});
    put_model_item(l, m);
  }
  put_block_close(l, close, !list->len);
}
