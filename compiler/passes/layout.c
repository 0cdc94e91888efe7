/* pass_layout: convolutional networks get blocks of channels. In: a graph after decompose. Out: the same
   numbers to rounding (sums run in another order), in which convolutions, pooling, and what is elementwise or
   reduced between them work on [B, C / block, space.., block] where they worked on [B, C, space..]:
   oneDNN's and the vector units' natural layout. On CPUs, blocks of 16 where they divide the channels, all
   channels in one (channels last) elsewhere, none below 16; for GPUs all channels in one.

   A value has a plain form, a blocked form, or both; what is missing is made when somebody asks, as a
   view (reshape, permute), which costs a pass over memory only where a call reads it. Values that
   come from a convolution with their channels in place are images: their users compute in blocks. */
#include "conv.h"
#include "die.h"
#include "passes.h"
#include "pool.h"
#include "rewrite.h"

typedef struct Layout {
  Rewrite r;    /* map: plain forms */
  Val *blocked; /* of old values */
  bool *image;
  bool whole; /* all channels in one block */
} Layout;

enum { BLOCK = 16 };

static int64_t block_of(const Layout *l, int64_t channels) {
  if (l->whole) return channels;
  return channels % BLOCK == 0 ? BLOCK : channels < BLOCK ? 1 : channels;
}

static const Value *old(const Layout *l, Val v) {
  return value_at(l->r.from, v);
}

/* Sizes of dimension 1 if it can be in blocks; else 1. */
static int64_t channels_of(Type t) {
  bool fits = t.rank >= 3 && t.rank < IR_MAX_RANK && dim_known(t.dim[1]);
  return fits ? t.dim[1].fixed : 1;
}
static int64_t own_block(const Layout *l, Type t) {
  return block_of(l, channels_of(t));
}

/* ---------- views between the forms ---------- */

static Val reshape(Layout *l, Val v, Type to, const Value *like) {
  if (type_equal(value_at(l->r.to, v)->type, to)) return v;
  Attr attrs[IR_MAX_ATTRS] = {0};
  attrs[0].as.dims.len = to.rank;
  for (int i = 0; i < to.rank; i++) attrs[0].as.dims.at[i] = to.dim[i];
  return ir_must(l->r.to, OP_reshape, &v, 1, attrs, like->at, like->scope);
}

/* Dimension `from` comes to stand at `to`. */
static Val move(Layout *l, Val v, int from, int to, const Value *like) {
  Attr attrs[IR_MAX_ATTRS] = {0};
  int rank = value_at(l->r.to, v)->type.rank;
  attrs[0].as.ints.len = rank;
  for (int i = 0, k = 0; i < rank; i++) {
    if (k == from) k++;
    attrs[0].as.ints.at[i] = i == to ? from : k++;
  }
  return ir_must(l->r.to, OP_permute, &v, 1, attrs, like->at, like->scope);
}

static bool space_is_one(Type t) {
  for (int i = 2; i < t.rank; i++)
    if (!dim_is(t.dim[i], 1)) return false;
  return true;
}

/* [B, C / block, space.., block] with this block; a size of 1 of channels stays. */
static Type blocked_type(Type t, int64_t block) {
  bool one = dim_is(t.dim[1], 1);
  if (!one) t.dim[1] = dim_of(t.dim[1].fixed / block);
  t.dim[t.rank++] = dim_of(one ? 1 : block);
  return t;
}

/* The form in blocks of a plain value that broadcasts to `rank` dimensions. */
static Val to_blocked(Layout *l, Val v, int rank, int64_t block, const Value *like) {
  Type t = value_at(l->r.to, v)->type, full = t;
  int missing = rank - t.rank;
  if (t.rank == 0) return v;
  full.rank = rank;
  for (int i = 0; i < rank; i++) full.dim[i] = i < missing ? dim_of(1) : t.dim[i - missing];
  if (dim_is(full.dim[1], 1) || space_is_one(full))
    return reshape(l, v, blocked_type(full, block), like);
  Type split = full;
  split.rank++;
  split.dim[1] = dim_of(full.dim[1].fixed / block);
  split.dim[2] = dim_of(block);
  for (int i = 2; i < rank; i++) split.dim[i + 1] = full.dim[i];
  return move(l, reshape(l, v, split, like), 2, rank, like);
}

/* The plain form, of this type, of a value in blocks. */
static Val to_plain(Layout *l, Val v, Type t, const Value *like) {
  int last = value_at(l->r.to, v)->type.rank - 1;
  return reshape(l, space_is_one(t) ? v : move(l, v, last, 2, like), t, like);
}

static Val plain(Layout *l, Val v) {
  if (!l->r.map[v]) l->r.map[v] = to_plain(l, l->blocked[v], old(l, v)->type, old(l, v));
  return l->r.map[v];
}

/* In blocks of its own channels; for those without blocks, plain. */
static Val blocked(Layout *l, Val v) {
  const Value *x = old(l, v);
  int64_t block = own_block(l, x->type);
  if (block == 1) return plain(l, v);
  if (!l->blocked[v]) l->blocked[v] = to_blocked(l, plain(l, v), x->type.rank, block, x);
  return l->blocked[v];
}

static void set(Layout *l, Val v, Val form) {
  if (own_block(l, old(l, v)->type) == 1)
    l->r.map[v] = form;
  else
    l->blocked[v] = form;
}

/* ---------- ops ---------- */

static Val add(Layout *l, const Value *x, const Val *in, const Attr *attrs) {
  return ir_must(l->r.to, x->op, in, x->inputs, attrs, x->at, x->scope);
}

static void convolution(Layout *l, Val v) {
  const Value *x = old(l, v);
  Attr attrs[IR_MAX_ATTRS];
  op_copy_attrs(x, attrs);
  ConvShape c = conv_shape(l->r.from, x);
  Attr *blocks = &attrs[op_attr(x->op, "blocks")];
  blocks->as.ints.at[0] = block_of(l, c.big.channels);
  blocks->as.ints.at[1] = block_of(l, c.small.channels);
  bool filter = x->op == OP_conv_filter;
  Val in[2] = {blocked(l, x->in[0]), filter ? blocked(l, x->in[1]) : plain(l, x->in[1])};
  Val y = add(l, x, in, attrs);
  if (filter)
    l->r.map[v] = y;
  else
    set(l, v, y);
  l->image[v] = !filter;
}

static bool like_image(const Layout *l, Val in, Type t) {
  Type x = old(l, in)->type;
  return l->image[in] && x.rank == t.rank && dim_equal(x.dim[1], t.dim[1]);
}

static bool elementwise(Layout *l, Val v) {
  const Value *x = old(l, v);
  Val in[IR_MAX_INPUTS];
  bool image = false;
  int64_t block = own_block(l, x->type);
  for (int i = 0; i < x->inputs && block > 1; i++)
    image = image || like_image(l, x->in[i], x->type);
  if (!image) return false;
  for (int i = 0; i < x->inputs; i++) {
    Type t = old(l, x->in[i])->type;
    bool same = t.rank == x->type.rank && dim_equal(t.dim[1], x->type.dim[1]);
    in[i] = same ? blocked(l, x->in[i]) : to_blocked(l, plain(l, x->in[i]), x->type.rank, block, x);
  }
  l->blocked[v] = add(l, x, in, x->attr);
  return true;
}

static bool pooling(Layout *l, Val v) {
  const Value *x = old(l, v);
  Attr attrs[IR_MAX_ATTRS];
  int space = x->attr[op_attr(x->op, "window")].as.ints.len;
  op_copy_attrs(x, attrs);
  Attr *inner = &attrs[op_attr(x->op, "inner")];
  bool image = false;
  for (int i = 0; i < x->inputs; i++) image = image || l->image[x->in[i]];
  if (!image || own_block(l, x->type) == 1 || inner->as.i || space + 2 != x->type.rank)
    return false;
  inner->as.i = 1;
  Val in[2];
  for (int i = 0; i < x->inputs; i++) in[i] = blocked(l, x->in[i]);
  l->blocked[v] = add(l, x, in, attrs);
  return true;
}

/* Over space, and over channels if they are among the dimensions. */
static bool reduction(Layout *l, Val v) {
  const Value *x = old(l, v);
  Type t = old(l, x->in[0])->type, kept = t;
  if (!l->image[x->in[0]] || own_block(l, t) == 1) return false;
  Attr attrs[IR_MAX_ATTRS];
  op_copy_attrs(x, attrs);
  Attr *dim = &attrs[op_attr(x->op, "dim")], *keep = &attrs[op_attr(x->op, "keepdim")];
  bool over[IR_MAX_RANK] = {false}, whole = true;
  for (int i = 0; i < dim->as.ints.len; i++) over[dim->as.ints.at[i]] = true;
  if (over[1] && x->op == OP_argmax) return false; /* places are counted in plain order */
  for (int i = 2; i < t.rank; i++) whole = whole && over[i];
  for (int i = 0; i < t.rank; i++)
    if (over[i]) kept.dim[i] = dim_of(1);
  if (over[1]) dim->as.ints.at[dim->as.ints.len++] = t.rank;
  keep->as.i = true;
  kept.dtype = x->type.dtype;
  Val in = blocked(l, x->in[0]), y = add(l, x, &in, attrs);
  if (!over[1] && !whole && x->type.rank == t.rank)
    l->blocked[v] = y;
  else if (over[1] || whole)
    l->r.map[v] = reshape(l, y, x->type, x);
  else
    l->r.map[v] = reshape(l, to_plain(l, y, kept, x), x->type, x);
  return true;
}

/* Of images. Along channels: whole blocks behind each other, or within the one block that each has. */
static bool concat(Layout *l, Val v) {
  const Value *x = old(l, v);
  Attr attrs[IR_MAX_ATTRS];
  op_copy_attrs(x, attrs);
  int64_t block = own_block(l, x->type), *along = &attrs[op_attr(x->op, "dim")].as.ints.at[0];
  bool within = l->whole && *along == 1, image = block > 1;
  Val in[IR_MAX_INPUTS];
  for (int i = 0; i < x->inputs && image; i++) {
    int64_t own = own_block(l, old(l, x->in[i])->type);
    image =
        l->image[x->in[i]] && (within ? own > 1 : own == block && (*along != 1 || block == BLOCK));
  }
  if (!image) return false;
  for (int i = 0; i < x->inputs; i++) in[i] = blocked(l, x->in[i]);
  if (within) *along = x->type.rank;
  l->blocked[v] = add(l, x, in, attrs);
  return true;
}

/* slice and pad: two lists of sizes, one entry for each dimension; channels only in whole blocks, or within
   the one block. */
static bool cut(Layout *l, Val v) {
  const Value *x = old(l, v);
  Type t = old(l, x->in[0])->type;
  int64_t from = own_block(l, t), to = own_block(l, x->type);
  Attr attrs[IR_MAX_ATTRS];
  op_copy_attrs(x, attrs);
  Attr *step = &attrs[op_attr(x->op, "step")];
  if (!l->image[x->in[0]] || from == 1 || to == 1 || (from != to && !l->whole)) return false;
  if (step->as.ints.len >= 0 && step->as.ints.at[1] != 1 && !l->whole) return false;
  for (int k = 0; k < 2; k++) {
    Dim *d = attrs[k].as.dims.at;
    bool end = x->op == OP_slice && k; /* of a slice; else its start, or how much is added */
    if (!l->whole && d[1].fixed % from) return false;
    d[t.rank] = l->whole ? d[1] : dim_of(end ? from : 0);
    d[1] = l->whole ? dim_of(end) : dim_of(d[1].fixed / from);
    attrs[k].as.dims.len++;
  }
  if (step->as.ints.len >= 0) {
    step->as.ints.at[step->as.ints.len++] = l->whole ? step->as.ints.at[1] : 1;
    step->as.ints.at[1] = 1;
  }
  Val in = blocked(l, x->in[0]);
  l->blocked[v] = add(l, x, &in, attrs);
  return true;
}

/* A movement that leaves samples and channels where they are. */
static bool keeps_channels(const Layout *l, const Value *x) {
  Type t = old(l, x->in[0])->type;
  return op_has(x->op, OPF_view) && x->op != OP_permute && x->inputs == 1 && x->type.rank >= 3 &&
         l->image[x->in[0]] && dim_equal(t.dim[0], x->type.dim[0]) &&
         dim_equal(t.dim[1], x->type.dim[1]);
}

static void convert(Layout *l, Val v) {
  const Value *x = old(l, v);
  if (conv_is(x->op)) {
    convolution(l, v);
    return;
  }
  bool done = op_has(x->op, OPF_elementwise)         ? elementwise(l, v)
              : pool_is(x->op)                       ? pooling(l, v)
              : op_has(x->op, OPF_reduce)            ? reduction(l, v)
              : x->op == OP_concat                   ? concat(l, v)
              : x->op == OP_slice || x->op == OP_pad ? cut(l, v)
                                                     : false;
  l->image[v] = done ? l->blocked[v] != NO_VAL : keeps_channels(l, x);
  if (done) return;
  for (int i = 0; i < x->inputs; i++) plain(l, x->in[i]);
  l->r.map[v] = ir_copy(l->r.to, l->r.from, v, l->r.map);
}

Graph *pass_layout(Graph *g, const Job *job) {
  bool any = false;
  for (Val v = 1; v < g->values.len; v++) any = any || conv_is(value_at(g, v)->op);
  if (!any) return g;
  Layout l = {.r = rewrite_begin(g), .whole = job->target.cuda};
  l.blocked = ARENA_ARRAY(g->arena, Val, g->values.len);
  l.image = ARENA_ARRAY(g->arena, bool, g->values.len);
  for (Val v = 1; v < g->values.len; v++) convert(&l, v);
  for (uint32_t i = 0; i < g->outputs.len; i++) plain(&l, g->outputs.at[i].value);
  return pass_dce(rewrite_end(&l.r));
}
