/* Who speaks how much: log_level, log_level_replica, log_on_each_node and DDP_LOG. */
#include "check.h"
#include "log.h"
#include "speak.h"

static const DdpJob job = {.n_settings = 0};

/* The level of a rank with these flags (NULL: none) and DDP_LOG (NULL: unset). */
static DdpLogLevel level(int rank, int local_rank, const char *environment, const char *one,
                         const char *two) {
  DdpConfig c;
  DdpLaunch launch = {.rank = rank, .world = 4, .local_rank = local_rank, .local_world = 2};
  char *argv[] = {(char *)(uintptr_t) "train", (char *)(uintptr_t)one, (char *)(uintptr_t)two};
  int argc = one ? two ? 3 : 2 : 1;
  if (environment)
    setenv("DDP_LOG", environment, 1);
  else
    unsetenv("DDP_LOG");
  ddp_log_set_level(DDP_LOG_info); /* what an unset DDP_LOG means */
  if (environment && !strcmp(environment, "debug")) ddp_log_set_level(DDP_LOG_debug);
  CHECK_OK(ddp_config_read(&c, &job, argc, argv));
  run_speak(&c, &launch);
  ddp_config_free(&c);
  return ddp_log_level();
}

static void levels(void **state) {
  (void)state;
  const char *each = "--log_on_each_node=false";
  assert_int_equal(level(0, 0, NULL, NULL, NULL), DDP_LOG_info);
  assert_int_equal(level(1, 1, NULL, NULL, NULL), DDP_LOG_warning);
  assert_int_equal(level(2, 0, NULL, NULL, NULL), DDP_LOG_info); /* first of its host */
  assert_int_equal(level(2, 0, NULL, each, NULL), DDP_LOG_warning);
  assert_int_equal(level(0, 0, NULL, each, NULL), DDP_LOG_info);
  assert_int_equal(level(2, 0, NULL, each, "--log_level=debug"), DDP_LOG_warning);
  assert_int_equal(level(0, 0, NULL, "--log_level=error", NULL), DDP_LOG_error);
  assert_int_equal(level(1, 1, NULL, "--log_level=error", NULL), DDP_LOG_warning);
  assert_int_equal(level(1, 1, NULL, "--log_level_replica=info", NULL), DDP_LOG_info);
  assert_int_equal(level(1, 1, NULL, "--log_level_replica=passive", NULL), DDP_LOG_info);
  assert_int_equal(level(0, 0, NULL, "--log_level=detail", NULL), DDP_LOG_debug);
  assert_int_equal(level(0, 0, NULL, "--log_level=critical", NULL), DDP_LOG_error);
}

/* DDP_LOG is for all ranks; a level that was asked for wins over it. */
static void environment(void **state) {
  (void)state;
  assert_int_equal(level(0, 0, "debug", NULL, NULL), DDP_LOG_debug);
  assert_int_equal(level(1, 1, "debug", NULL, NULL), DDP_LOG_debug);
  assert_int_equal(level(0, 0, "debug", "--log_level=warning", NULL), DDP_LOG_warning);
  assert_int_equal(level(1, 1, "debug", "--log_level=warning", NULL), DDP_LOG_debug);
  assert_int_equal(level(1, 1, "debug", "--log_level_replica=error", NULL), DDP_LOG_error);
  assert_int_equal(level(1, 1, "", NULL, NULL), DDP_LOG_warning); /* empty: unset */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(levels), cmocka_unit_test(environment)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
