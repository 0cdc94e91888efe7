/* Unit tests of the parser for what no case file can hold: bytes, limits, places, comments,
   spellings, single expressions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "diag.h"
#include "parse.h"
#include "print.h"
#include "text.h"
#include <stdlib.h>
#include <string.h>

static Arena *arena;

static AstFile *parse_n(const char *text, size_t n) {
  return parse_source(arena, source_add("t.ddp", text, n));
}
static AstFile *parse(const char *text) {
  return parse_n(text, strlen(text));
}

/* The printed diagnostics hold this text; they are forgotten afterwards. */
static void assert_reported(const char *part) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  diag_flush(out, false);
  fclose(out);
  if (part ? !strstr(text, part) : size > 0)
    fail_msg("wanted: %s\nhave: %s", part ? part : "nothing", text);
  free(text);
}

static int setup(void **state) {
  (void)state;
  arena = arena_new();
  return 0;
}
static int teardown(void **state) {
  (void)state;
  arena_free(arena);
  return 0;
}

static void empty_text(void **state) {
  (void)state;
  assert_false(parse("")->ok);
  assert_reported("E0202");
  assert_false(parse("# only a comment\n")->ok);
  assert_reported("E0202");
  assert_false(parse("edition 1_0")->ok);
  assert_reported("unknown edition 10");
  AstFile *f = parse("edition 1");
  assert_true(f->ok);
  assert_int_equal(f->edition, 1);
  assert_int_equal(f->decls.len, 0);
  assert_reported(NULL);
}

static void bytes(void **state) {
  (void)state;
  assert_false(parse("edition 1\n# \xff\xfe\n")->ok);
  assert_reported("t.ddp:2:3: error[E0104]: byte 0xff");
  assert_false(parse("edition 1\nconst a = \"\xc0\xaf\"\n")->ok);
  assert_reported("E0104");
  assert_false(parse("edition 1\nconst a = \"\xed\xa0\x80\"\n")->ok); /* a surrogate */
  assert_reported("E0104");
  assert_false(parse("\xef\xbb\xbf" /* a byte order mark is no column */
                     "edition 1 ~\n")
                   ->ok);
  assert_reported("t.ddp:1:11: error");
  assert_true(
      parse("edition 1\nconst a = \"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\" # \xc3\xa4\n")->ok);
  assert_reported(NULL);
  assert_false(parse_n("edition 1\nconst a = \"x\0y\"\n", 26)->ok);
  assert_reported("E0109");
  assert_false(parse_n("edition 1\n\0", 11)->ok);
  assert_reported("control character 0x00");
  assert_true(parse("edition 1\r\nconst a = 1\r\n")->ok);
  assert_reported(NULL);
}

static void limits(void **state) {
  (void)state;
  size_t n = (16u << 20) + 1;
  char *large = malloc(n);
  memset(large, ' ', n);
  memcpy(large, "edition 1\n", 10);
  assert_false(parse_n(large, n)->ok);
  assert_reported("E0110");
  assert_true(parse_n(large, n - 1)->ok);
  assert_reported(NULL);
  free(large);
}

static Text repeated(const char *head, const char *part, int n, const char *tail) {
  Text t = {0};
  text_add(&t, head);
  for (int i = 0; i < n; i++) text_add(&t, part);
  text_add(&t, tail);
  return t;
}

static void depth(void **state) {
  (void)state;
  static const struct {
    const char *head, *part, *tail;
    int n;
    bool ok;
  } cases[] = {
      {"edition 1\nconst a = ", "-", "1\n", 900, true},
      {"edition 1\nconst a = ", "-", "1\n", 1100, false},
      {"edition 1\nconst a = ", "not ", "1\n", 100000, false},
      {"edition 1\nconst a = ", "(", "1\n", 300, false},
      {"edition 1\nconst a = ", "[", "1\n", 100000, false},
      {"edition 1\nconst a = 1", " + 1", "\n", 900, true},
      {"edition 1\nconst a = 1", " + 1", "\n", 100000, false},
      {"edition 1\nconst a = x", ".x", "\n", 100000, false},
      {"edition 1\nconst a = x", "()", "\n", 100000, false},
      {"edition 1\nconst a = 2", " ** 2", "\n", 100000, false},
      {"edition 1\nconst a = ", "if x then 1 else ", "1\n", 100000, false},
      {"edition 1\nconst a = [1", ", 1", "]\n", 100000, true},
      {"edition 1\n", "train { }\n", "", 1000, true},
      {"edition 1\nmodel m = x { freeze a", ".a", "}\n", 100000, true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Text t = repeated(cases[i].head, cases[i].part, cases[i].n, cases[i].tail);
    bool ok = parse_n(t.at, t.len)->ok;
    if (ok != cases[i].ok) fail_msg("%s%s... x %d", cases[i].head, cases[i].part, cases[i].n);
    assert_reported(ok ? NULL : "E0");
    text_free(&t);
  }
}

static void reports_end(void **state) {
  (void)state;
  Text t = repeated("edition 1\n", "$\n", 5000, "");
  unsigned before = diag_errors();
  assert_false(parse_n(t.at, t.len)->ok);
  assert_true(diag_errors() - before <= 100);
  assert_reported("E0101");
  text_free(&t);
}

static void places_and_spellings(void **state) {
  (void)state;
  const char *text = "edition 1\nconst a = (1_000 + 2e-3) * x\n";
  AstFile *f = parse(text);
  const Expr *e = f->decls.at[0]->value;
  assert_int_equal(e->span.begin, 20);
  assert_int_equal(e->span.end, strlen(text) - 1);
  const Expr *sum = e->as.binary.left;
  assert_int_equal(sum->parens, 1);
  assert_memory_equal(text + sum->span.begin, "(1_000 + 2e-3)", sum->span.end - sum->span.begin);
  assert_string_equal(sum->as.binary.left->literal, "1_000");
  assert_int_equal(sum->as.binary.left->as.i, 1000);
  assert_string_equal(sum->as.binary.right->literal, "2e-3");
  assert_int_equal(e->depth, 3);
  assert_reported(NULL);
}

static void comments(void **state) {
  (void)state;
  const char *text = "# first\nedition 1 # second\r\n\n  # third \nconst a = \"# none\"";
  AstFile *f = parse(text);
  assert_true(f->ok);
  assert_int_equal(f->comments.len, 3);
  assert_false(f->comments.at[0].trailing);
  assert_true(f->comments.at[1].trailing);
  assert_false(f->comments.at[2].trailing);
  Span s = f->comments.at[1].span;
  assert_int_equal(s.end - s.begin, 8);
  assert_memory_equal(text + s.begin, "# second", 8);
}

static void indexed_names(void **state) {
  (void)state;
  AstFile *f = parse("edition 1\nmodule M() { w_{k}_r = 1 init a.w_{k}_r = 2 }\n");
  assert_true(f->ok);
  const Member *m = f->decls.at[0]->members.at[0];
  assert_string_equal(m->name.text, "w_");
  assert_string_equal(m->name.index, "k");
  assert_string_equal(m->name.suffix, "_r");
  const PathStep *step = &f->decls.at[0]->members.at[1]->left.steps.at[1];
  assert_string_equal(step->name, "w_");
  assert_string_equal(step->index, "k");
}

static void error_nodes(void **state) {
  (void)state;
  AstFile *f =
      parse("edition 1\nconst a = 1 1\nmodule M() {\n  a = = 1\n  b = 2\n}\nconst c = 3\n");
  assert_false(f->ok);
  assert_int_equal(f->decls.len, 3);
  assert_int_equal(f->decls.at[0]->kind, DECL_error);
  const Decl *m = f->decls.at[1];
  assert_int_equal(m->members.len, 2);
  assert_int_equal(m->members.at[0]->kind, MEMBER_error);
  assert_int_equal(m->members.at[1]->kind, MEMBER_assign);
  assert_reported("E0201");
}

static Expr *expression(const char *text) {
  return parse_expression(arena, source_add("-D", text, strlen(text)));
}

static void expressions(void **state) {
  (void)state;
  Text t = {0};
  ast_print_expr(&t, expression("g * -x1 ** 2 @ y[0, 1:]"));
  assert_string_equal(t.at, "(@ (* g (neg (** x1 2))) (index y 0 (: 1 _)))");
  text_free(&t);
  assert_int_equal(expression("none")->kind, EXPR_none);
  assert_reported(NULL);
  assert_null(expression(""));
  assert_reported("E0201");
  assert_null(expression("1 2"));
  assert_reported("E0201");
  assert_null(expression("edition 1"));
  assert_reported("E0202");
  assert_null(expression("(1"));
  assert_reported("E0204");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(empty_text, setup, teardown),
      cmocka_unit_test_setup_teardown(bytes, setup, teardown),
      cmocka_unit_test_setup_teardown(limits, setup, teardown),
      cmocka_unit_test_setup_teardown(depth, setup, teardown),
      cmocka_unit_test_setup_teardown(reports_end, setup, teardown),
      cmocka_unit_test_setup_teardown(places_and_spellings, setup, teardown),
      cmocka_unit_test_setup_teardown(comments, setup, teardown),
      cmocka_unit_test_setup_teardown(indexed_names, setup, teardown),
      cmocka_unit_test_setup_teardown(error_nodes, setup, teardown),
      cmocka_unit_test_setup_teardown(expressions, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
