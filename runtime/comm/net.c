/* In: addresses, sockets, bytes. Out: the same with deadlines, EINTR and partial transfers dealt
   with. Holds: sockets stay in blocking mode; waiting is done by poll, transfers by
   MSG_DONTWAIT. */
#include "net.h"
#include "clock.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <linux/sockios.h>
#include <linux/tcp.h> /* newer than netinet/tcp.h */

static const double name_wait = 10; /* seconds for the own name */

static int close_keeping_errno(int fd) {
  int e = errno;
  close(fd);
  errno = e;
  return -1;
}

static int milliseconds_left(double deadline) {
  double left = (deadline - ddp_clock()) * 1e3;
  if (left <= 0) return 0;
  return left > 1e8 ? 100000000 : (int)left + 1;
}

bool ddp_net_wait(int fd, short events, double deadline) {
  for (;;) {
    struct pollfd p = {.fd = fd, .events = events};
    int n = poll(&p, 1, milliseconds_left(deadline));
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) return false;
    if (n == 0 && ddp_clock() >= deadline) {
      errno = ETIMEDOUT;
      return false;
    }
  }
}

void ddp_net_keep_alive(int fd) {
  static const int on = 1, idle = 10, every = 5, times = 3;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
}

static void tune(int fd) {
  static const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ddp_net_keep_alive(fd);
}

static int dial_one(const struct addrinfo *a, double deadline) {
  int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  if (connect(fd, a->ai_addr, a->ai_addrlen)) {
    if (errno != EINPROGRESS || !ddp_net_wait(fd, POLLOUT, deadline))
      return close_keeping_errno(fd);
    int e = 0;
    socklen_t n = sizeof e;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &n);
    if (e) {
      errno = e;
      return close_keeping_errno(fd);
    }
  }
  fcntl(fd, F_SETFL, 0);
  tune(fd);
  return fd;
}

/* An address that does not answer must not take the time of the next one, nor of the next attempt: the kernel
   would ask again only after 1, 3 and 7 seconds. */
static const double one_address = 1.0;

int ddp_net_dial(const char *host, int port, double deadline) {
  struct addrinfo *list = ddp_net_resolve(host, port, 0, deadline);
  if (!list) return -1;
  int fd = -1;
  for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
    double end = ddp_clock() + one_address;
    fd = dial_one(a, end < deadline ? end : deadline);
  }
  int e = errno;
  freeaddrinfo(list);
  errno = e;
  return fd;
}

static int listen_one(const struct addrinfo *a) {
  int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1, off = 0;
  if (fd < 0) return -1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); /* TIME_WAIT must not stop a restart */
  if (a->ai_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, 512)) return close_keeping_errno(fd);
  return fd;
}

int ddp_net_listen(const char *host, int port, int *got) {
  struct addrinfo *list =
      ddp_net_resolve(host ? host : "::", port, AI_PASSIVE, ddp_clock() + name_wait);
  if (!list) return -1;
  int fd = listen_one(list);
  for (const struct addrinfo *a = list->ai_next; a && fd < 0 && errno != EADDRINUSE; a = a->ai_next)
    fd = listen_one(a);
  int e = errno;
  freeaddrinfo(list);
  errno = e;
  if (fd < 0 && !host && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL))
    return ddp_net_listen("0.0.0.0", port, got); /* a machine without IPv6 */
  if (fd < 0) return -1;
  struct sockaddr_storage s;
  socklen_t n = sizeof s;
  if (getsockname(fd, (struct sockaddr *)&s, &n)) return close_keeping_errno(fd);
  *got = ntohs(s.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&s)->sin6_port
                                       : ((struct sockaddr_in *)&s)->sin_port);
  return fd;
}

static socklen_t abstract_name(struct sockaddr_un *a, const char *name) {
  *a = (struct sockaddr_un){.sun_family = AF_UNIX};
  size_t n = strnlen(name, sizeof a->sun_path - 2);
  memcpy(a->sun_path + 1, name, n);
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

int ddp_net_dial_unix(const char *name) {
  struct sockaddr_un a;
  socklen_t n = abstract_name(&a, name);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  return connect(fd, (struct sockaddr *)&a, n) ? close_keeping_errno(fd) : fd;
}

int ddp_net_listen_unix(const char *name) {
  struct sockaddr_un a;
  socklen_t n = abstract_name(&a, name);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  if (bind(fd, (struct sockaddr *)&a, n) || listen(fd, 512)) return close_keeping_errno(fd);
  return fd;
}

int ddp_net_accept(int listener, double deadline) {
  for (;;) {
    if (!ddp_net_wait(listener, POLLIN, deadline)) return -1;
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0) {
      tune(fd);
      return fd;
    }
    if (errno != EINTR && errno != ECONNABORTED && errno != EAGAIN) return -1;
  }
}

int ddp_net_send(int fd, const void *data, size_t bytes, double deadline) {
  const char *p = data;
  while (bytes) {
    ssize_t n = send(fd, p, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      p += n;
      bytes -= (size_t)n;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!ddp_net_wait(fd, POLLOUT, deadline)) return -1;
    } else if (errno != EINTR) {
      return -1;
    }
  }
  return 0;
}

int ddp_net_recv(int fd, void *data, size_t bytes, double deadline) {
  char *p = data;
  while (bytes) {
    ssize_t n = recv(fd, p, bytes, MSG_DONTWAIT);
    if (n > 0) {
      p += n;
      bytes -= (size_t)n;
    } else if (n == 0) {
      errno = ECONNRESET;
      return -1;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!ddp_net_wait(fd, POLLIN, deadline)) return -1;
    } else if (errno != EINTR) {
      return -1;
    }
  }
  return 0;
}

typedef union FdMessage {
  struct cmsghdr align;
  char bytes[CMSG_SPACE(sizeof(int))];
} FdMessage;

int ddp_net_send_fd(int socket, int fd) {
  FdMessage control = {0};
  char byte = 'f';
  struct iovec v = {&byte, 1};
  struct msghdr m = {
      .msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  struct cmsghdr *h = CMSG_FIRSTHDR(&m);
  h->cmsg_level = SOL_SOCKET;
  h->cmsg_type = SCM_RIGHTS;
  h->cmsg_len = CMSG_LEN(sizeof fd);
  memcpy(CMSG_DATA(h), &fd, sizeof fd);
  return sendmsg(socket, &m, MSG_NOSIGNAL) == 1 ? 0 : -1;
}

int ddp_net_recv_fd(int socket, double deadline) {
  if (!ddp_net_wait(socket, POLLIN, deadline)) return -1;
  FdMessage control = {0};
  char byte;
  struct iovec v = {&byte, 1};
  struct msghdr m = {
      .msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  ssize_t n = recvmsg(socket, &m, MSG_CMSG_CLOEXEC);
  if (n < 0) return -1;
  struct cmsghdr *h = n == 1 ? CMSG_FIRSTHDR(&m) : NULL;
  if (!h || h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS ||
      h->cmsg_len != CMSG_LEN(sizeof(int))) {
    errno = n == 0 ? ECONNRESET : EPROTO;
    return -1;
  }
  int fd;
  memcpy(&fd, CMSG_DATA(h), sizeof fd);
  return fd;
}

long ddp_net_peer_uid(int socket) {
  struct ucred c;
  socklen_t n = sizeof c;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &c, &n) ? -1 : (long)c.uid;
}

static void name_of(const struct sockaddr_storage *s, char out[DDP_NET_NAME]) {
  out[0] = 0;
  if (s->ss_family == AF_INET) {
    inet_ntop(AF_INET, &((const struct sockaddr_in *)s)->sin_addr, out, DDP_NET_NAME);
  } else if (s->ss_family == AF_INET6) {
    const struct in6_addr *a = &((const struct sockaddr_in6 *)s)->sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(a))
      inet_ntop(AF_INET, a->s6_addr + 12, out, DDP_NET_NAME);
    else
      inet_ntop(AF_INET6, a, out, DDP_NET_NAME);
  }
}

void ddp_net_local_name(int fd, char out[DDP_NET_NAME]) {
  struct sockaddr_storage s = {0};
  socklen_t n = sizeof s;
  if (getsockname(fd, (struct sockaddr *)&s, &n)) s.ss_family = AF_UNSPEC;
  name_of(&s, out);
}

void ddp_net_peer_name(int fd, char out[DDP_NET_NAME]) {
  struct sockaddr_storage s = {0};
  socklen_t n = sizeof s;
  if (getpeername(fd, (struct sockaddr *)&s, &n)) s.ss_family = AF_UNSPEC;
  name_of(&s, out);
}

bool ddp_net_cut(int fd, int again) {
  struct tcp_info t = {0};
  socklen_t n = sizeof t;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &t, &n)) return false;
  /* Where only the way there is cut, what the other side repeats still comes, and counts as an acknowledgement. Of
     what this side repeats nothing is acknowledged; a host whose program is stopped would do that at once. */
  if (t.tcpi_unacked > 0 && t.tcpi_retransmits >= 2) return true;
  if (t.tcpi_last_ack_recv <= 1000) return false;
  if (t.tcpi_unacked > 0) return t.tcpi_retransmits >= again;
  /* The other side has room and nothing leaves: the own interface is down. */
  return t.tcpi_notsent_bytes > 0 && t.tcpi_snd_wnd >= t.tcpi_notsent_bytes;
}

bool ddp_net_is_loopback(const char *address) {
  return !address[0] || strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
}

void ddp_net_drain(int fd, double deadline) {
  int left = 0;
  while (ioctl(fd, SIOCOUTQ, &left) == 0 && left > 0 && ddp_clock() < deadline) {
    struct timespec t = {.tv_nsec = 1000000};
    nanosleep(&t, NULL);
  }
}

uint64_t ddp_net_nonce(void) {
  uint64_t n = 0;
  if (getrandom(&n, sizeof n, 0) != (ssize_t)sizeof n) n = (uint64_t)(ddp_clock() * 1e9);
  return n ? n : 1;
}
