/* In: a port that is taken. Out: by which process, as far as /proc shows it to this user. */
#include "net.h"
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Inode of a socket that listens on the port, 0: none is listed. */
static unsigned long listener_inode(const char *table, int port) {
  char line[512];
  unsigned long found = 0;
  FILE *f = fopen(table, "re");
  while (f && !found && fgets(line, sizeof line, f)) {
    unsigned at, state;
    unsigned long inode;
    if (sscanf(line, " %*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*s %*s %lu", &at,
               &state, &inode) == 3 &&
        (int)at == port && state == 0x0A)
      found = inode;
  }
  if (f) fclose(f);
  return found;
}

static bool holds(const char *pid, const char *target) {
  char folder[300], path[600], link[64];
  snprintf(folder, sizeof folder, "/proc/%s/fd", pid);
  DIR *d = opendir(folder);
  struct dirent *e;
  bool found = false;
  while (d && !found && (e = readdir(d))) {
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    ssize_t n = readlink(path, link, sizeof link - 1);
    if (n <= 0) continue;
    link[n] = 0;
    found = strcmp(link, target) == 0;
  }
  if (d) closedir(d);
  return found;
}

static void name_of_process(const char *pid, char *out, size_t size) {
  char path[300];
  snprintf(path, sizeof path, "/proc/%s/comm", pid);
  FILE *f = fopen(path, "re");
  out[0] = 0;
  if (f && !fgets(out, (int)size, f)) out[0] = 0;
  if (f) fclose(f);
  out[strcspn(out, "\n")] = 0;
}

bool ddp_net_port_owner(int port, char *out, size_t size) {
  unsigned long inode = listener_inode("/proc/net/tcp", port);
  if (!inode) inode = listener_inode("/proc/net/tcp6", port);
  if (!inode) return false;
  char target[64], name[64];
  snprintf(target, sizeof target, "socket:[%lu]", inode);
  DIR *d = opendir("/proc");
  struct dirent *e;
  bool found = false;
  while (d && !found && (e = readdir(d))) {
    if (!isdigit((unsigned char)e->d_name[0]) || !holds(e->d_name, target)) continue;
    name_of_process(e->d_name, name, sizeof name);
    snprintf(out, size, "%s, pid %s", name, e->d_name);
    found = true;
  }
  if (d) closedir(d);
  return found;
}
