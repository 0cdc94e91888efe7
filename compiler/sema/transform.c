/* Functions of transforms that make samples of one shape, enlarge data by chance or turn texts into
   numbers. In: arguments over one sample. Out: their types; what they do is not compiled yet, so that a
   call is refused by name where a program is made (E0716), and its value stands for itself in a check:
   an input without a field. Also fields that no tensor can hold: texts, and lengths that differ. */
#include "analysis.h"
#include "builtin.h"
#include "op.h"

/* ---------- fields that are no tensors ---------- */

static const char *describe_field(void *self) {
  const Field *f = self;
  return f->text     ? "a text"
         : f->ragged ? "a field whose length differs by sample"
                     : "a field, which has values only when the program runs";
}

static Datum field_member(void *self, Eval *e, const char *name, Span at) {
  eval_report(e, DIAG_E0316, at, "%s has no member `%s`", describe_field(self), name);
  return datum_error();
}

static const ObjectClass field_class = {
    .what = "field", .member = field_member, .describe = describe_field};

Datum transform_field(Field *f) {
  return datum_object(f, &field_class);
}

Field *transform_field_of(Datum d) {
  return d.kind == DATUM_object && d.as.object.class == &field_class ? d.as.object.self : NULL;
}

/* ---------- values that nothing computes yet ---------- */

static bool in_transform(Eval *e, const Builtin *b, Span at) {
  if (e->build && !strcmp(e->build->graph->name, "transform")) return true;
  eval_report(e, DIAG_E0513, at, "`%s` belongs in a `transform` of a dataset", b->name);
  return false;
}

static Datum stand_in(Eval *e, const Builtin *b, Type type, Span at) {
  eval_report(e, DIAG_E0716, at, "`%s` is not supported yet", b->name);
  Attr attrs[IR_MAX_ATTRS] = {{.as.i = -1}, {.as.i = (int64_t)type.dtype}};
  attrs[2].as.dims.len = type.rank;
  for (int i = 0; i < type.rank; i++) attrs[2].as.dims.at[i] = type.dim[i];
  return emit_op(e, OP_input, NULL, 0, attrs, at);
}

static bool sample_of(Eval *e, const Builtin *b, const BuiltinCall *c, Type *type) {
  Val v;
  if (!in_transform(e, b, c->at)) return false;
  if (!need_tensor(e, c->value[0], c->span[0], "the first argument", &v)) return false;
  if (e->program->hooks.use) e->program->hooks.use(e->program->hooks.self, e->build->graph, v);
  *type = value_at(e->build->graph, v)->type;
  return true;
}

/* The numbers behind the first argument; those left out are none. */
static bool numbers_of(Eval *e, const BuiltinCall *c, uint32_t from, double low, double high) {
  for (uint32_t k = from; k < c->n; k++) {
    double x = 0;
    if (!c->given[k] || c->value[k].kind == DATUM_none) continue;
    if (!need_number(e, c->value[k], c->span[k], "this number", &x)) return false;
    if (x >= low && x <= high) continue;
    eval_report(e, DIAG_E0702, c->span[k], "%g is not in %g..%g", x, low, high);
    return false;
  }
  return true;
}

static bool is_image(Eval *e, const Builtin *b, const BuiltinCall *c, Type t) {
  if (t.rank >= 2) return true;
  eval_report(e, DIAG_E0406, c->span[0], "`%s` takes images [..., H, W], not %s", b->name,
              datum_describe(e, c->value[0]));
  return false;
}

/* standardize(x): by mean and standard deviation of the training split. */
Datum builtin_standardize(Eval *e, const Builtin *b, const BuiltinCall *c) {
  Type t;
  if (!sample_of(e, b, c, &t)) return datum_error();
  t.dtype = DT_f32;
  return stand_in(e, b, t, c->at);
}

/* need_image(x): x itself, an image of a transform. */
Datum builtin_need_image(Eval *e, const Builtin *b, const BuiltinCall *c) {
  Val v;
  (void)b;
  if (!e->build || strcmp(e->build->graph->name, "transform") != 0) {
    eval_report(e, DIAG_E0513, c->at, "transforms of images belong in a `transform` of a dataset");
    return datum_error();
  }
  if (!need_tensor(e, c->value[0], c->span[0], "the first argument", &v)) return datum_error();
  if (value_at(e->build->graph, v)->type.rank >= 2) return c->value[0];
  eval_report(e, DIAG_E0406, c->at, "an image has dimensions [..., H, W]; this is %s",
              datum_describe(e, c->value[0]));
  return datum_error();
}

/* color_jitter(x, brightness = 0, contrast = 0, saturation = 0, hue = 0) */
Datum builtin_color_jitter(Eval *e, const Builtin *b, const BuiltinCall *c) {
  Type t;
  if (!sample_of(e, b, c, &t) || !is_image(e, b, c, t) || !numbers_of(e, c, 1, 0, 1)) {
    return datum_error();
  }
  if (dtype_category(t.dtype) != 'f') {
    eval_report(e, DIAG_E0506, c->span[0], "`color_jitter` takes floats between 0 and 1, not %s",
                datum_describe(e, c->value[0]));
    diag_help("write `image / 255`");
    return datum_error();
  }
  return stand_in(e, b, t, c->at);
}

/* random_resized_crop(x, size) */
Datum builtin_resized_crop(Eval *e, const Builtin *b, const BuiltinCall *c) {
  Type t;
  int64_t size = 0;
  if (!sample_of(e, b, c, &t) || !is_image(e, b, c, t)) return datum_error();
  if (!need_int(e, c->value[1], c->span[1], "`size`", &size)) return datum_error();
  if (size < 1) {
    eval_report(e, DIAG_E0702, c->span[1], "%lld is no size", (long long)size);
    return datum_error();
  }
  for (int i = t.rank - 2; i < t.rank; i++) t.dim[i] = dim_of(size);
  return stand_in(e, b, t, c->at);
}

/* pad_to(x, length, value = 0): the first dimension cut or filled up to `length`. */
Datum builtin_pad_to(Eval *e, const Builtin *b, const BuiltinCall *c) {
  Field *f = transform_field_of(c->value[0]);
  Type t = {.rank = 0};
  int64_t length = 0;
  if (f && !in_transform(e, b, c->at)) return datum_error();
  if (f && f->text) {
    eval_report(e, DIAG_E0501, c->span[0], "`pad_to` takes numbers, not a text");
    return datum_error();
  }
  if (!f && !sample_of(e, b, c, &t)) return datum_error();
  if (!need_int(e, c->value[1], c->span[1], "`length`", &length)) return datum_error();
  if (!numbers_of(e, c, 2, -1e300, 1e300)) return datum_error();
  if (f) {
    t = f->type;
    f->used = true;
  }
  if (t.rank < 1 || length < 1) {
    eval_report(e, t.rank < 1 ? DIAG_E0406 : DIAG_E0702, c->span[t.rank < 1 ? 0 : 1],
                "`pad_to` gives the first dimension a length of at least 1");
    return datum_error();
  }
  t.dim[0] = dim_of(length);
  for (int i = 1; i < t.rank; i++) {
    if (t.dim[i].fixed >= 0) continue;
    eval_report(e, DIAG_E0807, c->span[0], "only the first length of `%s` can be padded", f->name);
    return datum_error();
  }
  return stand_in(e, b, t, c->at);
}

static Field *text_of(Eval *e, const Builtin *b, const BuiltinCall *c) {
  Field *f = transform_field_of(c->value[0]);
  if (!in_transform(e, b, c->at)) return NULL;
  if (f && f->text) return f;
  if (c->value[0].kind != DATUM_error)
    eval_report(e, DIAG_E0501, c->span[0], "`%s` takes a field of texts, not %s", b->name,
                datum_describe(e, c->value[0]));
  return NULL;
}

/* utf8(x, length): the first bytes of a text, then zeros. They are stored like that, so there is one length. */
Datum builtin_utf8(Eval *e, const Builtin *b, const BuiltinCall *c) {
  Field *f = text_of(e, b, c);
  int64_t length = 0;
  if (!f || !need_int(e, c->value[1], c->span[1], "`length`", &length)) return datum_error();
  bool other = f->type.rank == 1 && f->type.dim[0].fixed != length;
  if (length < 1 || other) {
    eval_report(e, DIAG_E0702, c->span[1],
                other ? "`%s` has a length of %lld elsewhere, and it has one only"
                      : "the length of `%s` is at least 1",
                f->name, (long long)f->type.dim[0].fixed);
    return datum_error();
  }
  f->type.rank = 1;
  f->type.dim[0] = dim_of(length);
  f->classes = 256;
  f->used = true;
  return datum_tensor(data_input(e->build->graph, f));
}

/* wordpiece(x, vocab, length): token ids, where they stand, and the segment of each. */
Datum builtin_wordpiece(Eval *e, const Builtin *b, const BuiltinCall *c) {
  Field *f = text_of(e, b, c);
  const char *vocab = NULL;
  int64_t length = 0;
  if (!f) return datum_error();
  if (!need_text(e, c->value[1], c->span[1], "`vocab`", &vocab) ||
      !need_int(e, c->value[2], c->span[2], "`length`", &length)) {
    return datum_error();
  }
  if (length < 3) {
    eval_report(e, DIAG_E0702, c->span[2], "`length` has room for [CLS], a token and [SEP]: 3");
    return datum_error();
  }
  f->used = true;
  Type t = type_scalar(DT_i64);
  t.rank = 1;
  t.dim[0] = dim_of(length);
  Datum three[3];
  for (int i = 0; i < 3; i++) three[i] = stand_in(e, b, t, c->at);
  return datum_tuple(e->arena, three, 3);
}

/* ---------- metrics ---------- */

/* roc_auc(scores, labels): both along the samples. */
Datum builtin_roc_auc(Eval *e, const Builtin *b, const BuiltinCall *c) {
  Val scores, labels;
  if (!need_tensor(e, c->value[0], c->span[0], "`scores`", &scores) ||
      !need_tensor(e, c->value[1], c->span[1], "`labels`", &labels)) {
    return datum_error();
  }
  Type s = value_at(e->build->graph, scores)->type, l = value_at(e->build->graph, labels)->type;
  if (dtype_category(s.dtype) != 'f' || dtype_category(l.dtype) == 'f') {
    bool first = dtype_category(s.dtype) != 'f';
    eval_report(e, DIAG_E0506, c->span[first ? 0 : 1],
                "`roc_auc` takes float scores and labels of 0 and 1, not %s",
                datum_describe(e, c->value[first ? 0 : 1]));
    return datum_error();
  }
  l.dtype = s.dtype;
  if (s.rank != 1 || !type_equal(s, l)) {
    eval_report(e, DIAG_E0405, c->at,
                "`roc_auc` takes one score and one label per sample, not %s "
                "and %s",
                datum_describe(e, c->value[0]), datum_describe(e, c->value[1]));
    return datum_error();
  }
  return stand_in(e, b, type_scalar(DT_f32), c->at);
}

/* classes(x): how many values a field has that was declared as a category or with `in 0..n`. */
Datum builtin_classes(Eval *e, const Builtin *b, const BuiltinCall *c) {
  Val v;
  (void)b;
  const JobHooks *hooks = &e->program->hooks;
  const Field *f = transform_field_of(c->value[0]);
  int64_t n = 0;
  if (f)
    n = data_field_classes(hooks->self, f);
  else if (!need_tensor(e, c->value[0], c->span[0], "the first argument", &v))
    return datum_error();
  else if (hooks->classes)
    n = hooks->classes(hooks->self, e->build->graph, v);
  if (n) return datum_int(n);
  eval_report(e, DIAG_E0503, c->at,
              "the number of classes is not known here: only a field as it is stored has one");
  diag_help("give `num_classes = n`");
  return datum_error();
}
