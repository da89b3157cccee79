// SPDX-License-Identifier: MIT
#include "experiments/gemm/launch_edges.h"

#include <algorithm>
#include <vector>

namespace swr {
namespace {

/// Of CUDA 12.3 and later, with the kind of each edge.
using GetEdges = CUresult(CUgraph, CUgraphNode*, CUgraphNode*, CUgraphEdgeData*, size_t*);

std::vector<CUgraphEdgeData> edges_of(CUgraph graph) {
  static const auto get_edges = cuda_driver().library.function<GetEdges>("cuGraphGetEdges_v2");
  std::size_t count = 0;
  require_success(get_edges(graph, nullptr, nullptr, nullptr, &count), "cuGraphGetEdges");
  std::vector<CUgraphNode> from(count);
  std::vector<CUgraphNode> to(count);
  std::vector<CUgraphEdgeData> edges(count);
  require_success(get_edges(graph, from.data(), to.data(), edges.data(), &count),
                  "cuGraphGetEdges");
  return edges;
}

}  // namespace

bool overlaps_itself(const Stream& stream, const std::function<void()>& launch) {
  const CudaDriver& driver = cuda_driver();
  CUgraph graph = nullptr;
  driver.stream_begin_capture(stream.handle(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  launch();
  launch();
  driver.stream_end_capture(stream.handle(), &graph);
  const std::vector<CUgraphEdgeData> edges = edges_of(graph);
  driver.graph_destroy(graph);
  return std::ranges::any_of(edges, [](const CUgraphEdgeData& edge) {
    return edge.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  });
}

}  // namespace swr
