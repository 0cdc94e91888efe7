/* The environment, read once. A word that is not known ends the run: a test that asks for a schedule gets it. */
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <map>

namespace cudasim {
uint32_t Random::below(uint32_t n) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return (uint32_t)((state >> 33) % n);
}

static const char *text(const char *name, const char *otherwise) {
  const char *v = getenv(name);
  return v && *v ? v : otherwise;
}

/* "shuffle:7": which one of the words, and the seed. */
static int word(const char *name, const std::vector<const char *> &words, Random *random) {
  std::string v = text(name, words[0]);
  size_t colon = v.find(':');
  if (colon != std::string::npos) {
    random->state = strtoull(v.c_str() + colon + 1, nullptr, 10) * 2654435761u + 1;
    v.resize(colon);
  }
  for (size_t i = 0; i < words.size(); i++)
    if (v == words[i]) return (int)i;
  fprintf(stderr, "cudasim: %s=%s is not known\n", name, v.c_str());
  _exit(66);
}

static Knobs read_knobs() {
  Knobs k{};
  k.order_random.state = k.schedule_random.state = 1;
  k.order = (Order)word("CUDASIM_ORDER", {"forward", "reverse", "shuffle"}, &k.order_random);
  k.schedule =
      (Schedule)word("CUDASIM_STREAMS", {"eager", "lazy", "urgent", "random"}, &k.schedule_random);
  k.protect = atoi(text("CUDASIM_PROTECT", "0")) != 0;
  k.stats = atoi(text("CUDASIM_STATS", "0")) != 0;
  k.progress = atoi(text("CUDASIM_PROGRESS", "1")) != 0;
  k.devices = atoi(text("CUDASIM_DEVICES", "8"));
  k.sm = atoi(text("CUDASIM_SM", "90"));
  k.forget = atoi(text("CUDASIM_FORGET", "0"));
  k.driver = atoi(text("CUDASIM_DRIVER", "13000"));
  k.memory = strtoull(text("CUDASIM_MEMORY", "85899345920"), nullptr, 10);
  k.name = text("CUDASIM_NAME", "cudasim");
  return k;
}
Knobs &knobs() {
  static Knobs k = read_knobs();
  return k;
}

cudaError_t injected(const char *what) {
  static auto &calls = *new std::map<std::string, int>;
  const char *at = getenv("CUDASIM_FAIL");
  if (!at || !*at) return cudaSuccess;
  int n = ++calls[what];
  while (at) {
    char name[64];
    int which, error;
    if (sscanf(at, "%63[^:]:%d=%d", name, &which, &error) != 3) {
      fprintf(stderr, "cudasim: CUDASIM_FAIL=%s: expected CALL:N=ERROR\n", at);
      _exit(66);
    }
    if (which == n && !strcmp(name, what)) return (cudaError_t)error;
    at = strchr(at, ',');
    if (at) at++;
  }
  return cudaSuccess;
}
} // namespace cudasim
