#include "frontends/popart/placement.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <vector>

#include "support/error.h"
#include "support/foreign_text.h"

namespace ipu::frontends::popart {
namespace {

using records::GraphRecord;
using records::NodeRecord;

std::string shown(const NodeRecord& node) { return records::described(node, node.version); }

bool is_placed(const NodeRecord& node) { return node.type != "Constant"; }

// Names of the outer graph that a node reads, those of its subgraphs too.
void add_reads(const NodeRecord& node, std::set<std::string>& names) {
  for (const std::string& name : node.operands)
    if (!name.empty()) names.insert(name);
  for (const auto& [attribute, body] : node.subgraphs) {
    for (const NodeRecord& inner : body.nodes) add_reads(inner, names);
    for (const std::string& name : body.outputs) names.insert(name);
  }
}

class Placement {
 public:
  Placement(GraphRecord& graph, const SessionSettings& settings) : graph_(graph), settings_(settings) {
    for (const NodeRecord& node : graph.nodes) {
      std::set<std::string>& names = reads_.emplace_back();
      add_reads(node, names);
      for (const std::string& result : node.results)
        if (!result.empty()) producers_[result] = &node;
    }
  }

  std::map<std::string, StepOptions::Placement> run() {
    if (settings_.uses_virtual_graphs)
      require("virtual graph", "virtualGraphMode is Manual", "builder.virtualGraph", &ir::Settings::ipu);
    if (settings_.uses_phases) place_phases();
    if (settings_.uses_stages) place_stages();
    std::map<std::string, StepOptions::Placement> places;
    name_blocks(graph_, "", places);
    return places;
  }

 private:
  void require(const char* what, const char* why, const char* cure,
               std::optional<int> ir::Settings::*field) const {
    const bool has_any = std::any_of(graph_.nodes.begin(), graph_.nodes.end(), [&](const NodeRecord& node) {
      return (node.settings.*field).has_value();
    });
    if (!has_any)
      throw Error(ErrorCode::kOption,
                  fmt::format("no {}: {}, and none of {} operators has a {}. Annotate all of them with {}.",
                              what, why, graph_.nodes.size(), what, cure));
  }

  // IPUs take turns.
  void place_phases() {
    require("execution phase", "virtualGraphMode is ExecutionPhases", "builder.executionPhase",
            &ir::Settings::phase);
    find_phases();
    const int64_t phases = settings_.step.phases.declared;
    for (NodeRecord& node : graph_.nodes) {
      if (!node.settings.phase.has_value()) continue;
      if (*node.settings.phase >= phases)
        throw Error(
            ErrorCode::kOption,
            fmt::format("execution phase out of range: {} is in phase {}, and executionPhaseSettings.phases "
                        "is {}, so phases are 0 to {}.",
                        shown(node), *node.settings.phase, phases, phases - 1));
      node.settings.ipu = *node.settings.phase % settings_.phase_groups;
    }
    check_flow("execution phase", &ir::Settings::phase);
  }

  // A node without a phase is in the last one that it reads from, else in the first one of its readers.
  void find_phases() {
    std::vector<NodeRecord>& nodes = graph_.nodes;
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].settings.phase.has_value() || !is_placed(nodes[i])) continue;
      for (const std::string& name : reads_[i]) {
        const auto at = producers_.find(name);
        if (at == producers_.end() || !at->second->settings.phase.has_value()) continue;
        nodes[i].settings.phase = std::max(nodes[i].settings.phase.value_or(0), *at->second->settings.phase);
      }
    }
    std::map<std::string, int> first;  // phase of the first reader, by name
    for (size_t i = nodes.size(); i-- > 0;) {
      std::optional<int>& phase = nodes[i].settings.phase;
      if (!is_placed(nodes[i])) continue;
      if (!phase.has_value()) {
        for (const std::string& result : nodes[i].results)
          if (const auto at = first.find(result); at != first.end())
            phase = std::min(phase.value_or(at->second), at->second);
        phase = phase.value_or(0);
      }
      for (const std::string& name : reads_[i]) {
        const auto [at, is_new] = first.try_emplace(name, *phase);
        at->second = std::min(at->second, *phase);
      }
    }
  }

  void place_stages() {
    const bool is_annotated =
        std::any_of(graph_.nodes.begin(), graph_.nodes.end(),
                    [](const NodeRecord& node) { return node.settings.stage.has_value(); });
    if (!is_annotated) {
      check_flow("virtual graph", &ir::Settings::ipu);
      std::map<int, int> stage_of_ipu;
      for (const NodeRecord& node : graph_.nodes)
        if (node.settings.ipu.has_value()) stage_of_ipu[*node.settings.ipu] = 0;
      int stage = 0;
      for (auto& [ipu, number] : stage_of_ipu) number = stage++;
      for (NodeRecord& node : graph_.nodes)
        if (node.settings.ipu.has_value()) node.settings.stage = stage_of_ipu.at(*node.settings.ipu);
    }
    check_stages();
    check_flow("pipeline stage", &ir::Settings::stage);
    check_sharing();
    if (settings_.uses_virtual_graphs && !settings_.finds_virtual_graphs) check_callees();
    check_fill();
  }

  void check_stages() {
    std::map<int, const NodeRecord*> first;
    for (const NodeRecord& node : graph_.nodes) {
      if (!node.settings.stage.has_value()) continue;
      const auto [at, is_new] = first.try_emplace(*node.settings.stage, &node);
      const int ipu = node.settings.ipu.value_or(0), other = at->second->settings.ipu.value_or(0);
      if (ipu != other)
        throw Error(
            ErrorCode::kOption,
            fmt::format(
                "a pipeline stage on two virtual graphs: in stage {}, {} is on virtual graph {} and {} "
                "on {}. Operators of a stage share a virtual graph.",
                *node.settings.stage, shown(*at->second), other, shown(node), ipu));
    }
    if (first.empty())
      throw Error(
          ErrorCode::kOption,
          "no pipeline stages: enablePipelining is true, and no operator has a virtual graph or a stage.");
    int expected = 0;
    for (const auto& [stage, node] : first) {
      if (stage != expected)
        throw Error(
            ErrorCode::kOption,
            fmt::format(
                "missing pipeline stage: no operator is in stage {}, and {} is in stage {}. Stages are "
                "0, 1, 2 ... without gaps.",
                expected, shown(*node), stage));
      ++expected;
    }
    int previous = -1;
    for (const auto& [stage, node] : first) {
      const int ipu = node->settings.ipu.value_or(0);
      if (ipu != previous) ++stages_;  // consecutive stages on an IPU are one
      previous = ipu;
    }
    if (stages_ < 2)
      throw Error(
          ErrorCode::kOption,
          fmt::format(
              "a pipeline of one stage: enablePipelining is true, and all {} stages are on virtual graph "
              "{}. Spread them over two virtual graphs or more, or set enablePipelining to False.",
              first.size(), previous));
  }

  void check_flow(const char* what, std::optional<int> ir::Settings::*field) const {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const NodeRecord& node = graph_.nodes[i];
      if (!(node.settings.*field).has_value()) continue;
      for (const std::string& name : reads_[i]) {
        const auto at = producers_.find(name);
        if (at == producers_.end()) continue;
        const std::optional<int> before = at->second->settings.*field;
        if (before.has_value() && *before > *(node.settings.*field))
          throw Error(
              ErrorCode::kOption,
              fmt::format(
                  "{} going back: {} is on {} {}, and reads '{}', which {} makes on {} {}. Numbers do "
                  "not decrease along the flow of data.",
                  what, shown(node), what, *(node.settings.*field), quotation(name), shown(*at->second), what,
                  *before));
      }
    }
  }

  // What runs in a callee runs where the call does, and says so.
  void check_callees() const {
    for (const NodeRecord& node : graph_.nodes)
      if (node.type == "Call" && node.settings.ipu.has_value())
        for (const auto& [name, callee] : node.subgraphs) check_callee(node, callee);
  }

  static void check_callee(const NodeRecord& call, const GraphRecord& callee) {
    const int ipu = *call.settings.ipu;
    for (const NodeRecord& node : callee.nodes) {
      if (is_placed(node) && node.settings.ipu != ipu)
        throw Error(
            ErrorCode::kOption,
            fmt::format(
                "a callee on another virtual graph: {} is on virtual graph {}, and {} of its callee {}. In a "
                "pipeline all operators of a callee are on the virtual graph of the call: set it with "
                "virtualGraph of the callee's builder.",
                shown(call), ipu, shown(node),
                node.settings.ipu.has_value() ? fmt::format("is on {}", *node.settings.ipu) : "on none"));
      for (const auto& [name, inner] : node.subgraphs) check_callee(call, inner);
    }
  }

  // In a pipeline a variable lives on one IPU. What comes from the host is passed on.
  void check_sharing() const {
    std::set<std::string> variables;
    for (const GraphRecord::Initialiser& initialiser : graph_.initialisers)
      if (initialiser.trained || initialiser.is_variable) variables.insert(initialiser.name);
    std::map<std::string, const NodeRecord*> readers;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const NodeRecord& node = graph_.nodes[i];
      if (!node.settings.ipu.has_value()) continue;
      for (const std::string& name : reads_[i]) {
        if (!variables.contains(name)) continue;
        const NodeRecord& other = *readers.try_emplace(name, &node).first->second;
        if (*other.settings.ipu == *node.settings.ipu) continue;
        throw Error(
            ErrorCode::kOption,
            fmt::format(
                "read on two virtual graphs of a pipeline: the variable '{}' is read by {} on virtual graph {} "
                "and by {} on {}. Put its readers on one virtual graph.",
                quotation(name), shown(other), *other.settings.ipu, shown(node), *node.settings.ipu));
      }
    }
  }

  void check_fill() const {
    const StepOptions& step = settings_.step;
    const bool is_training = !settings_.loss.empty();
    const bool accumulates = is_training && settings_.accumulates;
    const int64_t needed = is_training ? 2 * stages_ - 1 : stages_;
    const int64_t given = accumulates ? step.accumulation : step.device_iterations;
    if (given >= needed) return;
    throw Error(
        ErrorCode::kOption,
        fmt::format(
            "too few micro-batches for the pipeline: {} is {}, and a pipeline of {} stages{} needs {} or more. "
            "Set {} to {}.",
            accumulates ? "accumulationFactor" : "batchesPerStep", given, stages_,
            is_training ? fmt::format(" and {} of the backward pass", stages_ - 1) : "", needed,
            accumulates ? "accumulationFactor" : "batchesPerStep", needed));
  }

  // The settings name blocks from now on instead of IPUs, stages and phases. A body is where its node is.
  void name_blocks(GraphRecord& graph, const std::string& outer,
                   std::map<std::string, StepOptions::Placement>& places) const {
    for (NodeRecord& node : graph.nodes) {
      ir::Settings& settings = node.settings;
      if (!outer.empty()) {
        settings.block = outer;
      } else if (is_placed(node) && (settings.ipu.has_value() || settings.stage.has_value())) {
        StepOptions::Placement place;
        place.ipu = settings.ipu.value_or(0);
        place.stage = settings.stage.value_or(place.ipu);
        place.phase = settings.phase.value_or(0);
        settings.block = fmt::format("stage {}, ipu {}, phase {}", place.stage, place.ipu, place.phase);
        places[settings.block] = place;
      }
      settings.ipu = settings.stage = settings.phase = std::nullopt;  // `places` says it
      for (auto& [name, body] : node.subgraphs) name_blocks(body, settings.block, places);
    }
  }

  GraphRecord& graph_;
  const SessionSettings& settings_;
  std::vector<std::set<std::string>> reads_;  // of each node
  std::map<std::string, const NodeRecord*> producers_;
  int64_t stages_ = 0;
};

}  // namespace

std::map<std::string, StepOptions::Placement> place_nodes(records::ModelRecord& model,
                                                          const SessionSettings& settings) {
  if (settings.finds_virtual_graphs) assign_virtual_graphs(model, settings);
  return Placement(model.graph, settings).run();
}

}  // namespace ipu::frontends::popart
