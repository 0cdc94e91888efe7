/* Graphs of one op from the sample column of the op table (sample.h). */
#include "sample.h"
#include "die.h"
#include "ir_text.h"
#include <math.h>
#include <string.h>

static void add_input(Sample *s, Type t, int64_t limit) {
  int k = s->inputs++;
  s->limit[k] = limit;
  s->in[k] = ir_leaf(s->g, OP_input, k, t, (Span){0}, 0);
}

/* "f32[3,4] i64[3,1]<4 ; dim=1", up to `|` or the end */
static void read_one(Sample *s, IrText *t) {
  Attr attrs[IR_MAX_ATTRS] = {0};
  char word[32];
  Type type;
  const OpDef *d = op_def(s->op);
  ir_default_attrs(s->op, attrs);
  while (ir_text_blanks(t), *t->at && *t->at != ';' && *t->at != '|') {
    int64_t limit = 4;
    check(ir_text_type(t, &type), "%s: bad type in sample at `%s`", d->name, t->at);
    if (ir_text_char(t, '<')) ir_text_int(t, &limit);
    add_input(s, type, limit);
  }
  if (ir_text_char(t, ';'))
    while (ir_text_word(t, word, sizeof word)) {
      int k = op_attr(s->op, word);
      check(k >= 0 && ir_text_char(t, '=') && ir_text_attr(t, d->attr[k].kind, &attrs[k]),
            "%s: bad attribute `%s` in sample", d->name, word);
    }
  ir_text_blanks(t);
  check(!*t->at || *t->at == '|', "%s: sample ends before `%s`", d->name, t->at);
  s->y = ir_must(s->g, s->op, s->in, s->inputs, attrs, (Span){0}, 0);
  graph_output(s->g, OUT_value, 0, s->y);
}

static Sample begin(Arena *a, OpKind op) {
  return (Sample){.g = graph_new(a, op_def(op)->name, true), .op = op};
}

static int elementwise_samples(Arena *a, OpKind op, Sample *out) {
  static const char *const shapes[][3] = {
      {"[2,3]", "[2,3]", "[2,3]"}, {"[B,3]", "[3]", "[B,1]"}, {"[]", "[2,1,2]", "[1]"}};
  const OpDef *d = op_def(op);
  int n = 0;
  for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
    Sample *s = &out[n++];
    *s = begin(a, op);
    for (int i = 0; i < d->inputs; i++) {
      bool is_bool = !strcmp(d->domain, "bool") || (!strcmp(d->domain, "select") && i == 0);
      IrText t = {arena_printf(a, "%s%s", is_bool ? "bool" : "f32", shapes[k][i])};
      Type type;
      check(ir_text_type(&t, &type), "bad shape");
      add_input(s, type, 2);
    }
    s->y = ir_must(s->g, op, s->in, s->inputs, NULL, (Span){0}, 0);
    graph_output(s->g, OUT_value, 0, s->y);
  }
  return n;
}

int samples_of(Arena *a, OpKind op, Sample *out) {
  const OpDef *d = op_def(op);
  return d->c ? elementwise_samples(a, op, out) : samples_from(a, op, d->sample, out);
}

int samples_from(Arena *a, OpKind op, const char *text, Sample *out) {
  int n = 0;
  IrText t = {text};
  while (*t.at) {
    check(n < SAMPLES_MAX, "%s: too many samples", op_def(op)->name);
    out[n] = begin(a, op);
    read_one(&out[n++], &t);
    if (!ir_text_char(&t, '|')) break;
  }
  return n;
}

/* xorshift64*; 53 bits as a number in [0, 1) */
static double draw(uint64_t *state) {
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return (double)((*state * 2685821657736338717u) >> 11) * 0x1p-53;
}

static double draw_in(const char *domain, uint64_t *state) {
  double u = draw(state), x = 0.1 + 1.7 * u;
  if (fabs(x - nearbyint(x)) < 0.02) x += 0.04; /* kinks of floor and of remainders */
  if (!strcmp(domain, "positive")) return x;
  return draw(state) < 0.5 ? -x : x;
}

int64_t sample_count(const Graph *g, Val v) {
  return type_elements_at(value_at(g, v)->type, SAMPLE_BATCH);
}

void sample_fill(const Sample *s, uint64_t seed, double **in) {
  const OpDef *d = op_def(s->op);
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (int i = 0; i < 8; i++) draw(&state);
  for (int i = 0; i < s->inputs; i++) {
    DType t = value_at(s->g, s->in[i])->type.dtype;
    int64_t n = sample_count(s->g, s->in[i]);
    for (int64_t k = 0; k < n; k++) {
      if (t == DT_bool)
        in[i][k] = draw(&state) < 0.5;
      else if (dtype_category(t) == 'i')
        in[i][k] = floor(draw(&state) * (double)s->limit[i]);
      else
        in[i][k] = draw_in(d->domain ? d->domain : "all", &state);
    }
  }
}

typedef struct Given {
  const Sample *s;
  double **in;
} Given;

static void give(void *self, const Graph *g, Val v, double *out) {
  const Given *given = self;
  const Value *x = value_at(g, v);
  check(x->op == OP_input, "sample: %s is not given", op_def(x->op)->name);
  memcpy(out, given->in[x->attr[0].as.i], sizeof(double) * (size_t)sample_count(g, v));
}

const double *sample_run(Arena *a, const Sample *s, const Graph *g, Val y, double **in) {
  Given given = {s, in};
  Interp how = {.batch = SAMPLE_BATCH, .source = give, .self = &given};
  return interp_run(a, g, &how)[y];
}
