/* Index algebra of loop nests: integer expressions over loop numbers and temps, kept in one normal
   form: a sum of terms (factor * atom) and a constant, loops first. Divisions and remainders that
   are exact, or whose range shows them to be trivial, disappear, so that a load of a reshaped,
   sliced or transposed value reads `x[i*64 + j]` and the emitted loop vectorises.
   Bounds hold for every batch B >= 1. Equal expressions are one node. */
#include "nest_memo.h"
#include "die.h"

enum { MAX_TERMS = 32 };
typedef struct Linear { /* sum of factor[i] * atom[i], plus constant */
  int n;
  NestIndex atom[MAX_TERMS];
  Dim factor[MAX_TERMS];
  Dim constant;
} Linear;

static Dim dim_plus(Dim a, Dim b) {
  return (Dim){a.per_batch + b.per_batch, a.fixed + b.fixed};
}
static Dim dim_minus(Dim a, Dim b) {
  return (Dim){a.per_batch - b.per_batch, a.fixed - b.fixed};
}
/* For every batch >= 1. */
static bool dim_at_least_zero(Dim d) {
  return d.per_batch >= 0 && d.per_batch + d.fixed >= 0;
}
static bool dim_at_most_zero(Dim d) {
  return d.per_batch <= 0 && d.per_batch + d.fixed <= 0;
}
static bool dim_below(Dim a, Dim b) {
  return dim_at_least_zero(dim_minus(dim_minus(b, a), dim_of(1)));
}
static int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
/* As dim_mul, also for negative factors. */
static bool times(Dim a, Dim b, Dim *out) {
  if (!dim_known(a) && !dim_known(b)) return false;
  if (!dim_known(a)) {
    Dim t = a;
    a = b;
    b = t;
  }
  *out = (Dim){a.fixed * b.per_batch, a.fixed * b.fixed};
  return true;
}
/* Exact quotient. */
static bool quotient(Dim a, Dim b, Dim *out) {
  if (dim_known(b)) {
    if (b.fixed == 0 || a.per_batch % b.fixed || a.fixed % b.fixed) return false;
    *out = (Dim){a.per_batch / b.fixed, a.fixed / b.fixed};
    return true;
  }
  if (a.per_batch % b.per_batch) return false;
  int64_t q = a.per_batch / b.per_batch;
  if (a.fixed != q * b.fixed) return false;
  *out = dim_of(q);
  return true;
}

static Linear linear_constant(Dim d) {
  return (Linear){.n = 0, .constant = d};
}

static void linear_add(Linear *l, NestIndex atom, Dim factor) {
  int i = 0;
  for (; i < l->n; i++)
    if (l->atom[i] == atom) break;
  if (i < l->n) {
    l->factor[i] = dim_plus(l->factor[i], factor);
    if (!dim_is(l->factor[i], 0)) return;
    l->n--;
    l->atom[i] = l->atom[l->n];
    l->factor[i] = l->factor[l->n];
    return;
  }
  if (dim_is(factor, 0)) return;
  check(l->n < MAX_TERMS, "an index expression of more than %d terms", MAX_TERMS);
  l->atom[l->n] = atom;
  l->factor[l->n++] = factor;
}

static void linear_collect(const Nest *n, NestIndex ix, Linear *l) {
  const Ix *x = &n->ix.at[ix];
  switch (x->kind) {
  case IX_const:
    l->constant = dim_plus(l->constant, x->value);
    return;
  case IX_add:
    linear_collect(n, x->left, l);
    linear_collect(n, x->right, l);
    return;
  case IX_mul:
    linear_add(l, x->left, x->value);
    return;
  case IX_loop:
  case IX_div:
  case IX_mod:
  case IX_temp:
    linear_add(l, ix, dim_of(1));
  }
}

static Linear linear_of(const Nest *n, NestIndex ix) {
  Linear l = linear_constant(dim_of(0));
  linear_collect(n, ix, &l);
  return l;
}

/* (x / k) * (k * c) + (x % k) * c = x * c. True when one pair was joined. */
static bool linear_rejoin(const Nest *n, Linear *l) {
  for (int i = 0; i < l->n; i++) {
    Ix rest = n->ix.at[l->atom[i]];
    if (rest.kind != IX_mod) continue;
    for (int j = 0; j < l->n; j++) {
      Ix whole = n->ix.at[l->atom[j]];
      Dim wanted;
      if (whole.kind != IX_div || whole.left != rest.left || !dim_equal(whole.value, rest.value) ||
          !times(l->factor[i], rest.value, &wanted) || !dim_equal(wanted, l->factor[j]))
        continue;
      Dim c = l->factor[i];
      Linear parts = linear_of(n, rest.left);
      Dim scaled;
      bool fits = times(parts.constant, c, &scaled);
      for (int k = 0; k < parts.n && fits; k++) fits = times(parts.factor[k], c, &scaled);
      if (!fits) continue;
      NestIndex a = l->atom[i], b = l->atom[j];
      Dim fa = l->factor[i], fb = l->factor[j];
      linear_add(l, a, dim_minus(dim_of(0), fa));
      linear_add(l, b, dim_minus(dim_of(0), fb));
      for (int k = 0; k < parts.n; k++) {
        times(parts.factor[k], c, &scaled);
        linear_add(l, parts.atom[k], scaled);
      }
      times(parts.constant, c, &scaled);
      l->constant = dim_plus(l->constant, scaled);
      return true;
    }
  }
  return false;
}

/* Order of terms: loops by number, then the others by age. */
static uint64_t term_order(const Nest *n, NestIndex atom) {
  const Ix *x = &n->ix.at[atom];
  return x->kind == IX_loop ? x->loop : ((uint64_t)1 << 32) + atom;
}

static NestIndex linear_build(Nest *n, Linear l) {
  while (linear_rejoin(n, &l)) continue;
  for (int i = 1; i < l.n; i++) /* insertion sort: few terms */
    for (int j = i; j > 0 && term_order(n, l.atom[j]) < term_order(n, l.atom[j - 1]); j--) {
      NestIndex a = l.atom[j];
      Dim f = l.factor[j];
      l.atom[j] = l.atom[j - 1], l.factor[j] = l.factor[j - 1];
      l.atom[j - 1] = a, l.factor[j - 1] = f;
    }
  NestIndex sum = 0;
  for (int i = 0; i < l.n; i++) {
    NestIndex term =
        dim_is(l.factor[i], 1)
            ? l.atom[i]
            : nest_ix_intern(n, (Ix){.kind = IX_mul, .left = l.atom[i], .value = l.factor[i]});
    sum = sum ? nest_ix_intern(n, (Ix){.kind = IX_add, .left = sum, .right = term}) : term;
  }
  if (sum && dim_is(l.constant, 0)) return sum;
  NestIndex c = nest_ix_intern(n, (Ix){.kind = IX_const, .value = l.constant});
  return sum ? nest_ix_intern(n, (Ix){.kind = IX_add, .left = sum, .right = c}) : c;
}

/* ---------- bounds ---------- */
typedef struct Range {
  bool has_low, has_high;
  Dim low, high;
} Range;

static Range linear_range(const Nest *n, const Linear *l);

static Range atom_range(const Nest *n, NestIndex atom) {
  const Ix *x = &n->ix.at[atom];
  Range r = {.has_low = true, .low = dim_of(0)};
  if (x->kind == IX_temp) {
    r.has_high = true;
    r.high = dim_minus(x->value, dim_of(1));
  } else if (x->kind == IX_loop) {
    r.has_high = true;
    r.high = dim_minus(n->loops.at[x->loop].extent, dim_of(1));
  } else if (x->kind == IX_mod) {
    r.has_high = true;
    r.high = dim_minus(x->value, dim_of(1));
  } else if (x->kind == IX_div) {
    Linear inner = linear_of(n, x->left);
    Range of = linear_range(n, &inner);
    r.has_low = of.has_low && dim_at_least_zero(of.low);
    Dim k = x->value, high = of.high;
    if (!of.has_high) return r;
    if (dim_known(k) && high.per_batch % k.fixed == 0) {
      r.has_high = true;
      r.high = (Dim){high.per_batch / k.fixed, floor_div(high.fixed, k.fixed)};
    } else if (!dim_known(k) && k.fixed == 0 && high.per_batch % k.per_batch == 0 &&
               high.fixed <= 0 && -high.fixed <= k.per_batch) {
      r.has_high = true;
      r.high = dim_of(high.per_batch / k.per_batch - (high.fixed < 0));
    }
  }
  return r; /* a product of batches: no upper bound */
}

static Range linear_range(const Nest *n, const Linear *l) {
  Range r = {true, true, l->constant, l->constant};
  for (int i = 0; i < l->n; i++) {
    Dim f = l->factor[i], part;
    Range a = atom_range(n, l->atom[i]);
    bool up = dim_at_least_zero(f), down = dim_at_most_zero(f);
    if (!up && !down) return (Range){0};
    bool low = up ? a.has_low : a.has_high, high = up ? a.has_high : a.has_low;
    r.has_low = r.has_low && low && times(f, up ? a.low : a.high, &part);
    if (r.has_low) r.low = dim_plus(r.low, part);
    r.has_high = r.has_high && high && times(f, up ? a.high : a.low, &part);
    if (r.has_high) r.high = dim_plus(r.high, part);
  }
  return r;
}

static bool not_negative(const Range *r) {
  return r->has_low && dim_at_least_zero(r->low);
}
static bool lies_below(const Range *r, Dim k) {
  return not_negative(r) && r->has_high && dim_below(r->high, k);
}

bool nest_ix_range(const Nest *n, NestIndex ix, Dim *low, Dim *high) {
  Linear l = linear_of(n, ix);
  Range r = linear_range(n, &l);
  *low = r.low;
  *high = r.high;
  return r.has_low && r.has_high;
}

/* ---------- constructors ---------- */
NestIndex nest_ix_const(Nest *n, Dim d) {
  return nest_ix_intern(n, (Ix){.kind = IX_const, .value = d});
}

NestIndex nest_ix_loop(Nest *n, uint32_t loop) {
  if (dim_is(n->loops.at[loop].extent, 1)) return nest_ix_const(n, dim_of(0));
  return nest_ix_intern(n, (Ix){.kind = IX_loop, .loop = loop});
}

NestIndex nest_ix_temp(Nest *n, NestTemp t, Dim below) {
  const Inst *i = &n->insts.at[t];
  if (i->kind == INST_const) return nest_ix_const(n, dim_of((int64_t)i->k));
  if (i->kind == INST_index) return i->ix;
  return nest_ix_intern(n, (Ix){.kind = IX_temp, .value = below, .temp = t});
}

NestIndex nest_ix_add(Nest *n, NestIndex a, NestIndex b) {
  Linear l = linear_of(n, a);
  linear_collect(n, b, &l);
  return linear_build(n, l);
}

NestIndex nest_ix_mul(Nest *n, NestIndex a, Dim k) {
  if (dim_is(k, 1)) return a;
  Linear from = linear_of(n, a), to = linear_constant(dim_of(0));
  Dim scaled;
  for (int i = 0; i < from.n; i++) {
    if (times(from.factor[i], k, &scaled)) {
      linear_add(&to, from.atom[i], scaled);
    } else { /* B * B: the product so far becomes an atom */
      NestIndex atom =
          nest_ix_intern(n, (Ix){.kind = IX_mul, .left = from.atom[i], .value = from.factor[i]});
      linear_add(&to, atom, k);
    }
  }
  if (times(from.constant, k, &scaled)) {
    to.constant = scaled;
  } else {
    linear_add(&to, nest_ix_const(n, from.constant), k);
  }
  return linear_build(n, to);
}

/* Splits l into k * whole + rest, whatever is exact. */
static void linear_split(const Linear *l, Dim k, Linear *whole, Linear *rest) {
  *whole = linear_constant(dim_of(0));
  *rest = linear_constant(dim_of(0));
  for (int i = 0; i < l->n; i++) {
    Dim q;
    if (quotient(l->factor[i], k, &q))
      linear_add(whole, l->atom[i], q);
    else
      linear_add(rest, l->atom[i], l->factor[i]);
  }
  if (quotient(l->constant, k, &whole->constant)) return;
  whole->constant = dim_of(0);
  rest->constant = l->constant;
  if (dim_known(k) && l->constant.per_batch % k.fixed == 0) {
    whole->constant = (Dim){l->constant.per_batch / k.fixed, floor_div(l->constant.fixed, k.fixed)};
    rest->constant = dim_of(l->constant.fixed - k.fixed * whole->constant.fixed);
  }
}

/* rest = g * outer + inner with g | k and 0 <= inner < g: division and remainder by k then look at
   outer alone, by k / g. */
static bool linear_factor(const Nest *n, const Linear *rest, Dim k, Dim *g, Linear *outer,
                          Linear *inner) {
  for (int i = 0; i < rest->n; i++) {
    Dim by;
    *g = rest->factor[i];
    if (dim_is(*g, 1) || !dim_at_least_zero(*g) || !quotient(k, *g, &by)) continue;
    linear_split(rest, *g, outer, inner);
    Range r = linear_range(n, inner);
    if (lies_below(&r, *g)) return true;
  }
  return false;
}

NestIndex nest_ix_div(Nest *n, NestIndex a, Dim k) {
  if (dim_is(k, 1)) return a;
  Linear l = linear_of(n, a), whole, rest, outer, inner;
  linear_split(&l, k, &whole, &rest);
  Range r = linear_range(n, &rest);
  if (lies_below(&r, k)) return linear_build(n, whole);
  if (!not_negative(&r)) return nest_ix_intern(n, (Ix){.kind = IX_div, .left = a, .value = k});
  NestIndex q = linear_build(n, whole), part;
  Dim g, by;
  const Ix *one = rest.n == 1 && dim_is(rest.factor[0], 1) && dim_is(rest.constant, 0)
                      ? &n->ix.at[rest.atom[0]]
                      : NULL;
  if (one && one->kind == IX_div && times(one->value, k, &by)) {
    part = nest_ix_div(n, one->left, by);
  } else if (one && one->kind == IX_mod && quotient(one->value, k, &by)) {
    part = nest_ix_mod(n, nest_ix_div(n, one->left, k), by);
  } else if (linear_factor(n, &rest, k, &g, &outer, &inner)) {
    quotient(k, g, &by);
    part = nest_ix_div(n, linear_build(n, outer), by);
  } else {
    NestIndex left = linear_build(n, rest);
    part = nest_ix_intern(n, (Ix){.kind = IX_div, .left = left, .value = k});
  }
  return nest_ix_add(n, q, part);
}

NestIndex nest_ix_mod(Nest *n, NestIndex a, Dim k) {
  if (dim_is(k, 1)) return nest_ix_const(n, dim_of(0));
  Linear l = linear_of(n, a), whole, rest, outer, inner;
  linear_split(&l, k, &whole, &rest);
  Range r = linear_range(n, &rest);
  if (lies_below(&r, k)) return linear_build(n, rest);
  if (!not_negative(&r)) return nest_ix_intern(n, (Ix){.kind = IX_mod, .left = a, .value = k});
  Dim g, by;
  const Ix *one = rest.n == 1 && dim_is(rest.factor[0], 1) && dim_is(rest.constant, 0)
                      ? &n->ix.at[rest.atom[0]]
                      : NULL;
  if (one && one->kind == IX_mod && quotient(one->value, k, &by))
    return nest_ix_mod(n, one->left, k);
  if (linear_factor(n, &rest, k, &g, &outer, &inner)) {
    quotient(k, g, &by);
    NestIndex high = nest_ix_mul(n, nest_ix_mod(n, linear_build(n, outer), by), g);
    return nest_ix_add(n, high, linear_build(n, inner));
  }
  NestIndex left = linear_build(n, rest);
  return nest_ix_intern(n, (Ix){.kind = IX_mod, .left = left, .value = k});
}

NestIndex nest_ix_flat(Nest *n, Type t, const NestIndex *index) {
  NestIndex flat = nest_ix_const(n, dim_of(0));
  for (int d = 0; d < t.rank; d++) flat = nest_ix_add(n, nest_ix_mul(n, flat, t.dim[d]), index[d]);
  return flat;
}

void nest_ix_unflat(Nest *n, Type t, NestIndex flat, NestIndex *index) {
  for (int d = t.rank - 1; d > 0; d--) {
    index[d] = nest_ix_mod(n, flat, t.dim[d]);
    flat = nest_ix_div(n, flat, t.dim[d]);
  }
  if (t.rank) index[0] = flat;
}

/* ---------- questions ---------- */
bool nest_ix_is_const(const Nest *n, NestIndex ix, int64_t *out) {
  const Ix *x = &n->ix.at[ix];
  if (x->kind != IX_const || !dim_known(x->value)) return false;
  *out = x->value.fixed;
  return true;
}

bool nest_ix_uses_loop(const Nest *n, NestIndex ix, uint32_t loop) {
  const Ix *x = &n->ix.at[ix];
  switch (x->kind) {
  case IX_const:
  case IX_temp:
    return false;
  case IX_loop:
    return x->loop == loop;
  case IX_add:
    return nest_ix_uses_loop(n, x->left, loop) || nest_ix_uses_loop(n, x->right, loop);
  case IX_mul:
  case IX_div:
  case IX_mod:
    return nest_ix_uses_loop(n, x->left, loop);
  }
  return false;
}

bool nest_ix_reads_data(const Nest *n, NestIndex ix) {
  const Ix *x = &n->ix.at[ix];
  if (x->kind == IX_temp) return true;
  if (x->kind == IX_const || x->kind == IX_loop) return false;
  return nest_ix_reads_data(n, x->left) || (x->kind == IX_add && nest_ix_reads_data(n, x->right));
}

static void print_dim(Text *out, Dim d) {
  if (dim_known(d))
    text_addf(out, "%lld", (long long)d.fixed);
  else {
    bool sum = d.fixed != 0;
    if (sum) text_add(out, "(");
    if (d.per_batch != 1) text_addf(out, "%lld*", (long long)d.per_batch);
    text_add(out, "B");
    if (sum) text_addf(out, "%+lld)", (long long)d.fixed);
  }
}

void nest_ix_print(Text *out, const Nest *n, NestIndex ix) {
  const Ix *x = &n->ix.at[ix];
  switch (x->kind) {
  case IX_const:
    print_dim(out, x->value);
    return;
  case IX_loop:
    text_addf(out, "i%u", x->loop);
    return;
  case IX_temp:
    text_addf(out, "t%u", x->temp);
    return;
  case IX_add: {
    const Ix *right = &n->ix.at[x->right];
    nest_ix_print(out, n, x->left);
    if (right->kind == IX_const && dim_known(right->value) && right->value.fixed < 0) {
      text_addf(out, " - %lld", (long long)-right->value.fixed);
      return;
    }
    text_add(out, " + ");
    nest_ix_print(out, n, x->right);
    return;
  }
  case IX_mul:
  case IX_div:
  case IX_mod: {
    bool sum = n->ix.at[x->left].kind != IX_loop && n->ix.at[x->left].kind != IX_temp;
    text_add(out, sum ? "(" : "");
    nest_ix_print(out, n, x->left);
    text_add(out, sum ? ")" : "");
    text_add(out, x->kind == IX_mul ? "*" : x->kind == IX_div ? " / " : " % ");
    print_dim(out, x->value);
  }
  }
}
