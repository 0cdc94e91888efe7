/* Convolution: conv, conv_transpose and conv_filter, each the gradient of the other two (conv.h). Calls of
   the runtime; the reference is one loop over all products. */
#include "conv.h"
#include "die.h"
#include "family.h"

static const Attr *attr_of(const Value *v, const char *name) {
  return &v->attr[op_attr(v->op, name)];
}

static void fill(const Value *v, const char *name, int n, int64_t value) {
  Attr *list = &v->attr[op_attr(v->op, name)];
  if (list->as.ints.len >= 0) return;
  list->as.ints.len = n;
  for (int i = 0; i < n; i++) list->as.ints.at[i] = value;
}

static bool numbers(const Graph *g, const Value *v, const char *name, int n, int64_t least,
                    const char **error, int *code) {
  return infer_numbers(g, v, op_attr(v->op, name), n, least, error, code);
}

/* Reads a side from its type: sizes known, but for the batch. */
static bool read_side(const Graph *g, const Value *v, Type t, ConvSide *side, const char **error,
                      int *code) {
  int blocked = side->block > 1;
  if (t.rank - blocked < 3)
    return infer_fail(g, error, code, 406, "`%s` takes [batch, channels, space...], not %s",
                      op_def(v->op)->name, infer_type_text(g, t));
  for (int i = 1; i < t.rank; i++)
    if (!dim_known(t.dim[i]))
      return infer_fail(g, error, code, 508,
                        "`%s` moves over a dimension of %s, which is not known while compiling",
                        op_def(v->op)->name, infer_dim_text(g, t.dim[i]));
  int space = t.rank - 2 - blocked;
  if (space > CONV_MAX_SPACE)
    return infer_fail(g, error, code, 406, "`%s` over %d dimensions of space; there are at most %d",
                      op_def(v->op)->name, space, CONV_MAX_SPACE);
  if (blocked && !dim_is(t.dim[t.rank - 1], side->block))
    return infer_fail(g, error, code, 405, "`%s`: %s has no blocks of %lld channels",
                      op_def(v->op)->name, infer_type_text(g, t), (long long)side->block);
  side->channels = t.dim[1].fixed * side->block;
  for (int i = 0; i < space; i++) side->size[i] = t.dim[2 + i].fixed;
  return true;
}

/* The type of a side that is computed. */
static bool write_side(const Graph *g, Value *v, const ConvShape *c, const ConvSide *side,
                       const char **error, int *code) {
  if (side->channels % side->block)
    return infer_fail(g, error, code, 405, "`%s`: blocks of %lld do not divide %lld channels",
                      op_def(v->op)->name, (long long)side->block, (long long)side->channels);
  v->type.rank = 2;
  v->type.dim[0] = c->batch;
  v->type.dim[1] = dim_of(side->channels / side->block);
  for (int i = 0; i < c->space; i++) v->type.dim[v->type.rank++] = dim_of(side->size[i]);
  if (side->block > 1) v->type.dim[v->type.rank++] = dim_of(side->block);
  return true;
}

/* Attributes that all three have, once the number of dimensions is known. */
static bool read_attributes(const Graph *g, const Value *v, ConvShape *c, const char **error,
                            int *code) {
  fill(v, "stride", c->space, 1);
  fill(v, "padding", c->space, 0);
  fill(v, "dilation", c->space, 1);
  if (!numbers(g, v, "stride", c->space, 1, error, code) ||
      !numbers(g, v, "padding", c->space, 0, error, code) ||
      !numbers(g, v, "dilation", c->space, 1, error, code))
    return false;
  for (int i = 0; i < c->space; i++) {
    c->stride[i] = attr_of(v, "stride")->as.ints.at[i];
    c->padding[i] = attr_of(v, "padding")->as.ints.at[i];
    c->dilation[i] = attr_of(v, "dilation")->as.ints.at[i];
  }
  return true;
}

static bool read_blocks(const Graph *g, const Value *v, ConvShape *c, const char **error,
                        int *code) {
  *c = (ConvShape){.groups = attr_of(v, "groups")->as.i};
  fill(v, "blocks", 2, 1);
  if (!numbers(g, v, "blocks", 2, 1, error, code)) return false;
  c->big.block = attr_of(v, "blocks")->as.ints.at[0];
  c->small.block = attr_of(v, "blocks")->as.ints.at[1];
  return true;
}

static bool groups_divide(const Graph *g, const Value *v, const ConvShape *c, int64_t a, int64_t b,
                          const char **error, int *code) {
  if (c->groups >= 1 && a % c->groups == 0 && b % c->groups == 0) return true;
  return infer_fail(g, error, code, 405, "`%s`: %lld groups do not divide %s and %s",
                    op_def(v->op)->name, (long long)c->groups,
                    infer_type_text(g, infer_in(g, v, 0)), infer_type_text(g, infer_in(g, v, 1)));
}

static bool floats(const Graph *g, Value *v, const char **error, int *code) {
  v->type.dtype = infer_promote(g, v, 0);
  return dtype_category(v->type.dtype) == 'f' ||
         infer_fail(g, error, code, 506, "`%s` takes floats, not %s: cast first",
                    op_def(v->op)->name, dtype_name(v->type.dtype));
}

/* x, one of the sides, and a filter of known sizes. */
static bool read_inputs(const Graph *g, Value *v, ConvShape *c, ConvSide *side, const char **error,
                        int *code) {
  Type x = infer_in(g, v, 0), w = infer_in(g, v, 1);
  if (!read_blocks(g, v, c, error, code)) return false;
  c->space = x.rank - 2 - (side->block > 1);
  if (x.rank < 3 || c->space + 2 != w.rank)
    return infer_fail(g, error, code, 406,
                      "`%s` takes [batch, channels, space...] and a filter of as many dimensions, "
                      "not %s and %s",
                      op_def(v->op)->name, infer_type_text(g, x), infer_type_text(g, w));
  if (!read_side(g, v, x, side, error, code)) return false;
  for (int i = 0; i < w.rank; i++)
    if (!dim_known(w.dim[i]))
      return infer_fail(g, error, code, 508,
                        "`%s` moves over a dimension of %s, which is not known while compiling",
                        op_def(v->op)->name, infer_dim_text(g, w.dim[i]));
  c->batch = x.dim[0];
  for (int i = 0; i < c->space; i++) c->kernel[i] = w.dim[2 + i].fixed;
  return read_attributes(g, v, c, error, code) && floats(g, v, error, code) &&
         groups_divide(g, v, c, side->channels, w.dim[0].fixed, error, code);
}

/* Number of places of a window along a dimension; less than 1: it does not fit. */
static int64_t places(const ConvShape *c, int i) {
  int64_t room = c->big.size[i] + 2 * c->padding[i] - c->dilation[i] * (c->kernel[i] - 1) - 1;
  return room < 0 ? 0 : room / c->stride[i] + 1;
}

static bool too_small(const Graph *g, const Value *v, int64_t kernel, const char **error,
                      int *code) {
  return infer_fail(g, error, code, 410, "`%s`: a window of %lld does not fit into %s",
                    op_def(v->op)->name, (long long)kernel, infer_type_text(g, infer_in(g, v, 0)));
}

static bool read_conv(const Graph *g, Value *v, ConvShape *c, const char **error, int *code) {
  Type w = infer_in(g, v, 1);
  if (!read_inputs(g, v, c, &c->big, error, code)) return false;
  if (w.dim[1].fixed * c->groups != c->big.channels)
    return infer_fail(g, error, code, 405, "`conv`: the filter %s takes %lld channels, %s has %lld",
                      infer_type_text(g, w), (long long)(w.dim[1].fixed * c->groups),
                      infer_type_text(g, infer_in(g, v, 0)), (long long)c->big.channels);
  c->small.channels = w.dim[0].fixed;
  for (int i = 0; i < c->space; i++) {
    c->small.size[i] = places(c, i);
    if (c->small.size[i] < 1) return too_small(g, v, c->kernel[i], error, code);
  }
  return write_side(g, v, c, &c->small, error, code);
}

static bool read_transpose(const Graph *g, Value *v, ConvShape *c, const char **error, int *code) {
  Type w = infer_in(g, v, 1);
  if (!read_inputs(g, v, c, &c->small, error, code)) return false;
  fill(v, "output_padding", c->space, 0);
  if (!numbers(g, v, "output_padding", c->space, 0, error, code)) return false;
  if (w.dim[0].fixed != c->small.channels)
    return infer_fail(g, error, code, 405,
                      "`conv_transpose`: the filter %s takes %lld channels, %s has %lld",
                      infer_type_text(g, w), (long long)w.dim[0].fixed,
                      infer_type_text(g, infer_in(g, v, 0)), (long long)c->small.channels);
  c->big.channels = w.dim[1].fixed * c->groups;
  for (int i = 0; i < c->space; i++) {
    int64_t extra = attr_of(v, "output_padding")->as.ints.at[i];
    if (extra >= c->stride[i])
      return infer_fail(g, error, code, 410,
                        "`output_padding` is %lld; it is smaller than the stride, %lld",
                        (long long)extra, (long long)c->stride[i]);
    c->big.size[i] = (c->small.size[i] - 1) * c->stride[i] - 2 * c->padding[i] +
                     c->dilation[i] * (c->kernel[i] - 1) + extra + 1;
    if (c->big.size[i] < 1) return too_small(g, v, c->kernel[i], error, code);
  }
  return write_side(g, v, c, &c->big, error, code);
}

static bool read_filter(const Graph *g, Value *v, ConvShape *c, const char **error, int *code) {
  Type big = infer_in(g, v, 0), small = infer_in(g, v, 1);
  if (!read_blocks(g, v, c, error, code) || !read_side(g, v, big, &c->big, error, code) ||
      !read_side(g, v, small, &c->small, error, code) || !floats(g, v, error, code) ||
      !groups_divide(g, v, c, c->big.channels, c->small.channels, error, code))
    return false;
  c->space = big.rank - 2 - (c->big.block > 1);
  c->batch = big.dim[0];
  if (small.rank - 2 - (c->small.block > 1) != c->space || !dim_equal(small.dim[0], c->batch) ||
      attr_of(v, "kernel")->as.ints.len != c->space)
    return infer_fail(g, error, code, 406, "`conv_filter`: %s and %s do not go together",
                      infer_type_text(g, big), infer_type_text(g, small));
  if (!numbers(g, v, "kernel", c->space, 1, error, code) || !read_attributes(g, v, c, error, code))
    return false;
  if (attr_of(v, "full")->as.i) v->type.dtype = dtype_computed(v->type.dtype);
  v->type.rank = 2 + c->space;
  v->type.dim[0] = dim_of(c->small.channels);
  v->type.dim[1] = dim_of(c->big.channels / c->groups);
  for (int i = 0; i < c->space; i++) {
    c->kernel[i] = attr_of(v, "kernel")->as.ints.at[i];
    v->type.dim[2 + i] = dim_of(c->kernel[i]);
    if (places(c, i) != c->small.size[i]) return too_small(g, v, c->kernel[i], error, code);
  }
  return true;
}

static bool read_shape(const Graph *g, Value *v, ConvShape *c, const char **error, int *code) {
  return v->op == OP_conv             ? read_conv(g, v, c, error, code)
         : v->op == OP_conv_transpose ? read_transpose(g, v, c, error, code)
                                      : read_filter(g, v, c, error, code);
}

static bool conv_infer(const Graph *g, Value *v, const char **error, int *code) {
  ConvShape c;
  return read_shape(g, v, &c, error, code);
}

bool conv_is(OpKind op) {
  return op == OP_conv || op == OP_conv_transpose || op == OP_conv_filter;
}

ConvShape conv_shape(const Graph *g, const Value *v) {
  Attr attrs[IR_MAX_ATTRS];
  Value copy = infer_copy(v, attrs);
  ConvShape c;
  const char *error;
  int code;
  check(read_shape(g, &copy, &c, &error, &code), "%s: %s", op_def(v->op)->name, error);
  return c;
}

/* ---------- meaning ---------- */

static int64_t element(const ConvSide *s, int space, int64_t b, int64_t channel,
                       const int64_t *at) {
  int64_t flat = b * (s->channels / s->block) + channel / s->block;
  for (int i = 0; i < space; i++) flat = flat * s->size[i] + at[i];
  return flat * s->block + channel % s->block;
}

static void split(int64_t flat, const int64_t *size, int n, int64_t *at) {
  for (int i = n; i-- > 0; flat /= size[i]) at[i] = flat % size[i];
}

static int64_t product(const int64_t *size, int n) {
  int64_t p = 1;
  for (int i = 0; i < n; i++) p *= size[i];
  return p;
}

/* All products that involve one element of the small side. */
static void one_place(const ConvShape *c, OpKind op, const double *const *in, double *out,
                      int64_t b, int64_t channel, const int64_t *place) {
  int64_t each = c->big.channels / c->groups, taps = product(c->kernel, c->space);
  int64_t first = channel / (c->small.channels / c->groups) * each;
  int64_t s = element(&c->small, c->space, b, channel, place);
  for (int64_t f = 0; f < each * taps; f++) {
    int64_t at[CONV_MAX_SPACE];
    bool inside = true;
    split(f % taps, c->kernel, c->space, at);
    for (int i = 0; i < c->space; i++) {
      at[i] = place[i] * c->stride[i] - c->padding[i] + at[i] * c->dilation[i];
      inside = inside && at[i] >= 0 && at[i] < c->big.size[i];
    }
    if (!inside) continue;
    int64_t x = element(&c->big, c->space, b, first + f / taps, at);
    int64_t w = channel * each * taps + f;
    if (op == OP_conv)
      out[s] += in[0][x] * in[1][w];
    else if (op == OP_conv_transpose)
      out[x] += in[0][s] * in[1][w];
    else
      out[w] += in[0][x] * in[1][s];
  }
}

static void conv_interpret(const Graph *g, const Value *v, int64_t batch, const double *const *in,
                           double *out) {
  ConvShape c = conv_shape(g, v);
  int64_t n = type_elements_at(v->type, batch), spots = product(c.small.size, c.space);
  for (int64_t k = 0; k < n; k++) out[k] = 0;
  for (int64_t b = 0; b < dim_at(c.batch, batch); b++)
    for (int64_t k = 0; k < c.small.channels * spots; k++) {
      int64_t place[CONV_MAX_SPACE];
      split(k % spots, c.small.size, c.space, place);
      one_place(&c, v->op, in, out, b, k / spots, place);
    }
}

static double flops(const Graph *g, const Value *v, int64_t batch) {
  ConvShape c = conv_shape(g, v);
  double n = 2 * (double)c.small.channels * (double)(c.big.channels / c.groups);
  for (int i = 0; i < c.space; i++) n *= (double)c.kernel[i] * (double)c.small.size[i];
  return n * (double)dim_at(c.batch, batch);
}

const OpCode family_conv[] = {
    {.op = OP_conv, .infer = conv_infer, .interpret = conv_interpret, .flops = flops},
    {.op = OP_conv_transpose, .infer = conv_infer, .interpret = conv_interpret, .flops = flops},
    {.op = OP_conv_filter, .infer = conv_infer, .interpret = conv_interpret, .flops = flops},
    {.op = OP_none},
};
