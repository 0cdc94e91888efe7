/* One function for each production; gen() writes a token and what stands before it. */
#include "generate.h"
#include <string.h>

typedef struct Gen {
  Text *out;
  uint64_t state;
  int wildness; /* of the layout: 0 plain ... 3 */
  bool comments;
} Gen;

/* ---------- chance ---------- */
static uint64_t next(Gen *g) { /* splitmix64 */
  uint64_t z = (g->state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
static int below(Gen *g, int n) {
  return (int)(next(g) % (uint64_t)n);
}
static bool one_in(Gen *g, int n) {
  return below(g, n) == 0;
}
#define PICK(g, ...) pick((g), (const char *const[]){__VA_ARGS__, NULL})
static const char *pick(Gen *g, const char *const *list) {
  int n = 0;
  while (list[n]) n++;
  return list[below(g, n)];
}

/* ---------- tokens ---------- */
static void comment(Gen *g) {
  text_add(g->out,
           PICK(g, "#", "# a comment", "#tight", "#  wide", "## heading", "# ---- ruler ----",
                "# `x = (1, 2]` \"text\" }", "# \xc3\xa4\xe2\x82\xac", "#\ttab", "# trailing \t "));
  text_addf(g->out, one_in(g, 3) ? " %d\n" : "\n", below(g, 1000));
}

static void gap(Gen *g) {
  if (g->wildness == 0 || !one_in(g, 10 >> g->wildness)) {
    text_add(g->out, " ");
    return;
  }
  if (g->comments && one_in(g, 3)) {
    text_add(g->out, one_in(g, 2) ? " " : "\n");
    comment(g);
    if (one_in(g, 3)) comment(g);
  }
  text_add(g->out, PICK(g, "  ", "\n", "\n\n", "\n\n\n  ", "\t", "\r\n", "\n    "));
}

static void gen(Gen *g, const char *token) {
  char last = g->out->len ? g->out->at[g->out->len - 1] : '\n';
  bool tight = strchr("([", last) || strchr(")],:", token[0]);
  if (!tight || one_in(g, 8)) gap(g);
  text_add(g->out, token);
}

static void new_line(Gen *g) {
  if (g->comments && one_in(g, 12)) {
    text_add(g->out, " ");
    comment(g);
  }
  text_add(g->out, one_in(g, 6) ? "\n\n" : "\n");
  while (g->comments && one_in(g, 8)) comment(g);
}

static const char *plain_name(Gen *g) {
  return PICK(g, "x", "y", "hidden", "weight", "model", "train", "final", "param", "buffer",
              "update", "let", "field", "split", "target", "a_rather_long_name_for_a_value", "B",
              "T", "_", "loss", "std", "metric", "forward", "sweep");
}
static const char *identifier(Gen *g) {
  return PICK(g, "f", "Linear", "Block", "net", "digits", "int", "float", "relu", "cross_entropy");
}
static const char *word(Gen *g) {
  return one_in(g, 20) ? PICK(g, "conv{i}", "weight_ih_l{k}_reverse") : plain_name(g);
}
static const char *member_name(Gen *g) { /* words of statements on paths are names, too */
  return one_in(g, 8) ? PICK(g, "tie", "init", "freeze", "load", "eval", "group") : plain_name(g);
}
static const char *quoted(Gen *g) {
  return PICK(g, "\"\"", "\"a.csv\"", "\"a\\tb\\n\\\"c\\\\\"", "\"\xc3\xa4 { # [\"", "\"cosine\"",
              "\"no\"", "\"a text of some length that makes lines long\"");
}

/* ---------- expressions ---------- */
static void expr(Gen *g, int depth);
static void or_expr(Gen *g, int depth);

static void literal(Gen *g) {
  switch (below(g, 4)) {
  case 0:
    gen(g, PICK(g, "0", "7", "1_000", "0xff", "0XA_0", "123456789"));
    break;
  case 1:
    gen(g, PICK(g, "0.5", "1E-5", "1e+05", "2.50E+3", "3e8", "1_0.0_1"));
    break;
  case 2:
    gen(g, quoted(g));
    break;
  default:
    gen(g, PICK(g, "true", "True", "false", "False", "none", "None"));
    break;
  }
}

/* items, perhaps with a comma behind the last one */
static void comma_list(Gen *g, int least, int depth, void (*item)(Gen *g, int depth), bool comma) {
  int n = least + below(g, one_in(g, 6) ? 9 : 3);
  for (int i = 0; i < n; i++) {
    if (i) gen(g, ",");
    item(g, depth);
  }
  if (comma && n && one_in(g, 6)) gen(g, ",");
}

static void args(Gen *g, int depth) {
  int n = below(g, 4), named = below(g, n + 1);
  gen(g, "(");
  for (int i = 0; i < n; i++) {
    if (i) gen(g, ",");
    if (i >= named) {
      gen(g, member_name(g));
      gen(g, "=");
    }
    expr(g, depth - 1);
  }
  if (n && one_in(g, 6)) gen(g, ",");
  gen(g, ")");
}

static void subscript(Gen *g, int depth) {
  int kind = below(g, 5);
  if (kind == 0) {
    gen(g, "...");
  } else if (kind == 1) {
    expr(g, depth - 1);
  } else {
    if (one_in(g, 2)) expr(g, depth - 1);
    gen(g, ":");
    if (kind == 2) gen(g, PICK(g, "80%", "12.5%"));
    if (kind == 3) expr(g, depth - 1);
    if (kind == 4) {
      gen(g, ":");
      if (one_in(g, 2)) expr(g, depth - 1);
    }
  }
}

static void loop(Gen *g, int depth) {
  gen(g, "for");
  gen(g, word(g));
  if (one_in(g, 4)) {
    gen(g, ",");
    gen(g, word(g));
  }
  gen(g, "in");
  expr(g, depth - 1);
  if (one_in(g, 4)) {
    gen(g, ",");
    expr(g, depth - 1);
  }
}

static void map_item(Gen *g, int depth) {
  if (one_in(g, 3)) {
    gen(g, PICK(g, "\"min_lr_rate\"", "\"with blank\"", "\"in\"", "\"group\"", "\"1st\""));
    gen(g, ":");
  } else {
    gen(g, member_name(g));
    gen(g, "=");
  }
  expr(g, depth - 1);
}

static void item_expr(Gen *g, int depth) {
  expr(g, depth - 1);
}

static void bracket(Gen *g, int depth) {
  switch (below(g, 5)) {
  case 0:
    gen(g, "[");
    comma_list(g, 0, depth, item_expr, true);
    gen(g, "]");
    break;
  case 1:
    gen(g, "(");
    comma_list(g, 2, depth, item_expr, true);
    gen(g, ")");
    break;
  case 2:
    gen(g, "[");
    expr(g, depth - 1);
    for (int n = 1 + below(g, 2); n; n--) loop(g, depth - 1);
    gen(g, "]");
    break;
  case 3:
    gen(g, "{");
    if (!one_in(g, 4)) comma_list(g, 1, depth, map_item, true);
    gen(g, "}");
    break;
  default:
    gen(g, "(");
    expr(g, depth - 1);
    gen(g, ")");
    break;
  }
}

static void post_expr(Gen *g, int depth) {
  if (depth <= 0)
    one_in(g, 2) ? literal(g) : gen(g, word(g));
  else if (one_in(g, 3))
    bracket(g, depth);
  else
    one_in(g, 4) ? literal(g) : gen(g, word(g));
  for (int n = depth > 0 ? below(g, 3) : 0; n; n--) {
    int kind = below(g, 3);
    if (kind == 0) {
      gen(g, ".");
      gen(g, member_name(g));
    } else if (kind == 1) {
      args(g, depth - 1);
    } else {
      gen(g, "[");
      comma_list(g, 1, depth - 1, subscript, false);
      gen(g, "]");
    }
  }
}

static void unary_expr(Gen *g, int depth) {
  if (one_in(g, 8)) gen(g, "-");
  post_expr(g, depth);
  if (!one_in(g, 12)) return;
  gen(g, "**");
  unary_expr(g, depth - 1);
}

static void mul_expr(Gen *g, int depth) {
  unary_expr(g, depth);
  for (int n = depth > 0 ? below(g, 3) : 0; n; n--) {
    gen(g, PICK(g, "*", "/", "//", " %", "@ "));
    unary_expr(g, depth - 1);
  }
}

static void add_expr(Gen *g, int depth) {
  mul_expr(g, depth);
  for (int n = depth > 0 && one_in(g, 2) ? below(g, 5) : 0; n; n--) {
    gen(g, PICK(g, "+", "-"));
    mul_expr(g, depth - 1);
  }
}

static void and_expr(Gen *g, int depth) {
  if (one_in(g, 10)) gen(g, "not");
  add_expr(g, depth);
  if (one_in(g, 8)) {
    gen(g, PICK(g, "<", ">", "<=", ">=", "==", "!=", ".."));
    add_expr(g, depth - 1);
  }
  if (depth <= 0 || !one_in(g, 10)) return;
  gen(g, "and");
  and_expr(g, depth - 1);
}

static void or_expr(Gen *g, int depth) {
  and_expr(g, depth);
  if (depth <= 0 || !one_in(g, 10)) return;
  gen(g, "or");
  and_expr(g, depth - 1);
}

static void expr(Gen *g, int depth) {
  if (depth <= 0 || !one_in(g, 10)) {
    or_expr(g, depth);
    return;
  }
  gen(g, "if");
  or_expr(g, depth - 1);
  gen(g, "then");
  expr(g, depth - 1);
  gen(g, "else");
  expr(g, depth - 1);
}

static void top_expr(Gen *g) {
  expr(g, one_in(g, 8) ? 4 : below(g, 4));
}

/* ---------- types, formals, paths ---------- */
static void dim(Gen *g, int depth) {
  if (one_in(g, 5))
    gen(g, "...");
  else
    expr(g, depth - 1);
}

static void type(Gen *g, int depth) {
  int kind = below(g, depth > 0 ? 6 : 5);
  if (kind < 3) {
    if (kind == 0) gen(g, identifier(g));
    gen(g, "[");
    if (!one_in(g, 5)) comma_list(g, 1, 1, dim, false);
    gen(g, "]");
  } else if (kind == 3) {
    gen(g, PICK(g, "int", "float", "text", "module", "optimizer"));
  } else if (kind == 4) {
    gen(g, "ints");
    args(g, 1);
  } else {
    gen(g, "(");
    comma_list(g, 2, depth - 1, type, false);
    gen(g, ")");
  }
}

static void formal(Gen *g, int depth) {
  gen(g, plain_name(g));
  gen(g, ":");
  type(g, 1);
  if (one_in(g, 2)) return;
  gen(g, "=");
  expr(g, depth);
}

static void formals(Gen *g) {
  gen(g, "(");
  comma_list(g, 0, 1, formal, true);
  gen(g, ")");
}

static void result(Gen *g) {
  if (one_in(g, 2)) return;
  gen(g, "->");
  type(g, 1);
}

static void path(Gen *g, int depth) {
  gen(g, plain_name(g));
  for (int n = below(g, 4); n; n--) {
    if (one_in(g, 3)) {
      gen(g, "[");
      subscript(g, depth);
      gen(g, "]");
    } else {
      gen(g, ".");
      gen(g, member_name(g));
    }
  }
}

static void where(Gen *g) {
  if (!one_in(g, 3)) comma_list(g, 1, 1, path, false);
  if (!one_in(g, 3)) return;
  gen(g, "except");
  comma_list(g, 1, 1, path, false);
}

/* ---------- statements ---------- */
static void require(Gen *g) {
  gen(g, "require");
  top_expr(g);
  if (one_in(g, 2)) return;
  gen(g, ",");
  gen(g, quoted(g));
}

static void assign(Gen *g) {
  gen(g, word(g));
  if (one_in(g, 6)) {
    gen(g, ",");
    gen(g, word(g));
  }
  gen(g, "=");
}

static void stmts(Gen *g, int depth, int least, bool metrics);

static void braces(Gen *g, int depth, const char *end) {
  gen(g, "{");
  new_line(g);
  stmts(g, depth, end ? 0 : 1, false);
  if (end) {
    gen(g, end);
    comma_list(g, 1, 2, item_expr, false);
    new_line(g);
  }
  gen(g, "}");
}

static void stmt(Gen *g, int depth, bool metrics) {
  int kind = below(g, depth > 0 ? 7 : 4);
  if (kind < 3) {
    if (metrics && one_in(g, 3)) {
      gen(g, one_in(g, 3) ? "output" : "metric");
      gen(g, member_name(g));
      gen(g, "=");
    } else {
      assign(g);
    }
    top_expr(g);
  } else if (kind == 3) {
    require(g);
  } else if (kind == 4) {
    assign(g);
    loop(g, 1);
    braces(g, depth - 1, "yield");
  } else if (kind == 5) {
    loop(g, 1);
    braces(g, depth - 1, NULL);
  } else {
    gen(g, "if");
    top_expr(g);
    braces(g, depth - 1, NULL);
    if (one_in(g, 2)) return;
    gen(g, "else");
    braces(g, depth - 1, NULL);
  }
}

static void stmts(Gen *g, int depth, int least, bool metrics) {
  for (int n = least + below(g, 3); n; n--) {
    stmt(g, depth, metrics);
    new_line(g);
  }
}

/* ---------- members ---------- */
static void members(Gen *g, int depth, bool optimizer);

static void kernel(Gen *g) {
  text_add(g->out, "\n@kernel(\"k\")");
}

static void step(Gen *g, bool optimizer) {
  if (one_in(g, 3)) kernel(g);
  gen(g, optimizer ? "update" : "forward");
  formals(g);
  if (!optimizer) result(g);
  braces(g, 1, optimizer ? NULL : "return");
}

static void member_if(Gen *g, int depth, bool optimizer) {
  gen(g, "if");
  expr(g, 2);
  members(g, depth - 1, optimizer);
  if (one_in(g, 2)) return;
  gen(g, "else");
  members(g, depth - 1, optimizer);
}

static void member(Gen *g, int depth, bool optimizer) {
  switch (below(g, depth > 0 ? 8 : 6)) {
  case 0:
  case 1:
    gen(g, word(g));
    gen(g, "=");
    top_expr(g);
    break;
  case 2:
    gen(g, word(g));
    gen(g, ":");
    gen(g, one_in(g, 2) ? "param" : "buffer");
    type(g, 0);
    gen(g, "=");
    top_expr(g);
    break;
  case 3:
    gen(g, "tie");
    path(g, 1);
    gen(g, "=");
    path(g, 1);
    break;
  case 4:
    gen(g, "init");
    path(g, 1);
    gen(g, "=");
    top_expr(g);
    break;
  case 5:
    require(g);
    break;
  case 6:
    loop(g, 1);
    members(g, depth - 1, optimizer);
    break;
  default:
    member_if(g, depth, optimizer);
    break;
  }
}

static void members(Gen *g, int depth, bool optimizer) {
  gen(g, "{");
  for (int n = below(g, 4); n; n--) {
    new_line(g);
    member(g, depth, optimizer);
  }
  if (depth == 2) {
    new_line(g);
    step(g, optimizer);
  }
  new_line(g);
  gen(g, "}");
}

/* ---------- blocks of a job ---------- */
static void setting_value(Gen *g) {
  if (one_in(g, 2))
    gen(g, PICK(g, "cosine", "\"cosine\"", "\"sgd\"", "\"steps\"", "\"none\"", "None", "True",
                "2E-5"));
  else
    top_expr(g);
}

static void settings(Gen *g, bool axes) {
  bool one_line = one_in(g, 3);
  gen(g, "{");
  for (int n = (axes ? 1 : 0) + below(g, 4); n; n--) {
    one_line ? (void)0 : new_line(g);
    if (!axes && one_in(g, 6)) gen(g, "final");
    gen(g, PICK(g, "optim", "lr_scheduler_type", "eval_strategy", "learning_rate", "seed", "init",
                "train", "report_to"));
    gen(g, axes ? "in" : "=");
    setting_value(g);
    if (one_in(g, 3)) gen(g, ",");
  }
  if (!one_line) new_line(g);
  gen(g, "}");
}

static void data_item(Gen *g) {
  int kind = below(g, 4);
  if (kind == 0) {
    gen(g, "field");
    gen(g, member_name(g));
    gen(g, ":");
    type(g, 0);
    if (one_in(g, 2)) {
      gen(g, "in");
      gen(g, "0..10");
    }
    if (!one_in(g, 3)) return;
    gen(g, "as");
    gen(g, quoted(g));
  } else if (kind == 1) {
    gen(g, "transform");
    if (one_in(g, 2)) gen(g, member_name(g));
    gen(g, "{");
    for (int n = 1 + below(g, 2); n; n--) {
      new_line(g);
      assign(g);
      top_expr(g);
    }
    gen(g, "}");
  } else {
    gen(g, kind == 2 ? "let" : "split");
    gen(g, kind == 2 ? word(g) : plain_name(g));
    gen(g, "=");
    top_expr(g);
  }
}

static void model_item(Gen *g, int depth) {
  switch (below(g, depth > 0 ? 6 : 5)) {
  case 0:
    gen(g, "load");
    if (one_in(g, 2)) {
      path(g, 1);
      gen(g, "=");
    }
    gen(g, quoted(g));
    if (one_in(g, 2)) return;
    gen(g, "except");
    comma_list(g, 1, 1, path, false);
    break;
  case 1:
    gen(g, one_in(g, 2) ? "freeze" : "eval");
    where(g);
    break;
  case 2:
    gen(g, "group");
    where(g);
    settings(g, false);
    break;
  case 3:
    gen(g, "tie");
    path(g, 1);
    gen(g, "=");
    path(g, 1);
    break;
  case 4:
    gen(g, "init");
    path(g, 1);
    gen(g, "=");
    top_expr(g);
    break;
  default:
    loop(g, 1);
    gen(g, "{");
    for (int n = below(g, 3); n; n--) {
      new_line(g);
      model_item(g, depth - 1);
    }
    new_line(g);
    gen(g, "}");
    break;
  }
}

static void model(Gen *g) {
  gen(g, "model");
  gen(g, plain_name(g));
  gen(g, "=");
  top_expr(g);
  if (one_in(g, 3)) return;
  gen(g, "{");
  for (int n = below(g, 4); n; n--) {
    new_line(g);
    model_item(g, 1);
  }
  new_line(g);
  gen(g, "}");
}

static void dataset(Gen *g) {
  gen(g, "dataset");
  gen(g, member_name(g));
  gen(g, "{");
  for (int n = below(g, 5); n; n--) {
    new_line(g);
    data_item(g);
  }
  new_line(g);
  gen(g, "}");
}

/* ---------- declarations ---------- */
static void definition(Gen *g) {
  int kind = below(g, 4);
  if (kind == 3 || (kind < 2 && one_in(g, 4))) kernel(g);
  gen(g, kind < 2 ? "def" : kind == 2 ? "module" : "optimizer");
  gen(g, identifier(g));
  formals(g);
  if (kind >= 2) {
    members(g, 2, kind == 3);
    return;
  }
  result(g);
  if (kind == 1) {
    braces(g, 2, "return");
  } else {
    gen(g, "=");
    top_expr(g);
  }
}

static void constant(Gen *g, bool param) {
  gen(g, param ? "param" : "const");
  gen(g, plain_name(g));
  if (param) {
    gen(g, ":");
    type(g, 0);
  }
  gen(g, "=");
  top_expr(g);
}

static void import(Gen *g) {
  gen(g, "import");
  if (one_in(g, 4)) gen(g, "c");
  gen(g, quoted(g));
  gen(g, "as");
  gen(g, identifier(g));
}

static void settings_block(Gen *g) {
  int kind = below(g, 4);
  gen(g, pick(g, (const char *const[]){kind == 0   ? "train"
                                       : kind == 1 ? "runtime"
                                       : kind == 2 ? "target"
                                                   : "sweep",
                                       NULL}));
  if (kind == 0 && one_in(g, 3)) {
    gen(g, "extends");
    gen(g, plain_name(g));
    gen(g, ".");
    gen(g, member_name(g));
  }
  if (kind == 2) gen(g, member_name(g));
  settings(g, kind == 3);
}

static void declaration(Gen *g) {
  switch (below(g, 9)) {
  case 0:
    import(g);
    break;
  case 1:
  case 2:
    constant(g, one_in(g, 2));
    break;
  case 3:
  case 4:
    definition(g);
    break;
  case 5:
    dataset(g);
    break;
  case 6:
    model(g);
    break;
  case 7:
    gen(g, "objective");
    gen(g, "{");
    stmts(g, 2, 1, true);
    gen(g, "}");
    break;
  default:
    settings_block(g);
    break;
  }
}

void generate_text(Text *out, uint64_t seed) {
  Gen g = {.out = out, .state = seed};
  g.wildness = below(&g, 4);
  g.comments = !one_in(&g, 4);
  if (g.comments && one_in(&g, 6)) comment(&g);
  text_add(out, "edition");
  gap(&g);
  text_add(out, "1");
  for (int n = below(&g, 7); n; n--) {
    new_line(&g);
    declaration(&g);
  }
  new_line(&g);
}
