/* Optimizer steps over ranges of several tensors, bit for bit as the CPU's for each tensor, with the rates of each
   element's group from device memory; also replayed from a captured graph. */
#include "cuda/optimizer.h"
#include "check.h"
#include "oracle.h"

/* Two tensors with padding to 16 elements between them, and a third. Their sizes are multiples of 8: beyond the
   last one the CPU rounds as PyTorch's rest of a vector does. */
static const int64_t begin[] = {0, 1056, 1088}, end[] = {1048, 1080, 5088}, elements = 5088;
static const int32_t group[] = {1, 0, 2};

static const DdpRate rates[] = {{3e-3, 0.1}, {1e-2, 0.0}, {5e-4, 0.02}};
static const int steps = 4;

struct Arenas { /* of all tensors, on the host as the CPU changes them and on the device */
  std::vector<float> p = noises(elements), g, state[2];
  float *d_p, *d_g, *d_state[2];
  char *d_rates;
  DdpSegment segment = {};

  Arenas() {
    for (int i = 0; i < 2; i++) /* padding is zero */
      for (int64_t k = end[i]; k < begin[i + 1]; k++) p[static_cast<size_t>(k)] = 0;
    for (int i = 0; i < 2; i++) state[i].assign(elements, 0), d_state[i] = to_device(state[i]);
    d_p = to_device(p);
    d_g = device_array<float>(elements);
    d_rates = device_array<char>(sizeof(DdpRates) + sizeof rates);
    std::vector<uint16_t> groups(elements / 16);
    for (int i = 0; i < 3; i++)
      for (int64_t k = begin[i]; k < end[i]; k++)
        groups[static_cast<size_t>(k / 16)] = static_cast<uint16_t>(group[i]);
    segment.p = d_p;
    segment.g = d_g;
    segment.state[0] = d_state[0];
    segment.state[1] = d_state[1];
    segment.n = elements;
    segment.lr = segment.weight_decay = NAN; /* nobody may read these */
    segment.step = -1;
    segment.stream = stream();
    segment.rates = reinterpret_cast<const DdpRates *>(d_rates);
    segment.groups = to_device(groups);
    segment.scratch = device_array<char>(ddp_adamw_scratch);
  }

  /* What the runtime uploads before a step. */
  void prepare(int64_t step, float clip) {
    CHECK_CUDA(cudaDeviceSynchronize());
    g = noises(elements, static_cast<uint64_t>(step + 10));
    for (int i = 0; i < 2; i++)
      for (int64_t k = end[i]; k < begin[i + 1]; k++) g[static_cast<size_t>(k)] = 0;
    CHECK_CUDA(cudaMemcpy(d_g, g.data(), elements * sizeof(float), cudaMemcpyHostToDevice));
    std::vector<char> bytes(sizeof(DdpRates) + sizeof rates);
    DdpRates head = {};
    head.step = step;
    head.clip = clip;
    memcpy(bytes.data(), &head, sizeof head);
    memcpy(bytes.data() + offsetof(DdpRates, rate), rates, sizeof rates);
    CHECK_CUDA(cudaMemcpy(d_rates, bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
    for (float &e : g) e *= clip;
  }
  void compare(const char *what) {
    EXPECT_SAME(result(d_p, elements), p, "weights after %s", what);
    for (int i = 0; i < 2; i++)
      EXPECT_SAME(result(d_state[i], elements), state[i], "state %d after %s", i, what);
  }
};

/* Calls step(i) for the steps: each launched by itself, or captured once and replayed. */
template <class Step, class Before> static void steps_of(bool captured, Before before, Step step) {
  cudaStream_t s = static_cast<cudaStream_t>(stream());
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  for (int64_t i = 1; i <= steps; i++) {
    before(i);
    if (captured && !exec) {
      CHECK_CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
      step();
      CHECK_CUDA(cudaStreamEndCapture(s, &graph));
      CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
    }
    if (captured)
      CHECK_CUDA(cudaGraphLaunch(exec, s));
    else
      step();
  }
  CHECK_CUDA(cudaStreamSynchronize(s));
  if (exec) CHECK_CUDA(cudaGraphExecDestroy(exec));
  if (graph) CHECK_CUDA(cudaGraphDestroy(graph));
}

static void adamw(double beta1, float clip, double lr, double decay, bool captured) {
  Arenas a;
  steps_of(
      captured,
      [&](int64_t step) {
        a.prepare(step, clip);
        for (int t = 0; t < 3; t++) {
          const DdpRate r = rates[group[t]];
          oracle_adamw(&a.p[static_cast<size_t>(begin[t])], &a.g[static_cast<size_t>(begin[t])],
                       &a.state[0][static_cast<size_t>(begin[t])],
                       &a.state[1][static_cast<size_t>(begin[t])], end[t] - begin[t],
                       std::isnan(lr) ? r.lr : lr, std::isnan(decay) ? r.weight_decay : decay,
                       beta1, 0.999, 1e-8, step);
        }
      },
      [&] { ddp_adamw(&a.segment, lr, decay, beta1, 0.999, 1e-8); });
  a.compare("adamw");
}

/* What holds a step leaves everything as it was. */
static void held(void **state) {
  (void)state;
  Arenas a;
  a.prepare(1, 0.5f);
  const int32_t one = 1;
  CHECK_CUDA(
      cudaMemcpy(a.d_rates + offsetof(DdpRates, hold), &one, sizeof one, cudaMemcpyHostToDevice));
  ddp_adamw(&a.segment, NAN, NAN, 0.9, 0.999, 1e-8);
  ddp_sgd(&a.segment, NAN, NAN, 0.9, 0, 0);
  a.compare("steps that were held");
}

static void sgd(double momentum, double dampening, int nesterov, float clip, bool captured) {
  Arenas a;
  if (momentum == 0) a.segment.state[0] = nullptr;
  a.state[0].assign(elements, 0);
  steps_of(
      captured,
      [&](int64_t step) {
        a.prepare(step, clip);
        for (int t = 0; t < 3; t++) {
          const DdpRate r = rates[group[t]];
          oracle_sgd(&a.p[static_cast<size_t>(begin[t])], &a.g[static_cast<size_t>(begin[t])],
                     momentum != 0 ? &a.state[0][static_cast<size_t>(begin[t])] : nullptr,
                     end[t] - begin[t], r.lr, r.weight_decay, momentum, dampening, nesterov, step);
        }
      },
      [&] { ddp_sgd(&a.segment, NAN, NAN, momentum, dampening, nesterov); });
  a.compare("sgd");
}

/* One tensor with its group, and a length that is no multiple of four: the CPU's last n % 8 elements differ in
   the last place of the second moment. */
static void one_tensor(void **state) {
  (void)state;
  Arenas a;
  a.segment.groups = nullptr;
  a.segment.group = 2;
  a.segment.n = 1021;
  a.prepare(1, 1);
  std::vector<float> p = a.p, m = a.state[0], v = a.state[1];
  oracle_adamw(p.data(), a.g.data(), m.data(), v.data(), 1021, rates[2].lr, rates[2].weight_decay,
               0.9, 0.999, 1e-8, 1);
  ddp_adamw(&a.segment, NAN, NAN, 0.9, 0.999, 1e-8);
  const std::vector<float> got = result(a.d_p, elements), got_v = result(a.d_state[1], elements);
  EXPECT_SAME(std::vector<float>(got.begin(), got.begin() + 1016),
              std::vector<float>(p.begin(), p.begin() + 1016), "one tensor");
  for (size_t i = 1016; i < 1021; i++) {
    EXPECT(std::fabs(got[i] - p[i]) <= 1e-6f * std::fabs(p[i]), "element %zu of one tensor", i);
    EXPECT(std::fabs(got_v[i] - v[i]) <= 1e-6f * v[i], "second moment %zu of one tensor", i);
  }
  EXPECT(got[1021] == a.p[1021] && got_v[1021] == 0, "written beyond the end");
}

static void all_adamw(void **state) {
  (void)state;
  for (const bool captured : {false, true})
    for (const double beta1 : {0.9, 0.4})
      for (const float clip : {1.0f, 0.37f}) {
        adamw(beta1, clip, NAN, NAN, captured);
        adamw(beta1, clip, 2e-3, 0, captured);
      }
}
static void all_sgd(void **state) {
  (void)state;
  for (const bool captured : {false, true})
    for (const float clip : {1.0f, 0.37f}) {
      sgd(0, 0, 0, clip, captured);
      sgd(0.9, 0, 0, clip, captured);
      sgd(0.9, 0.25, 0, clip, captured);
      sgd(0.9, 0, 1, clip, captured);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_adamw),
      cmocka_unit_test(all_sgd),
      cmocka_unit_test(one_tensor),
      cmocka_unit_test(held),
  };
  return verdict(cmocka_run_group_tests(tests, NULL, NULL));
}
