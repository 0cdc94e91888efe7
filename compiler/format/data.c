/* Items of a dataset. */
#include "layout.h"

static void put_field(Layout *l, const DataItem *d) {
  put(l, "field ");
  put_name(l, &d->name);
  put(l, ": ");
  put_type(l, d->type);
  if (d->range) {
    put(l, " in ");
    put_expr(l, d->range);
  }
  if (d->source_name) {
    put(l, " as ");
    put_quoted(l, d->source_name, strlen(d->source_name));
  }
}

static void put_data_item(Layout *l, const DataItem *d) {
  switch (d->kind) {
  case DATA_let:
  case DATA_split:
    put(l, d->kind == DATA_let ? "let " : "split ");
    put_name(l, &d->name);
    put(l, " = ");
    put_value(l, d->value, false);
    break;
  case DATA_field:
    put_field(l, d);
    break;
  case DATA_transform:
    put(l, "transform ");
    if (d->name.text) {
      put_name(l, &d->name);
      put(l, " ");
    }
    put_body(l, (Body){.stmts = &d->body, .close = d->span.end - 1});
    break;
  case DATA_error:
    break;
  }
}

void put_data(Layout *l, const DataList *list, uint32_t close) {
  put_block_open(l);
  for (uint32_t i = 0; i < list->len; i++) {
    const DataItem *d = &list->at[i];
    uint32_t until = d->value ? d->value->span.begin : d->span.begin;
    doc_hard(&l->doc);
    put_item(l, (Item){.begin = d->span.begin, .until = until, .first = i == 0});
    put_data_item(l, d);
  }
  put_block_close(l, close, !list->len);
}
