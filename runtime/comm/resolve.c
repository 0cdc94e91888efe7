/* In: names and numeric addresses; this host's interfaces. Out: socket addresses, numeric text.
   Holds: looking a name up ends by the deadline, whatever the name servers do. */
#include "net.h"
#include "clock.h"
#include "env.h"
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Lookup { /* on the heap: one that does not end in time stays with the C library */
  char host[256], service[16];
  struct addrinfo hints;
  struct gaicb request;
} Lookup;

static int errno_of(int rc) {
  return rc == EAI_AGAIN || rc == EAI_INPROGRESS ? EAGAIN : rc == EAI_MEMORY ? ENOMEM : ENOENT;
}

static struct addrinfo *slow_lookup(Lookup *l, double deadline) {
  struct gaicb *list[1] = {&l->request};
  l->request =
      (struct gaicb){.ar_name = l->host, .ar_service = l->service, .ar_request = &l->hints};
  if (getaddrinfo_a(GAI_NOWAIT, list, 1, NULL)) {
    free(l);
    errno = EAGAIN;
    return NULL;
  }
  int rc;
  while ((rc = gai_error(&l->request)) == EAI_INPROGRESS) {
    double left = deadline - ddp_clock();
    if (left <= 0) {
      if (gai_cancel(&l->request) == EAI_CANCELED) free(l);
      errno = EAGAIN;
      return NULL;
    }
    struct timespec t = {.tv_sec = (time_t)left,
                         .tv_nsec = (long)((left - (double)(time_t)left) * 1e9)};
    gai_suspend((const struct gaicb *const *)list, 1, &t);
  }
  struct addrinfo *result = rc == 0 ? l->request.ar_result : NULL;
  free(l);
  if (rc) errno = errno_of(rc);
  return result;
}

struct addrinfo *ddp_net_resolve(const char *host, int port, int flags, double deadline) {
  Lookup *l = calloc(1, sizeof *l);
  if (!l) return NULL;
  size_t n = strlen(host);
  if (n > 2 && host[0] == '[' && host[n - 1] == ']') host++, n -= 2; /* "[::1]" */
  if (n >= sizeof l->host) {
    free(l);
    errno = ENAMETOOLONG;
    return NULL;
  }
  memcpy(l->host, host, n);
  snprintf(l->service, sizeof l->service, "%d", port);
  l->hints = (struct addrinfo){.ai_socktype = SOCK_STREAM,
                               .ai_flags = flags | AI_NUMERICSERV | AI_NUMERICHOST};
  struct addrinfo *list = NULL;
  if (getaddrinfo(l->host, l->service, &l->hints, &list) == 0) {
    free(l);
    return list;
  }
  l->hints.ai_flags &= ~AI_NUMERICHOST;
  return slow_lookup(l, deadline);
}

const char *ddp_net_reason(int number) {
  if (number == ENOENT) return "its name is not known";
  if (number == EAGAIN) return "its name cannot be looked up now";
  return strerror(number);
}

/* Names as NCCL_SOCKET_IFNAME writes them ("eth,ib", "=eth0", "^docker"), of which GLOO_SOCKET_IFNAME
   is the plain case. */
static bool wanted(const char *name, const char *list, bool exact) {
  if (!*list) return true;
  bool without = *list == '^';
  if (without) list++;
  if (*list == '=') exact = true, list++;
  for (const char *p = list; *p; p += strcspn(p, ","), p += *p == ',') {
    size_t n = strcspn(p, ",");
    if (n && strncmp(name, p, n) == 0 && (!exact || strlen(name) == n)) return !without;
  }
  return without;
}

static bool useful(const struct ifaddrs *a, int family, const char *gloo, const char *nccl) {
  if (!a->ifa_addr || a->ifa_addr->sa_family != family || !(a->ifa_flags & IFF_UP)) return false;
  bool named = *gloo || *nccl;
  if ((a->ifa_flags & IFF_LOOPBACK) && !named) return false;
  if (family == AF_INET6 &&
      IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)(const void *)a->ifa_addr)->sin6_addr))
    return false; /* means nothing without an interface of the other host */
  return *gloo ? wanted(a->ifa_name, gloo, true) : wanted(a->ifa_name, nccl, false);
}

int ddp_net_own_addresses(char out[][DDP_NET_NAME], int limit) {
  const char *gloo = ddp_env(DDP_ENV_GLOO_SOCKET_IFNAME),
             *nccl = ddp_env(DDP_ENV_NCCL_SOCKET_IFNAME);
  static const int families[] = {AF_INET, AF_INET6};
  struct ifaddrs *list;
  int n = 0;
  if (getifaddrs(&list)) return 0;
  for (int f = 0; f < 2; f++) {
    for (const struct ifaddrs *a = list; a && n < limit; a = a->ifa_next) {
      if (!useful(a, families[f], gloo, nccl)) continue;
      socklen_t size = f ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
      if (getnameinfo(a->ifa_addr, size, out[n], DDP_NET_NAME, NULL, 0, NI_NUMERICHOST) == 0) n++;
    }
  }
  freeifaddrs(list);
  return n;
}
