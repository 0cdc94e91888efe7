/* In: the ranks of one host and a size. Out: memory that all of them see. */
#include "shm_segment.h"
#include "clock.h"
#include "net.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static char reason[128];

static void try_segment(void) {
  int fd = memfd_create("ddp", MFD_CLOEXEC);
  void *p = MAP_FAILED;
  if (fd >= 0 && ftruncate(fd, 1) == 0)
    p = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED)
    snprintf(reason, sizeof reason, "%s: %s", fd < 0 ? "memfd_create" : "mmap", strerror(errno));
  else
    munmap(p, 1);
  if (fd >= 0) close(fd);
}

const char *ddp_shm_missing(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, try_segment);
  return *reason ? reason : NULL;
}

/* Rank 0 listens under a fresh name that it publishes in the store. */
static DdpError *accept_all(DdpShmLinks *l, const DdpCommOptions *o, const char *key) {
  char name[64];
  snprintf(name, sizeof name, "ddp-shm-%016llx", (unsigned long long)ddp_net_nonce());
  int listener = ddp_net_listen_unix(name);
  if (listener < 0)
    return ddp_error(DDP_FAILED, "shared memory: cannot listen: %s", strerror(errno));
  DdpError *e = ddp_store_set(o->store, key, name, strlen(name));
  int here = 1;
  while (!e && here < l->world) {
    int fd = ddp_net_accept(listener, o->deadline);
    int32_t rank = -1;
    if (fd < 0) {
      int missing = 1;
      while (l->fds[missing] >= 0) missing++;
      e = ddp_error_rank(DDP_TIMEOUT, missing, "opening shared memory");
    } else if (ddp_net_peer_uid(fd) != (long)getuid() ||
               ddp_net_recv(fd, &rank, sizeof rank, ddp_clock() + 2) || rank < 1 ||
               rank >= l->world || l->fds[rank] >= 0) {
      close(fd);
    } else {
      l->fds[rank] = fd;
      here++;
    }
  }
  close(listener);
  return e;
}

static DdpError *join(DdpShmLinks *l, const DdpCommOptions *o, const char *key) {
  void *name;
  size_t n;
  DDP_TRY(ddp_store_get(o->store, key, o->deadline, &name, &n));
  int fd = ddp_net_dial_unix(name);
  free(name);
  int32_t rank = l->rank;
  if (fd < 0 || ddp_net_send(fd, &rank, sizeof rank, o->deadline)) {
    if (fd >= 0) close(fd);
    return ddp_error_rank(DDP_PEER, 0, "opening shared memory: %s", strerror(errno));
  }
  l->fds[0] = fd;
  return NULL;
}

DdpError *ddp_shm_connect(DdpShmLinks *l, const DdpCommOptions *o) {
  char key[256];
  snprintf(key, sizeof key, "%s/socket", o->prefix);
  *l = (DdpShmLinks){.rank = o->rank, .world = o->world, .timeout = o->timeout};
  l->fds = malloc((size_t)l->world * sizeof *l->fds);
  if (!l->fds) return ddp_error(DDP_MEMORY, "no memory for shared memory");
  for (int r = 0; r < l->world; r++) l->fds[r] = -1;
  return l->rank == 0 ? accept_all(l, o, key) : join(l, o, key);
}

void ddp_shm_disconnect(DdpShmLinks *l) {
  for (int r = 0; l->fds && r < l->world; r++) {
    if (l->fds[r] >= 0) close(l->fds[r]);
  }
  free(l->fds);
  l->fds = NULL;
}

static DdpError *share(const DdpShmLinks *l, size_t bytes, int *out) {
  int fd = memfd_create("ddp", MFD_CLOEXEC);
  if (fd < 0)
    return ddp_error(
        DDP_FAILED,
        "shared memory is not to be had (memfd_create: %s); runtime { intra_node = backend } "
        "does without",
        strerror(errno));
  if (fallocate(fd, 0, 0, (off_t)bytes) && (errno != EOPNOTSUPP || ftruncate(fd, (off_t)bytes))) {
    DdpError *e =
        ddp_error(DDP_MEMORY,
                  "no memory for %zu bytes shared by %d ranks: %s; --intra_node backend does "
                  "without shared memory",
                  bytes, l->world, strerror(errno));
    close(fd);
    return e;
  }
  for (int r = 1; r < l->world; r++) {
    if (ddp_net_send_fd(l->fds[r], fd)) {
      close(fd);
      return ddp_error_rank(DDP_PEER, r, "sharing memory: %s", strerror(errno));
    }
  }
  *out = fd;
  return NULL;
}

static DdpError *receive(const DdpShmLinks *l, size_t bytes, int *out) {
  int fd = ddp_net_recv_fd(l->fds[0], ddp_clock() + l->timeout);
  if (fd < 0) {
    bool late = errno == ETIMEDOUT;
    return ddp_error_rank(late ? DDP_TIMEOUT : DDP_PEER, 0, "sharing memory%s",
                          late ? "" : ": the first rank of this host is gone");
  }
  struct stat s;
  if (fstat(fd, &s) || (size_t)s.st_size != bytes) {
    close(fd);
    return ddp_error_rank(DDP_PEER, 0,
                          "shared memory: %zu bytes here, %lld on the first rank of this host",
                          bytes, (long long)s.st_size);
  }
  *out = fd;
  return NULL;
}

DdpError *ddp_shm_map(DdpShmLinks *l, size_t bytes, void **out) {
  int fd = -1;
  DDP_TRY(l->rank == 0 ? share(l, bytes, &fd) : receive(l, bytes, &fd));
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  int e = errno;
  close(fd);
  if (p == MAP_FAILED)
    return ddp_error(DDP_MEMORY, "cannot map %zu bytes of shared memory: %s", bytes, strerror(e));
  *out = p;
  return NULL;
}
