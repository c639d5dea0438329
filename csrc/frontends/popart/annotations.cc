#include "frontends/popart/annotations.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <vector>

#include "support/error.h"

namespace ipu::frontends::popart {
namespace {

using records::NodeRecord;

// Importers read these: they are part of what the node means.
bool is_meaning(std::string_view name) {
  return name == "__collectiveOperator" || name == "__collectiveCommGroup" || name == "__strided_groups" ||
         name == "__expected_iterations" || name.starts_with("__serialize_matmul_");
}

class Annotations {
 public:
  explicit Annotations(const SessionSettings& settings) : settings_(settings) {}

  void take(records::GraphRecord& graph) {
    for (NodeRecord& node : graph.nodes) {
      take(node);
      for (auto& [name, body] : node.subgraphs) take(body);
    }
  }

  // All nodes of the main graph say where they are, or none does.
  void check_complete(const records::GraphRecord& graph, const char* what,
                      std::optional<int> ir::Settings::*field) const {
    std::vector<std::string> without;
    size_t with = 0;
    for (const NodeRecord& node : graph.nodes) {
      if (node.type == "Constant") continue;
      if ((node.settings.*field).has_value())
        ++with;
      else
        without.push_back(records::described(node, node.version));
    }
    if (with == 0 || without.empty()) return;
    std::string list = without.front();
    for (size_t i = 1; i < std::min<size_t>(without.size(), 5); ++i) list += ", " + without[i];
    throw Error(
        ErrorCode::kOption,
        fmt::format("ops without a {}: {} of {} operators have one, and these have none: {}{}. Annotate all "
                    "operators, or none.",
                    what, with, with + without.size(), list, without.size() > 5 ? ", ..." : ""));
  }

 private:
  void take(NodeRecord& node) const {
    ir::Settings& settings = node.settings;
    std::vector<std::string> names;
    for (const auto& [name, value] : node.attributes)
      if (name.starts_with("__") && !is_meaning(name)) names.emplace_back(name);
    for (const std::string& name : names) {
      if (name == "__ipu_number" && settings_.uses_virtual_graphs)
        settings.ipu = number(node, name);
      else if (name == "__pipeline_stage" && settings_.uses_stages)
        settings.stage = number(node, name);
      else if (name == "__execution_phase" && settings_.uses_phases)
        settings.phase = number(node, name);
      else if (name == "__schedule_priority")
        settings.priority = node.attributes.real(name);
      else if (name == "__available_memory")
        settings.available_memory = node.attributes.real(name);
      else if (name == "__recompute_output_in_backward_pass")
        settings.recompute = recompute(node, node.attributes.integer(name));
      else if (name == "__output_tensor_location")
        location(node, name);
      else if (name == "__partials_type")
        partials(node, node.attributes.text(name));
      else if (name == "__outline")
        outline(node.attributes.texts(name), settings.outline);
      node.attributes.erase(name);
    }
  }

  static int number(const NodeRecord& node, const std::string& name) {
    const int64_t value = node.attributes.integer(name);
    if (value < 0 || value > 65535)
      throw Error(ErrorCode::kOption, fmt::format("annotation out of range: {} of {} is {}; it is 0 or more.",
                                                  name, records::described(node, node.version), value));
    return static_cast<int>(value);
  }

  ir::Recompute recompute(const NodeRecord& node, int64_t type) const {
    if (type == 0) return ir::Recompute::kDefault;
    if (type == 1) return ir::Recompute::kCheckpoint;
    if (settings_.uses_stages && !settings_.is_explicit)
      throw Error(
          ErrorCode::kOption,
          fmt::format(
              "recompute annotation in a pipeline: {} is annotated with RecomputeType.Recompute, and enablePipelining is "
              "true. Remove the annotation, and set autoRecomputation to RecomputationType.Pipeline to recompute.",
              records::described(node, node.version)));
    if (settings_.step.recomputation != ir::RecomputationMode::kNone && settings_.step.phases.declared < 2)
      throw Error(
          ErrorCode::kOption,
          fmt::format(
              "a mixture of auto and manual recomputation: {} is annotated with RecomputeType.Recompute, and "
              "autoRecomputation is not RecomputationType.NoRecompute. Use one of both.",
              records::described(node, node.version)));
    return ir::Recompute::kRecompute;
  }

  // Storage, tile sets of loading and of storing, and how results are sharded, which they never are.
  void location(NodeRecord& node, const std::string& name) const {
    const std::vector<int64_t> fields = node.attributes.integers(name);
    if (fields.size() < 3)
      throw Error(
          ErrorCode::kOption,
          fmt::format(
              "output location does not fit: {} of {} has {} numbers; Builder.outputTensorLocation writes 6.",
              name, records::described(node, node.version), fields.size()));
    const bool loads_io = fields[1] != 0, stores_io = fields[2] != 0;
    if ((loads_io || stores_io) && settings_.step.io_tiles == 0)
      throw Error(
          ErrorCode::kOption,
          fmt::format(
              "no tiles for I/O: the output location of {} asks for TileSet.IO, and numIOTiles is 0. Set it to "
              "32 or more, or use TileSet.Compute.",
              records::described(node, node.version)));
    std::string text = fields[0] == 0 ? ir::kOnChip : ir::kOffChip;
    if (fields[0] != 0) text += std::string(loads_io ? ir::kLoadsIo : "") + (stores_io ? ir::kStoresIo : "");
    node.settings.outline.set(ir::kOutputLocation, text);
  }

  // The setting of this op comes before the one of all ops: FLOAT too where all others have f16 partials.
  static void partials(NodeRecord& node, const std::string& given) {
    std::string type = given;
    std::transform(type.begin(), type.end(), type.begin(), [](unsigned char c) { return std::toupper(c); });
    if (type != "HALF" && type != "FLOAT")
      throw Error(ErrorCode::kOption,
                  fmt::format("no type of partial sums: setPartialsType says '{}' of {}; there are "
                              "FLOAT and HALF.",
                              quotation(given), records::described(node, node.version)));
    node.settings.outline.set(node.type == "MatMul" ? "matmul_partials" : "multi_conv_partials",
                              std::string(type == "HALF" ? "half" : "float"));
  }

  static void outline(const std::vector<std::string>& flat, Attributes& into) {
    for (size_t i = 0; i + 1 < flat.size(); i += 2) into.set(flat[i], flat[i + 1]);
  }

  const SessionSettings& settings_;
};

}  // namespace

void take_annotations(records::GraphRecord& graph, const SessionSettings& settings) {
  Annotations annotations(settings);
  annotations.take(graph);
  annotations.check_complete(graph, "virtual graph", &ir::Settings::ipu);
  annotations.check_complete(graph, "pipeline stage", &ir::Settings::stage);
}

}  // namespace ipu::frontends::popart
