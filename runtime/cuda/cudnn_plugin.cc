/* In: a shape. Out: a plan of cuDNN for it, made with cudnn_frontend for the GPU that is chosen or for one that is
   only described. Libraries are opened when `open` is called; nothing is linked but the loader. */
#include "cudnn_plugin.h"
#include <cuda_runtime_api.h>
#include <cudnn_frontend.h>
#include <dlfcn.h>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace cudnn_frontend {
void *cudnn_dlhandle; /* the frontend looks up its functions here */
}
namespace fe = cudnn_frontend;

struct DdpCudnnGraph {
  fe::graph::Graph graph;
  std::string name;
  int64_t workspace;
};

namespace {

typedef std::shared_ptr<fe::graph::Tensor_attributes> Tensor;
typedef std::vector<int64_t> Sizes;

cudnnHandle_t handle; /* of the device that is chosen; one thread calls */

int say(char *why, size_t size, const std::string &text) {
  snprintf(why, size, "%s", text.substr(0, text.find('\n')).c_str());
  return 1;
}
int status(cudnnStatus_t s, const char *doing, char *why, size_t size) {
  if (s == CUDNN_STATUS_SUCCESS) return 0;
  return say(why, size, std::string("cannot ") + doing + ": " + fe::detail::get_error_string(s));
}

int open_library(const char *file, size_t *version, char *why, size_t size) {
  if (!fe::cudnn_dlhandle) fe::cudnn_dlhandle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!fe::cudnn_dlhandle) return say(why, size, dlerror());
  try {
    *version = fe::detail::get_backend_version();
  } catch (const std::exception &e) {
    return say(why, size, e.what());
  }
  return 0;
}

fe::DataType_t type_of(int64_t type) {
  return type == DDP_bf16  ? fe::DataType_t::BFLOAT16
         : type == DDP_f16 ? fe::DataType_t::HALF
                           : fe::DataType_t::FLOAT;
}

/* ---------- from a graph to a plan ---------- */

/* A graph that is about to be described, for the device. */
int begin(DdpCudnnGraph *g, int64_t type, const char *device, char *why, size_t size) {
  g->graph.set_io_data_type(type_of(type))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  if (!device) {
    if (!handle) return status(fe::detail::create_handle(&handle), "open cuDNN", why, size);
    return 0;
  }
  auto described = std::make_shared<fe::DeviceProperties>();
  fe::error_t e = described->deserialize(std::vector<uint8_t>(device, device + strlen(device)));
  if (e.is_bad()) return say(why, size, e.get_message());
  g->graph.set_device_properties(described);
  const char *capability = strstr(device, "\"deviceVer\":"); /* else the frontend asks a driver */
  if (capability) g->graph.set_sm_version(atoi(capability + strlen("\"deviceVer\":")) / 10);
  return 0;
}

int finish(DdpCudnnGraph *g, const char *device, bool *planned, char *why, size_t size) {
  fe::error_t e = g->graph.validate();
  if (e.is_good())
    e = device ? g->graph.build_operation_graph() : g->graph.build_operation_graph(handle);
  if (e.is_good())
    e = g->graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK});
  if (e.is_good()) {
    (void)fe::detail::get_last_error_string_(); /* forgets what was said before */
    e = g->graph.check_support();
    /* The engine's code was made, and nobody is there to take it. */
    *planned = e.is_good() || (device && fe::detail::get_last_error_string_().find(
                                             "cuLibraryLoadData") != std::string::npos);
  }
  if (e.is_good()) e = g->graph.build_plans();
  if (e.is_good()) e = g->graph.get_workspace_size(g->workspace);
  if (e.is_good()) e = g->graph.get_plan_name(g->name);
  return e.is_bad() ? say(why, size, e.get_message()) : 0;
}

/* describe(graph) between the two; what the frontend throws becomes a line too. */
template <class Describe>
DdpCudnnGraph *make(int64_t type, const char *device, bool *planned, char *why, size_t size,
                    Describe describe) {
  *planned = false;
  try {
    auto g = std::make_unique<DdpCudnnGraph>();
    if (begin(g.get(), type, device, why, size)) return nullptr;
    describe(g->graph);
    if (finish(g.get(), device, planned, why, size)) return nullptr;
    return g.release();
  } catch (const std::exception &e) {
    say(why, size, e.what());
    return nullptr;
  }
}

/* ---------- attention ---------- */

fe::graph::Tensor_attributes heads(DdpCudnnOperand which, int64_t batch, int64_t count,
                                   int64_t time, int64_t width, const DdpCudnnHeads &step) {
  static const char *const names[] = {"q",        "key", "value", "y", "lse",
                                      "gradient", "dq",  "dk",    "dv"};
  return fe::graph::Tensor_attributes()
      .set_name(names[which])
      .set_uid(which)
      .set_dim({batch, count, time, width})
      .set_stride({step.batch, step.head, step.time, 1});
}
DdpCudnnHeads dense(int64_t time, int64_t count, int64_t width) {
  return {time * count * width, count * width, width};
}
/* A result lies where `as` says. */
void result(const Tensor &x, const fe::graph::Tensor_attributes &as) {
  x->set_output(true).set_uid(as.get_uid()).set_dim(as.get_dim()).set_stride(as.get_stride());
}

typedef struct Operands {
  Tensor q, key, value;
} Operands;

Operands read(fe::graph::Graph &g, const DdpCudnnAttention &a) {
  return {g.tensor(heads(DDP_CUDNN_q, a.batch, a.heads, a.t, a.k, a.q)),
          g.tensor(heads(DDP_CUDNN_key, a.batch, a.groups, a.s, a.k, a.key)),
          g.tensor(heads(DDP_CUDNN_value, a.batch, a.groups, a.s, a.v, a.value))};
}

void describe_forward(fe::graph::Graph &g, const DdpCudnnAttention &a) {
  const Operands in = read(g, a);
  auto options = fe::graph::SDPA_attributes()
                     .set_name("attention")
                     .set_generate_stats(a.keep_lse != 0)
                     .set_attn_scale((float)a.scale);
  if (a.causal) options.set_causal_mask(true);
  auto [y, lse] = g.sdpa(in.q, in.key, in.value, options);
  result(y, heads(DDP_CUDNN_y, a.batch, a.heads, a.t, a.v, a.y));
  if (a.keep_lse) lse->set_output(true).set_uid(DDP_CUDNN_lse).set_data_type(fe::DataType_t::FLOAT);
}

/* Deterministic: the same run gives the same bits. */
void describe_backward(fe::graph::Graph &g, const DdpCudnnAttention &a) {
  const Operands in = read(g, a);
  const Tensor y = g.tensor(heads(DDP_CUDNN_y, a.batch, a.heads, a.t, a.v, a.y));
  const Tensor gradient =
      g.tensor(heads(DDP_CUDNN_gradient, a.batch, a.heads, a.t, a.v, a.gradient));
  const Tensor lse = g.tensor(fe::graph::Tensor_attributes()
                                  .set_name("lse")
                                  .set_uid(DDP_CUDNN_lse)
                                  .set_dim({a.batch, a.heads, a.t, 1})
                                  .set_stride({a.heads * a.t, a.t, 1, 1})
                                  .set_data_type(fe::DataType_t::FLOAT));
  auto options = fe::graph::SDPA_backward_attributes()
                     .set_name("attention_grad")
                     .set_attn_scale((float)a.scale)
                     .set_deterministic_algorithm(true);
  if (a.causal) options.set_causal_mask(true);
  auto [dq, dk, dv] = g.sdpa_backward(in.q, in.key, in.value, y, gradient, lse, options);
  result(dq, heads(DDP_CUDNN_dq, a.batch, a.heads, a.t, a.k, dense(a.t, a.heads, a.k)));
  result(dk, heads(DDP_CUDNN_dk, a.batch, a.groups, a.s, a.k, dense(a.s, a.groups, a.k)));
  result(dv, heads(DDP_CUDNN_dv, a.batch, a.groups, a.s, a.v, dense(a.s, a.groups, a.v)));
}

DdpCudnnGraph *attention(const DdpCudnnAttention *a, const char *device, bool *planned, char *why,
                         size_t size) {
  return make(a->type, device, planned, why, size, [a](fe::graph::Graph &g) {
    if (a->backward)
      describe_backward(g, *a);
    else
      describe_forward(g, *a);
  });
}

/* ---------- convolution ---------- */

/* In one dimension cuDNN gets a first one of size 1. */
Sizes spread(const int64_t *x, int64_t space, int64_t missing) {
  Sizes all;
  if (space == 1) all.push_back(missing);
  all.insert(all.end(), x, x + space);
  return all;
}

/* [outer, channels, space..], channels last. */
fe::graph::Tensor_attributes last(const char *name, int64_t uid, int64_t outer, int64_t channels,
                                  const Sizes &space) {
  Sizes dim = {outer, channels}, stride(2 + space.size());
  dim.insert(dim.end(), space.begin(), space.end());
  int64_t step = channels;
  for (size_t i = dim.size(); i-- > 2;) {
    stride[i] = step;
    step *= dim[i];
  }
  stride[0] = step;
  stride[1] = 1;
  return fe::graph::Tensor_attributes().set_name(name).set_uid(uid).set_dim(dim).set_stride(stride);
}

template <class Options> Options options_of(const DdpCudnnConv &c) {
  return Options()
      .set_padding(spread(c.padding, c.space, 0))
      .set_stride(spread(c.stride, c.space, 1))
      .set_dilation(spread(c.dilation, c.space, 1));
}

enum { BIG, SMALL, FILTER };

void describe_conv(fe::graph::Graph &g, const DdpCudnnConv &c) {
  const auto big = last("big", BIG, c.batch, c.big, spread(c.big_size, c.space, 1));
  const auto small = last("small", SMALL, c.batch, c.small, spread(c.small_size, c.space, 1));
  const auto filter =
      last("filter", FILTER, c.small, c.big / c.groups, spread(c.kernel, c.space, 1));
  if (c.result == 0)
    result(g.conv_fprop(g.tensor(big), g.tensor(filter),
                        options_of<fe::graph::Conv_fprop_attributes>(c)),
           small);
  else if (c.result == 1)
    result(g.conv_dgrad(g.tensor(small), g.tensor(filter),
                        options_of<fe::graph::Conv_dgrad_attributes>(c)),
           big);
  else {
    const Tensor w = g.conv_wgrad(g.tensor(small), g.tensor(big),
                                  options_of<fe::graph::Conv_wgrad_attributes>(c));
    result(w, filter);
    w->set_data_type(type_of(c.filter_type));
  }
  std::vector<fe::NumericalNote_t> without = {fe::NumericalNote_t::NONDETERMINISTIC};
  if (c.type == DDP_f32 && !c.tf32) {
    without.push_back(fe::NumericalNote_t::TENSOR_CORE);
    without.push_back(fe::NumericalNote_t::DOWN_CONVERT_INPUTS);
  }
  g.deselect_numeric_notes(without);
}

DdpCudnnGraph *conv(const DdpCudnnConv *c, const char *device, bool *planned, char *why,
                    size_t size) {
  return make(c->type, device, planned, why, size,
              [c](fe::graph::Graph &g) { describe_conv(g, *c); });
}

/* ---------- running ---------- */

int64_t workspace(const DdpCudnnGraph *g) {
  return g->workspace;
}
const char *name(const DdpCudnnGraph *g) {
  return g->name.c_str();
}
int run(const DdpCudnnGraph *g, void *const *operands, int n, void *room, void *stream, char *why,
        size_t size) {
  try {
    if (status(fe::detail::set_stream(handle, (cudaStream_t)stream), "use a stream", why, size))
      return 1;
    std::unordered_map<int64_t, void *> at;
    for (int i = 0; i < n; i++)
      if (operands[i]) at[i] = operands[i];
    fe::error_t e = g->graph.execute(handle, at, room);
    return e.is_bad() ? say(why, size, e.get_message()) : 0;
  } catch (const std::exception &e) {
    return say(why, size, e.what());
  }
}
void free_graph(DdpCudnnGraph *g) {
  delete g;
}

} // namespace

const DdpCudnnPlugin ddp_cudnn_plugin = {DDP_CUDNN_ABI, open_library, attention, conv,
                                         workspace,     name,         run,       free_graph};
