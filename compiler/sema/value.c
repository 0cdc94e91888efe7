/* Values of the language: making, comparing, describing. No evaluation here. */
#include "value.h"
#include "eval.h"
#include <math.h>
#include <string.h>

Datum datum_text(const char *text) {
  return (Datum){.kind = DATUM_text, .as.text = {text, (uint32_t)strlen(text)}};
}

Datum datum_tensor(Val v) {
  return v == NO_VAL ? datum_error() : (Datum){.kind = DATUM_tensor, .as.tensor = v};
}

Datum datum_dim(Dim d) {
  return dim_known(d) ? datum_int(d.fixed) : (Datum){.kind = DATUM_dim, .as.dim = d};
}

static Datum sequence(Arena *a, DatumKind kind, const Datum *at, uint32_t len) {
  const Datum *copy = len ? arena_copy(a, at, sizeof(Datum) * len) : NULL;
  return (Datum){.kind = kind, .as.list = {copy, len}};
}

Datum datum_list(Arena *a, const Datum *at, uint32_t len) {
  return sequence(a, DATUM_list, at, len);
}

Datum datum_tuple(Arena *a, const Datum *at, uint32_t len) {
  return sequence(a, DATUM_tuple, at, len);
}

bool datum_number(Datum d, double *out) {
  if (d.kind == DATUM_int) return *out = (double)d.as.i, true;
  if (d.kind == DATUM_float) return *out = d.as.f, true;
  return false;
}

bool datum_int_value(Datum d, int64_t *out) {
  if (d.kind != DATUM_int) return false;
  *out = d.as.i;
  return true;
}

bool datum_dim_value(Datum d, Dim *out) {
  if (d.kind == DATUM_int) return *out = dim_of(d.as.i), true;
  if (d.kind == DATUM_dim) return *out = d.as.dim, true;
  return false;
}

const Datum *datum_map_find(Datum map, const char *key) {
  if (map.kind != DATUM_map) return NULL;
  for (uint32_t i = 0; i < map.as.map.len; i++)
    if (!strcmp(map.as.map.at[i].key, key)) return &map.as.map.at[i].value;
  return NULL;
}

static bool lists_equal(DatumList a, DatumList b, bool *comparable) {
  if (a.len != b.len) return false;
  for (uint32_t i = 0; i < a.len; i++)
    if (!datum_equal(a.at[i], b.at[i], comparable)) return false;
  return true;
}

static bool texts_equal(Datum a, Datum b) {
  return a.as.text.length == b.as.text.length &&
         !memcmp(a.as.text.at, b.as.text.at, a.as.text.length);
}

bool datum_equal(Datum a, Datum b, bool *comparable) {
  *comparable = true;
  if (a.kind == DATUM_none || b.kind == DATUM_none) return a.kind == b.kind;
  double x, y;
  if (a.kind == DATUM_int && b.kind == DATUM_int) return a.as.i == b.as.i;
  if (datum_number(a, &x) && datum_number(b, &y)) return x == y;
  bool texts = (a.kind == DATUM_text || a.kind == DATUM_word) &&
               (b.kind == DATUM_text || b.kind == DATUM_word);
  if (texts) return texts_equal(a, b);
  Dim da, db;
  if (datum_dim_value(a, &da) && datum_dim_value(b, &db)) {
    *comparable = dim_equal(da, db) || da.per_batch == db.per_batch;
    return dim_equal(da, db);
  }
  if (a.kind == b.kind) {
    switch (a.kind) {
    case DATUM_bool:
      return a.as.b == b.as.b;
    case DATUM_dtype:
      return a.as.dtype == b.as.dtype;
    case DATUM_list:
    case DATUM_tuple:
      return lists_equal(a.as.list, b.as.list, comparable);
    default:
      break;
    }
  }
  *comparable = false;
  return false;
}

const char *datum_kind_name(DatumKind k) {
  static const char *const name[] = {
      [DATUM_error] = "error",
      [DATUM_none] = "none",
      [DATUM_bool] = "bool",
      [DATUM_int] = "int",
      [DATUM_float] = "float",
      [DATUM_percent] = "percent",
      [DATUM_text] = "text",
      [DATUM_dtype] = "dtype",
      [DATUM_dim] = "size",
      [DATUM_list] = "list",
      [DATUM_tuple] = "tuple",
      [DATUM_map] = "map",
      [DATUM_tensor] = "tensor",
      [DATUM_host] = "number known at run time",
      [DATUM_draw] = "initial value",
      [DATUM_leaf] = "parameter",
      [DATUM_function] = "function",
      [DATUM_builtin] = "function",
      [DATUM_recipe] = "recipe",
      [DATUM_module] = "module",
      [DATUM_optimizer] = "optimizer",
      [DATUM_instance] = "module",
      [DATUM_namespace] = "import",
      [DATUM_object] = "object",
      [DATUM_word] = "word",
  };
  return name[k];
}

static void print_list(Text *t, DatumList l, const char *open, const char *close) {
  text_add(t, open);
  for (uint32_t i = 0; i < l.len; i++) {
    if (i) text_add(t, ", ");
    if (i == 8) {
      text_addf(t, "... %u items", l.len);
      break;
    }
    datum_print(t, l.at[i]);
  }
  text_add(t, close);
}

void datum_print(Text *t, Datum d) {
  switch (d.kind) {
  case DATUM_bool:
    text_add(t, d.as.b ? "true" : "false");
    return;
  case DATUM_int:
    text_addf(t, "%lld", (long long)d.as.i);
    return;
  case DATUM_float:
    text_add_double(t, d.as.f);
    return;
  case DATUM_percent:
    text_addf(t, "%g%%", d.as.f);
    return;
  case DATUM_text:
    text_addf(t, "\"%.*s\"", (int)d.as.text.length, d.as.text.at);
    return;
  case DATUM_word:
    text_addf(t, "%.*s", (int)d.as.text.length, d.as.text.at);
    return;
  case DATUM_dtype:
    text_add(t, dtype_name(d.as.dtype));
    return;
  case DATUM_dim:
    dim_print(t, d.as.dim);
    return;
  case DATUM_list:
    print_list(t, d.as.list, "[", "]");
    return;
  case DATUM_tuple:
    print_list(t, d.as.list, "(", ")");
    return;
  case DATUM_map:
    text_add(t, "{");
    for (uint32_t i = 0; i < d.as.map.len; i++) {
      text_addf(t, "%s%s = ", i ? ", " : " ", d.as.map.at[i].key);
      datum_print(t, d.as.map.at[i].value);
    }
    text_add(t, " }");
    return;
  default:
    text_add(t, datum_kind_name(d.kind));
    return;
  }
}

static const char *closure_name(const Closure *c) {
  return c->decl ? c->decl->name.text : "?";
}

const char *datum_describe(Eval *e, Datum d) {
  Text t = {0};
  switch (d.kind) {
  case DATUM_none:
    text_add(&t, "none");
    break;
  case DATUM_int:
  case DATUM_float:
  case DATUM_bool:
  case DATUM_text:
  case DATUM_dtype:
  case DATUM_percent:
    text_addf(&t, "%s ", datum_kind_name(d.kind));
    datum_print(&t, d);
    break;
  case DATUM_dim:
  case DATUM_list:
  case DATUM_map:
    datum_print(&t, d);
    break;
  case DATUM_tensor:
    text_add(&t, "tensor ");
    type_print(&t, tensor_type(e, d));
    break;
  case DATUM_function:
  case DATUM_module:
  case DATUM_optimizer:
    text_addf(&t, "%s `%s`", datum_kind_name(d.kind), closure_name(d.as.closure));
    break;
  case DATUM_instance:
    if (d.as.instance->path[0])
      text_addf(&t, "module `%s`", d.as.instance->path);
    else
      text_add(&t, "module");
    break;
  case DATUM_object:
    text_add(&t, d.as.object.class->describe ? d.as.object.class->describe(d.as.object.self)
                                             : d.as.object.class->what);
    break;
  default:
    text_add(&t, datum_kind_name(d.kind));
    break;
  }
  char *out = arena_strdup(e->arena, t.at ? t.at : "");
  text_free(&t);
  return out;
}
