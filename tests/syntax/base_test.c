/* Unit tests of compiler/base: arenas, names, numbers as text, places, printed diagnostics. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "arena.h"
#include "diag.h"
#include "text.h"
#include "vec.h"
#include <math.h>
#include <stdlib.h>

static void arena_gives_zeroed_aligned_memory(void **state) {
  (void)state;
  Arena *a = arena_new();
  for (size_t n = 0; n < 3000; n += 7) {
    char *p = arena_alloc(a, n);
    assert_int_equal((uintptr_t)p % 16, 0);
    for (size_t i = 0; i < n; i++) assert_int_equal(p[i], 0);
    memset(p, 0xff, n);
  }
  char *large = arena_alloc(a, 5 << 20);
  memset(large, 1, 5 << 20);
  assert_string_equal(arena_printf(a, "%s-%d", "x", 3), "x-3");
  assert_string_equal(arena_strndup(a, "abcdef", 3), "abc");
  arena_free(a);
}

static void vectors_grow(void **state) {
  (void)state;
  Arena *a = arena_new();
  VEC(int) v = {0};
  for (int i = 0; i < 1000; i++) vec_push(a, &v, i);
  assert_int_equal(v.len, 1000);
  for (int i = 0; i < 1000; i++) assert_int_equal(v.at[i], i);
  arena_free(a);
}

static void names_are_interned(void **state) {
  (void)state;
  char buffer[16];
  const char *first = text_intern("weight");
  for (int i = 0; i < 5000; i++) {
    snprintf(buffer, sizeof buffer, "name%d", i);
    text_intern(buffer);
  }
  assert_ptr_equal(first, text_intern_n("weights", 6));
  assert_ptr_not_equal(first, text_intern("weights"));
  assert_ptr_equal(text_intern(""), text_intern_n("x", 0));
}

static void distances(void **state) {
  (void)state;
  assert_int_equal(text_distance("relu", "relu"), 0);
  assert_int_equal(text_distance("relo", "relu"), 1);
  assert_int_equal(text_distance("rleu", "relu"), 1);
  assert_int_equal(text_distance("", "relu"), 4);
  assert_int_equal(text_distance("learning_rat", "learning_rate"), 1);
  TextNearest n = {.wanted = "relo"};
  text_offer(&n, "gelu");
  text_offer(&n, "relu");
  text_offer(&n, "softmax");
  assert_string_equal(n.best, "relu");
  TextNearest none = {.wanted = "x"};
  text_offer(&none, "y");
  assert_null(none.best);
}

static void check_double(double v, const char *expected) {
  Text t = {0};
  text_add_double(&t, v);
  assert_string_equal(t.at, expected);
  text_free(&t);
}

static void doubles_are_shortest(void **state) {
  (void)state;
  check_double(0.1, "0.1");
  check_double(1, "1.0");
  check_double(1e-5, "1e-05");
  check_double(1e22, "1e+22");
  check_double(-0.0, "-0.0");
  check_double(1.0 / 3, "0.3333333333333333");
  check_double((double)INFINITY, "inf");
  check_double(-(double)INFINITY, "-inf");
  check_double((double)NAN, "nan");
  srand(1);
  for (int i = 0; i < 2000; i++) {
    union {
      uint64_t bits;
      double v;
    } u = {((uint64_t)rand() << 42) ^ ((uint64_t)rand() << 21) ^ (uint64_t)rand()};
    if (!isfinite(u.v)) continue;
    Text t = {0};
    text_add_double(&t, u.v);
    assert_true(strtod(t.at, NULL) == u.v);
    text_free(&t);
  }
}

static void hash_is_xxh64(void **state) {
  (void)state;
  assert_int_equal(text_hash("", 0, 0), 0xEF46DB3751D8E999u);
  assert_int_equal(text_hash("abc", 3, 0), 0x44BC2CF5AD770999u);
}

static void places(void **state) {
  (void)state;
  const char *text = "one\r\n\xc3\xa4x\n\nlast";
  uint32_t file = source_add("p.ddp", text, strlen(text));
  Place p = source_place(file, 7); /* the x behind a character of two bytes */
  assert_int_equal(p.line, 2);
  assert_int_equal(p.column, 2);
  assert_int_equal(p.line_length, 3);
  p = source_place(file, 0);
  assert_int_equal(p.line, 1);
  assert_int_equal(p.line_length, 3);
  p = source_place(file, 1000);
  assert_int_equal(p.line, 4);
  assert_int_equal(p.column, 5);
  assert_int_equal(source_read("/does/not/exist"), 0);
}

static char *flushed(void) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  diag_flush(out, false);
  fclose(out);
  return text;
}

static void diagnostics_come_in_order(void **state) {
  (void)state;
  const char *text = "h = relo(x)\n\tbad\n";
  uint32_t file = source_add("job.ddp", text, strlen(text));
  unsigned before = diag_errors();
  diag_report(DIAG_E0201, (Span){file, 13, 16}, "second");
  diag_report(DIAG_E0301, (Span){file, 4, 8}, "unknown name `%s`", "relo");
  diag_note((Span){file, 0, 1}, "for this");
  diag_help("did you mean `%s`?", "relu");
  diag_report(DIAG_E0301, (Span){file, 4, 8}, "unknown name `relo` again");
  diag_help("dropped with its diagnostic");
  diag_report(DIAG_W0214, (Span){file, 17, 17}, "a warning");
  assert_int_equal(diag_errors() - before, 2);
  char *have = flushed();
  assert_string_equal(have, "job.ddp:1:5: error[E0301]: unknown name `relo`\n"
                            "     1 | h = relo(x)\n"
                            "       |     ^^^^\n"
                            "job.ddp:1:1: note: for this\n"
                            "     1 | h = relo(x)\n"
                            "       | ^\n"
                            "help: did you mean `relu`?\n"
                            "job.ddp:2:2: error[E0201]: second\n"
                            "     2 | \tbad\n"
                            "       | \t^^^\n"
                            "job.ddp:3:1: warning[W0214]: a warning\n"
                            "     3 | \n"
                            "       | ^\n");
  free(have);
  diag_report(DIAG_E0902, (Span){0}, "without a place");
  have = flushed();
  assert_string_equal(have, "error[E0902]: without a place\n");
  free(have);
}

static void codes_are_found(void **state) {
  (void)state;
  DiagCode code;
  assert_true(diag_find("E0716", &code));
  assert_int_equal(code, DIAG_E0716);
  assert_false(diag_find("E9999", &code));
  for (int i = 0; i < DIAG_COUNT; i++) {
    assert_true(strlen(diag_title((DiagCode)i)) > 5);
    assert_true(strlen(diag_explanation((DiagCode)i)) > 60);
    if (i > 0)
      assert_true(strcmp(diag_name((DiagCode)i) + 1, diag_name((DiagCode)(i - 1)) + 1) > 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(arena_gives_zeroed_aligned_memory),
      cmocka_unit_test(vectors_grow),
      cmocka_unit_test(names_are_interned),
      cmocka_unit_test(distances),
      cmocka_unit_test(doubles_are_shortest),
      cmocka_unit_test(hash_is_xxh64),
      cmocka_unit_test(places),
      cmocka_unit_test(diagnostics_come_in_order),
      cmocka_unit_test(codes_are_found),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
