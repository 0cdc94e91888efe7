/* In: this process, two program texts. Out: what tells hosts apart, and what differs between
   programs. Ranks share a host when kernel, host name and the namespaces that matter are the same;
   LOCAL_RANK does not say so (containers, --virtual-local-rank). */
#include "rendezvous.h"
#include "comm.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static unsigned long namespace_of(const char *kind) {
  char path[64];
  struct stat s;
  snprintf(path, sizeof path, "/proc/self/ns/%s", kind);
  return stat(path, &s) ? 0 : (unsigned long)s.st_ino;
}

void ddp_host_identity(DdpPeer *out) {
  char boot[40] = "";
  FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
  if (f) {
    if (!fgets(boot, sizeof boot, f)) boot[0] = 0;
    fclose(f);
  }
  boot[strcspn(boot, "\n")] = 0;
  if (gethostname(out->host_name, sizeof out->host_name)) out->host_name[0] = 0;
  out->host_name[sizeof out->host_name - 1] = 0;
  snprintf(out->host_id, sizeof out->host_id, "%s %s net:%lu ipc:%lu uid:%u", boot, out->host_name,
           namespace_of("net"), namespace_of("ipc"), (unsigned)getuid());
  out->pid = (int)getpid();
  const char *why;
  size_t n = strlen(out->host_id); /* without shared memory every rank is a host of its own */
  if (!ddp_backend_shm.probe(&why))
    snprintf(out->host_id + n, sizeof out->host_id - n, " pid:%d", out->pid);
}

static const char *line_with_key(const char *text, const char *key, size_t n) {
  for (const char *p = text; p && *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL) {
    if (strncmp(p, key, n) == 0 && p[n] == '=') return p;
  }
  return NULL;
}

static int value_of(const char *line, size_t key, const char **value) {
  *value = line + key + 1;
  return (int)strcspn(*value, "\n");
}

void ddp_program_difference(const char *text, int rank, const char *text0, char *out, size_t size) {
  for (const char *p = text0; p && *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL) {
    size_t key = strcspn(p, "=\n");
    if (p[key] != '=') continue;
    const char *other = line_with_key(text, p, key), *v, *v0;
    int n0 = value_of(p, key, &v0);
    if (!other) {
      snprintf(out, size, "%.*s is missing on rank %d and %.*s on rank 0", (int)key, p, rank, n0,
               v0);
      return;
    }
    int n = value_of(other, key, &v);
    if (n == n0 && strncmp(v, v0, (size_t)n) == 0) continue;
    snprintf(out, size, "%.*s is %.*s on rank %d and %.*s on rank 0", (int)key, p, n, v, rank, n0,
             v0);
    return;
  }
  for (const char *p = text; p && *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL) {
    size_t key = strcspn(p, "=\n");
    if (p[key] != '=' || line_with_key(text0, p, key)) continue;
    const char *v;
    int n = value_of(p, key, &v);
    snprintf(out, size, "%.*s is %.*s on rank %d and missing on rank 0", (int)key, p, n, v, rank);
    return;
  }
  snprintf(out, size, "same settings, but another binary");
}
