// Gloo behind a C interface, built as libddp_gloo.so. In: blocking collectives. Out: Gloo's ring
// algorithms, exceptions turned into text. Holds: no exception leaves a function. Gloo's own
// timeouts are far away on purpose (they count per segment): the caller keeps the deadline and
// uses `shut`.
#include "gloo.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>
#include <dirent.h>
#include <sys/socket.h>
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

struct DdpGlooContext {
  std::shared_ptr<gloo::rendezvous::Context> context;
  std::shared_ptr<gloo::transport::Device> device;
  std::vector<int> sockets; // of the mesh
};

namespace {

using Milliseconds = std::chrono::milliseconds;
const Milliseconds far_away = std::chrono::hours(24 * 365);

class Store : public gloo::rendezvous::Store {
public:
  explicit Store(const DdpGlooStore &store) : store_(store) {}

  void set(const std::string &key, const std::vector<char> &data) override {
    if (store_.set(store_.self, key.c_str(), data.data(), data.size()))
      GLOO_THROW_IO_EXCEPTION("the store does not take ", key);
  }
  std::vector<char> get(const std::string &key) override {
    void *data = nullptr;
    size_t size = 0;
    if (store_.get(store_.self, key.c_str(), &data, &size))
      GLOO_THROW_IO_EXCEPTION("the store does not have ", key);
    const char *p = static_cast<char *>(data);
    std::vector<char> out(p, p + size);
    std::free(data);
    return out;
  }
  // The store keeps the deadline itself.
  void wait(const std::vector<std::string> &keys) override {
    for (const auto &key : keys) get(key);
  }
  void wait(const std::vector<std::string> &keys, const Milliseconds &) override { wait(keys); }

private:
  DdpGlooStore store_;
};

template <class F> int guarded(char *error, size_t size, F body) {
  try {
    body();
    return 0;
  } catch (const std::exception &e) {
    std::snprintf(error, size, "%s", e.what());
  } catch (...) {
    std::snprintf(error, size, "unknown exception");
  }
  return -1;
}

std::set<int> connected_sockets() {
  std::set<int> out;
  DIR *dir = opendir("/proc/self/fd");
  if (!dir) return out;
  while (const dirent *entry = readdir(dir)) {
    char *end = nullptr;
    const long fd = std::strtol(entry->d_name, &end, 10);
    sockaddr_storage address;
    socklen_t size = sizeof address;
    if (end != entry->d_name &&
        getpeername(static_cast<int>(fd), reinterpret_cast<sockaddr *>(&address), &size) == 0)
      out.insert(static_cast<int>(fd));
  }
  closedir(dir);
  return out;
}

int open_context(DdpGlooContext **out, int rank, int world, const char *address,
                 const DdpGlooStore *store, double timeout, char *error, size_t size) {
  return guarded(error, size, [&] {
    auto c = std::make_unique<DdpGlooContext>();
    gloo::transport::tcp::attr attributes;
    const char *interface = std::getenv("GLOO_SOCKET_IFNAME");
    if (interface && *interface)
      attributes.iface =
          std::string(interface, std::strcspn(interface, ",")); // of several the first
    else
      attributes.hostname = address;
    c->device = gloo::transport::tcp::CreateDevice(attributes);
    c->context = std::make_shared<gloo::rendezvous::Context>(rank, world);
    // A connection waits five times as long as the context says.
    c->context->setTimeout(Milliseconds(static_cast<long>(timeout * 1e3 / 5) + 1));
    Store adapter(*store);
    const auto before = connected_sockets();
    c->context->connectFullMesh(adapter, c->device);
    for (int fd : connected_sockets())
      if (!before.count(fd)) c->sockets.push_back(fd);
    c->context->setTimeout(far_away);
    *out = c.release();
  });
}

int all_reduce(DdpGlooContext *c, void *data, size_t n, size_t width,
               void (*sum)(void *out, const void *a, const void *b, size_t n), uint32_t tag,
               char *error, size_t size) {
  return guarded(error, size, [&] {
    gloo::AllreduceOptions options(c->context);
    if (width == 2)
      options.setOutput(static_cast<uint16_t *>(data), n);
    else
      options.setOutput(static_cast<float *>(data), n);
    options.setReduceFunction(sum);
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    options.setTag(tag);
    options.setTimeout(far_away);
    gloo::allreduce(options);
  });
}

int broadcast(DdpGlooContext *c, void *data, size_t bytes, int root, uint32_t tag, char *error,
              size_t size) {
  return guarded(error, size, [&] {
    gloo::BroadcastOptions options(c->context);
    options.setOutput(static_cast<char *>(data), bytes);
    options.setRoot(root);
    options.setTag(tag);
    options.setTimeout(far_away);
    gloo::broadcast(options);
  });
}

int all_gather(DdpGlooContext *c, const void *mine, void *all, size_t bytes, uint32_t tag,
               char *error, size_t size) {
  return guarded(error, size, [&] {
    gloo::AllgatherOptions options(c->context);
    options.setInput(const_cast<char *>(static_cast<const char *>(mine)), bytes);
    options.setOutput(static_cast<char *>(all), bytes * static_cast<size_t>(c->context->size));
    options.setTag(tag);
    options.setTimeout(far_away);
    gloo::allgather(options);
  });
}

int barrier(DdpGlooContext *c, uint32_t tag, char *error, size_t size) {
  return guarded(error, size, [&] {
    gloo::BarrierOptions options(c->context);
    options.setTag(tag);
    options.setTimeout(far_away);
    gloo::barrier(options);
  });
}

// closeConnections() does not wake a blocked call; this does, within milliseconds.
void shut(DdpGlooContext *c) {
  for (int fd : c->sockets) shutdown(fd, SHUT_RDWR);
}

size_t sockets(const DdpGlooContext *c, int *out, size_t limit) {
  const size_t n = std::min(limit, c->sockets.size());
  std::copy_n(c->sockets.begin(), n, out);
  return n;
}

void close_context(DdpGlooContext *c) {
  if (!c) return;
  try {
    c->context->closeConnections();
  } catch (...) {
  }
  delete c;
}

} // namespace

const DdpGlooPlugin ddp_gloo_plugin = {DDP_GLOO_ABI, open_context, all_reduce,
                                       broadcast,    all_gather,   barrier,
                                       shut,         sockets,      close_context};
