/* Capturing and graphs. While a stream is captured, what is enqueued becomes a node that comes after the stream's
   last ones; an event carries them to other streams. A launched graph is one piece of work whose nodes run in an
   order of the schedule, each anew. */
#include "sim.h"
#include <algorithm>
#include <thread>

namespace cudasim {
struct Node {
  const char *name;
  Work run;
  std::vector<int> after;
  int priority;
};
struct Capture {
  std::vector<Node> nodes;
  CUstream_st *origin;
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  bool invalid = false, ended = false;
};
} // namespace cudasim
using namespace cudasim;
struct CUgraph_st {
  std::vector<Node> nodes;
};
struct CUgraphExec_st {
  std::shared_ptr<std::vector<Node>> nodes;
};

static thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;
static auto &captures = *new std::vector<std::shared_ptr<Capture>>; /* that go on */

/* ---------- capturing ---------- */
bool cudasim::in_capture(CUstream_st *s) {
  return s->capture != nullptr;
}
void cudasim::invalidate(CUstream_st *s) {
  if (s->capture) s->capture->invalid = true;
}
cudaError_t cudasim::forbidden_in_capture() {
  if (thread_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  cudaError_t e = cudaSuccess;
  for (auto &c : captures) {
    bool mine = c->thread == std::this_thread::get_id();
    if (c->mode == cudaStreamCaptureModeRelaxed) continue;
    if (!mine && (c->mode == cudaStreamCaptureModeThreadLocal ||
                  thread_mode == cudaStreamCaptureModeThreadLocal))
      continue;
    c->invalid = true;
    e = cudaErrorStreamCaptureUnsupported;
  }
  return e;
}
cudaError_t cudasim::capture_op(CUstream_st *s, const char *name, Work run) {
  Capture &c = *s->capture;
  if (c.invalid) return cudaErrorStreamCaptureInvalidated;
  int id = (int)c.nodes.size();
  c.nodes.push_back({name, std::move(run), s->tail, s->priority});
  s->tail = {id};
  return cudaSuccess;
}

/* What other streams hold must come before the origin's last nodes. */
static bool joined(const Capture &c) {
  std::vector<bool> before(c.nodes.size());
  std::vector<int> todo = c.origin->tail;
  while (!todo.empty()) {
    size_t i = (size_t)todo.back();
    todo.pop_back();
    if (before[i]) continue;
    before[i] = true;
    todo.insert(todo.end(), c.nodes[i].after.begin(), c.nodes[i].after.end());
  }
  for (CUstream_st *s : streams())
    if (s->capture.get() == &c)
      for (int i : s->tail)
        if (!before[(size_t)i]) return false;
  return true;
}
static void end(const std::shared_ptr<Capture> &c) {
  c->ended = true;
  for (CUstream_st *s : streams())
    if (s->capture == c) {
      s->capture = nullptr;
      s->tail.clear();
    }
  captures.erase(std::remove(captures.begin(), captures.end(), c), captures.end());
}

/* ---------- running ---------- */
struct Run {
  std::shared_ptr<std::vector<Node>> nodes;
  enum State : uint8_t { waiting, begun, done };
  std::vector<State> states;
  double urgent = 0; /* since when a node of high priority waits for other processes */
};
static std::vector<size_t> could_run(const Run &r) {
  std::vector<size_t> can;
  for (size_t i = 0; i < r.states.size(); i++) {
    const std::vector<int> &after = (*r.nodes)[i].after;
    if (r.states[i] != Run::done && std::all_of(after.begin(), after.end(), [&](int a) {
          return r.states[(size_t)a] == Run::done;
        }))
      can.push_back(i);
  }
  Knobs &k = knobs();
  if (k.schedule == Schedule::lazy) std::reverse(can.begin(), can.end());
  if (k.schedule == Schedule::urgent)
    std::stable_sort(can.begin(), can.end(), [&](size_t a, size_t b) {
      return (*r.nodes)[a].priority < (*r.nodes)[b].priority;
    });
  if (k.schedule == Schedule::random)
    for (size_t i = can.size(); i > 1; i--)
      std::swap(can[i - 1], can[k.schedule_random.below((uint32_t)i)]);
  return can;
}
/* As far as it goes; true: all nodes have run. */
static bool run_nodes(Run &r) {
  for (;;) {
    std::vector<size_t> can = could_run(r);
    if (can.empty()) return true;
    bool moved = false;
    for (size_t i : can) {
      bool first = r.states[i] == Run::waiting;
      r.states[i] = Run::begun;
      const Work &run = (*r.nodes)[i].run;
      if (run && !run(first)) { /* a library waits for other processes: what else is there? */
        if ((*r.nodes)[i].priority >= 0) continue;
        if (r.urgent == 0) r.urgent = now();
        if (holds_others(r.urgent)) return false;
        continue;
      }
      r.states[i] = Run::done;
      r.urgent = 0;
      moved = true;
      break;
    }
    if (!moved) return false;
  }
}

extern "C" {
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  CUDASIM_ENTER(cudaStreamBeginCapture);
  CUstream_st *s = stream_of(stream);
  if (s != stream) return leave(cudaErrorStreamCaptureUnsupported); /* the default stream */
  if (s->capture) return leave(cudaErrorInvalidValue);
  s->capture = std::make_shared<Capture>();
  s->capture->origin = s;
  s->capture->mode = mode;
  s->capture->thread = std::this_thread::get_id();
  s->tail.clear();
  captures.push_back(s->capture);
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *out) {
  CUDASIM_ENTER(cudaStreamEndCapture);
  *out = nullptr;
  std::shared_ptr<Capture> c = stream_of(s)->capture;
  if (!c) return leave(cudaErrorInvalidValue);
  if (c->origin != s) return leave(cudaErrorStreamCaptureUnmatched);
  if (c->mode != cudaStreamCaptureModeRelaxed && c->thread != std::this_thread::get_id())
    return leave(cudaErrorStreamCaptureWrongThread);
  bool good = joined(*c);
  end(c);
  if (c->invalid) return leave(cudaErrorStreamCaptureInvalidated);
  if (!good) return leave(cudaErrorStreamCaptureUnjoined);
  *out = new CUgraph_st{std::move(c->nodes)};
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *out) {
  CUDASIM_ENTER(cudaStreamIsCapturing);
  auto &c = stream_of(stream)->capture;
  *out = !c           ? cudaStreamCaptureStatusNone
         : c->invalid ? cudaStreamCaptureStatusInvalidated
                      : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode) {
  CUDASIM_ENTER(cudaThreadExchangeStreamCaptureMode);
  std::swap(*mode, thread_mode);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t e, unsigned) {
  CUDASIM_ENTER(cudaStreamWaitEvent);
  static int waits;
  if (++waits == knobs().forget) return cudaSuccess;
  CUstream_st *s = stream_of(stream);
  if (e->capture) {
    if (e->capture->ended) return leave(cudaErrorCapturedEvent);
    if (s->capture && s->capture != e->capture) {
      s->capture->invalid = e->capture->invalid = true;
      return leave(cudaErrorStreamCaptureMerge);
    }
    if (!s->capture) {
      s->capture = e->capture;
      s->tail.clear();
    }
    s->tail.insert(s->tail.end(), e->tail.begin(), e->tail.end());
    return cudaSuccess;
  }
  if (s->capture) { /* on work outside of the capture */
    if (!e->mark) return cudaSuccess;
    s->capture->invalid = true;
    return leave(cudaErrorStreamCaptureIsolation);
  }
  if (!e->mark || e->mark->done) return cudaSuccess;
  return leave(add(stream, "wait", nullptr, {e->mark}));
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long) {
  CUDASIM_ENTER(cudaGraphInstantiate);
  if (!graph) return leave(cudaErrorInvalidValue);
  *out = new CUgraphExec_st{std::make_shared<std::vector<Node>>(graph->nodes)};
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
  CUDASIM_ENTER(cudaGraphUpload);
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  CUDASIM_ENTER(cudaGraphLaunch);
  auto run = std::make_shared<Run>(Run{exec->nodes, {}});
  return leave(add(stream, "graph", [run](bool first) {
    if (first) run->states.assign(run->nodes->size(), Run::waiting);
    return run_nodes(*run);
  }));
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  CUDASIM_ENTER(cudaGraphExecDestroy);
  delete exec;
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  CUDASIM_ENTER(cudaGraphDestroy);
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *n) {
  CUDASIM_ENTER(cudaGraphGetNodes);
  if (nodes) return leave(cudaErrorNotSupported);
  *n = graph->nodes.size();
  return cudaSuccess;
}
}
