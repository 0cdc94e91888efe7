/* The flight record: what is kept, what the sink gets, and what every rank writes when the job fails. */
#include "flight.h"
#include "run.h"
#include <jansson.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static char folder[] = "/tmp/ddp-flight-XXXXXX";

static json_t *record_read(const char *where, int rank) {
  char path[256];
  json_error_t error;
  snprintf(path, sizeof path, "%s/flight-%d.json", where, rank);
  json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
  if (!root) fail_msg("%s: %s", path, error.text);
  return root;
}

static const char *text_of(const json_t *o, const char *key) {
  return json_string_value(json_object_get(o, key));
}
static int64_t int_of(const json_t *o, const char *key) {
  return json_integer_value(json_object_get(o, key));
}
static double real_of(const json_t *o, const char *key) {
  return json_real_value(json_object_get(o, key));
}

static void collect(void *self, const DdpFlightEntry *e) {
  DdpFlightEntry **next = self;
  *(*next)++ = *e;
}

static void test_sink(void **state) {
  (void)state;
  DdpFlight *f;
  DdpFlightEntry seen[4], *next = seen;
  assert_null(ddp_flight_open(&f, NULL, 0, 2));
  ddp_flight_sink(f, collect, &next);
  uint64_t a = ddp_flight_begin(f, DDP_FLIGHT_all_reduce, "bucket 3", 4096, 7);
  uint64_t b = ddp_flight_begin(f, DDP_FLIGHT_broadcast, "buffers", 12, 7);
  assert_int_equal(a, 1);
  assert_int_equal(b, 2);
  DdpFlightEntry oldest;
  assert_true(ddp_flight_pending(f, &oldest));
  assert_string_equal(oldest.name, "bucket 3");
  assert_int_equal(oldest.update, 7);
  ddp_flight_complete(f, b);
  ddp_flight_start(f, a);
  ddp_flight_complete(f, a);
  ddp_flight_complete(f, a);
  ddp_flight_complete(f, 99);
  assert_false(ddp_flight_pending(f, &oldest));
  assert_int_equal(next - seen, 2);
  assert_string_equal(seen[0].name, "buffers");
  assert_int_equal(seen[0].bucket, -1);
  assert_int_equal(seen[1].bucket, 3);
  assert_int_equal(seen[1].bytes, 4096);
  assert_int_equal(seen[1].update, 7);
  assert_true(seen[1].scheduled > 0 && seen[1].started >= seen[1].scheduled &&
              seen[1].completed >= seen[1].started);
  ddp_flight_close(f);
}

/* A text that JSON must escape, a ring that went round, entries in every state; written once. */
static void test_file(void **state) {
  (void)state;
  char where[64];
  DdpFlight *f;
  snprintf(where, sizeof where, "%s/new", folder);
  assert_null(ddp_flight_open(&f, where, 5, 8));
  uint64_t last = 0;
  for (int i = 0; i < DDP_FLIGHT_KEPT + 10; i++) {
    last = ddp_flight_begin(f, DDP_FLIGHT_all_reduce,
                            "a \"name\"\n\\ that is longer than is kept of it", 1LL << 40, i);
    if (i < DDP_FLIGHT_KEPT + 8) ddp_flight_complete(f, last);
  }
  ddp_flight_start(f, last - 1);
  const DdpFlightPeer peer = {
      .rank = 2, .sequence = 9, .update = -1, .phase = "start", .silent = 2.5};
  const DdpFlightCause why = {.reason = "rank 2: \x01\"gone\"\nh\xc3\xb6r",
                              .code = 139,
                              .blamed = 2,
                              .update = 4,
                              .phase = "forward and backward",
                              .peers = &peer,
                              .n_peers = 1};
  assert_true(ddp_flight_write(f, &why));
  const DdpFlightCause second = {.reason = "later"};
  assert_true(ddp_flight_write(f, &second));
  json_t *r = record_read(where, 5), *list = json_object_get(r, "collectives");
  assert_string_equal(text_of(r, "reason"), why.reason);
  assert_int_equal(int_of(r, "exit_code"), 139);
  assert_int_equal(int_of(r, "blamed_rank"), 2);
  assert_int_equal(int_of(r, "update"), 4);
  assert_string_equal(text_of(r, "phase"), "forward and backward");
  assert_int_equal(int_of(r, "rank"), 5);
  assert_int_equal(int_of(r, "world"), 8);
  assert_int_equal(int_of(r, "last_sequence"), DDP_FLIGHT_KEPT + 10);
  const json_t *p = json_array_get(json_object_get(r, "ranks"), 0);
  assert_int_equal(int_of(p, "rank"), 2);
  assert_int_equal(int_of(p, "update"), -1);
  assert_true(real_of(p, "silent_seconds") > 2.4);
  assert_int_equal(json_array_size(list), DDP_FLIGHT_KEPT);
  const json_t *first = json_array_get(list, 0);
  assert_int_equal(int_of(first, "sequence"), 11);
  assert_string_equal(text_of(first, "state"), "completed");
  assert_true(real_of(first, "completed") >= real_of(first, "scheduled"));
  assert_true(real_of(r, "clock") >= real_of(first, "completed"));
  assert_string_equal(text_of(json_array_get(list, DDP_FLIGHT_KEPT - 2), "state"), "started");
  assert_string_equal(text_of(json_array_get(list, DDP_FLIGHT_KEPT - 1), "state"), "scheduled");
  assert_true(int_of(first, "bytes") == 1LL << 40);
  json_decref(r);
  ddp_flight_close(f);
}

/* A folder that cannot be written: an answer, and nothing left. */
static void test_refused(void **state) {
  (void)state;
  DdpFlight *f;
  assert_null(ddp_flight_open(&f, "/proc/nowhere", 0, 1));
  const DdpFlightCause why = {.reason = "x", .phase = "start"};
  assert_false(ddp_flight_write(f, &why));
  ddp_flight_close(f);
}

static void *writer(void *argument) {
  DdpFlight *f = argument;
  for (int i = 0; i < 20000; i++)
    ddp_flight_complete(f, ddp_flight_begin(f, DDP_FLIGHT_barrier, "turn", 0, i));
  return NULL;
}

/* The control thread writes while the training thread goes on. */
static void test_threads(void **state) {
  (void)state;
  DdpFlight *f;
  pthread_t thread;
  assert_null(ddp_flight_open(&f, folder, 0, 1));
  assert_int_equal(pthread_create(&thread, NULL, writer, f), 0);
  const DdpFlightCause why = {.reason = "hangs", .phase = "forward"};
  while (ddp_flight_last(f) < 100) {
  }
  assert_true(ddp_flight_write(f, &why));
  pthread_join(thread, NULL);
  json_decref(record_read(folder, 0));
  ddp_flight_close(f);
}

/* Rank 1 stops: the others' records show the all-reduce that it did not enter. */
static void test_stopped(void **state) {
  (void)state;
  char command[512], where[64];
  snprintf(where, sizeof where, "%s/stopped", folder);
  snprintf(command, sizeof command, "%s --nproc-per-node 3 do=loop stop=1@5 timeout=1 record=%s",
           DIST_RANK, where);
  Run r = run(command, NULL, 20);
  run_expect_code(&r, 5);
  for (int rank = 0; rank < 3; rank += 2) {
    json_t *record = record_read(where, rank), *list = json_object_get(record, "collectives");
    const json_t *last = json_array_get(list, json_array_size(list) - 1);
    assert_int_equal(int_of(record, "blamed_rank"), 1);
    assert_int_equal(int_of(record, "update"), 5);
    assert_int_equal(int_of(record, "exit_code"), 5);
    assert_true(int_of(last, "bucket") >= 0);
    assert_int_equal(int_of(last, "update"), 5);
    assert_string_not_equal(text_of(last, "state"), "completed");
    const json_t *one = json_array_get(json_object_get(record, "ranks"), rank == 0 ? 0 : 1);
    assert_int_equal(int_of(one, "rank"), 1);
    assert_true(int_of(one, "sequence") < int_of(record, "last_sequence"));
    json_decref(record);
  }
  char path[128];
  snprintf(path, sizeof path, "%s/flight-1.json", where);
  assert_int_not_equal(access(path, F_OK), 0); /* it could not */
  run_free(&r);
}

static bool there(const char *where, const char *name) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", where, name);
  return access(path, F_OK) == 0;
}

/* Of ranks that were killed while they wrote nothing stays; whole records and other people's files do. */
static void test_sweep(void **state) {
  (void)state;
  static const char *const left[] = {"flight-0.json.tmp", "flight-17.json.tmp"};
  static const char *const kept[] = {"flight-0.json", "flight-3.json", "flight-3.json.tmp2",
                                     "flight-x.json.tmp", "model.tmp"};
  char where[64], path[256];
  snprintf(where, sizeof where, "%s/sweep", folder);
  ddp_flight_sweep(where); /* no folder: nothing to do */
  assert_int_equal(mkdir(where, 0777), 0);
  for (size_t i = 0; i < 7; i++) {
    snprintf(path, sizeof path, "%s/%s", where, i < 2 ? left[i] : kept[i - 2]);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
  }
  ddp_flight_sweep(where);
  for (size_t i = 0; i < 2; i++) assert_false(there(where, left[i]));
  for (size_t i = 0; i < 5; i++) assert_true(there(where, kept[i]));
}

static int open_folder(void **state) {
  (void)state;
  return mkdtemp(folder) ? 0 : -1;
}
static int remove_folder(void **state) {
  (void)state;
  char command[64];
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sink),    cmocka_unit_test(test_file),
      cmocka_unit_test(test_refused), cmocka_unit_test(test_threads),
      cmocka_unit_test(test_stopped), cmocka_unit_test(test_sweep),
  };
  return cmocka_run_group_tests(tests, open_folder, remove_folder);
}
