#include "frontends/popxl/placement.h"

#include <algorithm>
#include <set>
#include <utility>

#include "frontends/popxl/op_kind.h"

namespace ipu::popxl {
namespace {

// Returns where the op reads its input `index` (as_reader) or writes its output `index`.
Place place_of_op(const Op& op, bool as_reader, int index) {
  const std::string& type = op.kind().type;
  std::optional<int64_t> ipu = op.settings.ipu;
  TileSet tiles = op.settings.tile_set;
  if (type == "IpuCopy") ipu = op.attributes.integer(as_reader ? "source" : "destination");
  if (type == "AllReduce") {  // one input and one output on each of several IPUs
    const auto* ipus = std::get_if<std::vector<int64_t>>(op.attributes.find("ipus"));
    if (ipus != nullptr && index < std::ssize(*ipus)) ipu = (*ipus)[static_cast<size_t>(index)];
  }
  if (type == "IoTileCopy") {
    const bool to_io = op.attributes.integer("to", 0) == static_cast<int64_t>(TileSet::kIo);
    tiles = to_io != as_reader ? TileSet::kIo : TileSet::kCompute;
  }
  return {ipu, tiles};
}

bool runs_graphs(const Op& op) { return !op.callees.empty(); }

// From where a walk comes to a tensor: from the graph that calls its graph, or not.
enum class From : uint8_t { kInside, kCaller };

// Walks from a tensor to an op that has a place: producers first, then call sites, then readers. Of an op that runs a graph the
// graph is asked first, for what it does with the value itself, not for where it is called.
class Walk {
 public:
  std::optional<Place> find(const Tensor& tensor, From from = From::kInside) {
    if (!seen_.emplace(&tensor, from).second) return std::nullopt;
    if (const Op* producer = tensor.producer(); producer != nullptr) {
      if (runs_graphs(*producer))
        if (const Tensor* output = inner_output(*producer, tensor.producer_output()); output != nullptr)
          if (auto place = find(*output)) return place;
      if (producer->settings.ipu || producer->kind().type == "IpuCopy")
        return place_of_op(*producer, false, tensor.producer_output());
    }
    const auto& inputs = tensor.graph().inputs;
    if (const auto at = std::find(inputs.begin(), inputs.end(), &tensor);
        at != inputs.end() && from == From::kInside)
      if (auto place = at_call_sites(tensor.graph(), static_cast<int>(at - inputs.begin()))) return place;
    for (const Tensor::Use& use : tensor.uses()) {
      if (runs_graphs(*use.op)) {
        if (const Tensor* input = inner_input(*use.op, use.input); input != nullptr)
          if (auto place = find(*input, From::kCaller)) return place;
      }
      if (use.op->settings.ipu || use.op->kind().type == "IpuCopy")
        return place_of_op(*use.op, true, use.input);
    }
    return std::nullopt;
  }

 private:
  std::optional<Place> at_call_sites(const Graph& graph, int input) {
    for (const Op* op : graph.sites())
      for (size_t b = 0; b < op->callees.size(); ++b) {
        if (op->callees[b] != &graph) continue;
        int index = input;
        if (b < op->callee_inputs.size()) {
          const auto found = op->callee_inputs[b].find(input);
          if (found == op->callee_inputs[b].end()) continue;
          index = found->second;
        }
        const Tensor* argument = op->input(index);
        if (argument == nullptr) continue;
        if (auto place = find(*argument)) return place;
        if (op->settings.ipu) return place_of_op(*op, true, index);
      }
    return std::nullopt;
  }

  static const Tensor* inner_input(const Op& op, int i) {
    if (op.callee_inputs.empty()) {
      const auto& inputs = op.callees[0]->inputs;
      return i >= 0 && i < static_cast<int>(inputs.size()) ? inputs[static_cast<size_t>(i)] : nullptr;
    }
    for (size_t b = 0; b < op.callee_inputs.size(); ++b)
      for (const auto& [input, index] : op.callee_inputs[b])
        if (index == i && input < static_cast<int>(op.callees[b]->inputs.size()))
          return op.callees[b]->inputs[static_cast<size_t>(input)];
    return nullptr;
  }

  static const Tensor* inner_output(const Op& op, int i) {
    if (op.kind().type == "Loop") ++i;
    if (op.callee_outputs.empty()) {
      const auto& outputs = op.callees[0]->outputs;
      return i < static_cast<int>(outputs.size()) ? outputs[static_cast<size_t>(i)] : nullptr;
    }
    for (size_t b = 0; b < op.callee_outputs.size(); ++b)
      for (const auto& [output, index] : op.callee_outputs[b])
        if (index == i && output < static_cast<int>(op.callees[b]->outputs.size()))
          return op.callees[b]->outputs[static_cast<size_t>(output)];
    return nullptr;
  }

  std::set<std::pair<const Tensor*, From>> seen_;
};

}  // namespace

Place place_of(const Tensor& tensor) { return Walk().find(tensor).value_or(Place{}); }

}  // namespace ipu::popxl
