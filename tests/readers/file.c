/* Input of a fuzz target as a file that exists in memory only. */
#include "fuzz.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static int fd = -1;

const char *fuzz_file(const uint8_t *data, size_t n) {
  static char path[40];
  fd = memfd_create("fuzz", MFD_CLOEXEC);
  if (fd < 0 || write(fd, data, n) != (ssize_t)n) abort();
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return path;
}

void fuzz_file_close(void) {
  close(fd);
  fd = -1;
}
