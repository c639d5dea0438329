// The captured graph in the native log.
#include <c10/core/ScalarType.h>

#include <list>
#include <map>
#include <string>
#include <unordered_set>

#include "frontends/torch/device_key.h"
#include "frontends/torch/executor/back_end_form.h"
#include "frontends/torch/executor/index_groups.h"
#include "support/log.h"

namespace ipu::frontends::torch_frontend {
namespace {

std::string dims(const Shape& shape) {
  std::string text;
  for (const int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return text;
}

// "Float(2, 3, strides=[3, 1], requires_grad=0, device=ipu:0)"
std::string torch_type(const ir::Type& type) {
  std::string strides;
  int64_t stride = 1;
  for (size_t i = type.shape.size(); i-- > 0;) {
    strides = std::to_string(stride) + (strides.empty() ? "" : ", ") + strides;
    stride *= type.shape[i];
  }
  const std::string sizes = dims(type.shape);
  return c10::toString(scalar_type(type.dtype)) + std::string("(") + sizes + (sizes.empty() ? "" : ", ") +
         "strides=[" + strides + "], requires_grad=0, device=ipu:0)";
}

std::string short_type(const ir::Type& type) {
  return std::string(c10::getDtypeNames(scalar_type(type.dtype)).first) + "(" + dims(type.shape) + ")";
}

std::string lower_case(std::string text) {
  for (char& c : text) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return text;
}

// %1 = popart::matmul[trans_a=0](%2, %3), without the type of the result; by the names of torch aten::mm.
class Nodes {
 public:
  using Ops = std::unordered_set<const ir::Op*>;
  // Results of `left_out` are what they expand.
  explicit Nodes(const Ops& left_out, bool names_of_torch = false)
      : left_out_(left_out), names_of_torch_(names_of_torch) {}

  std::string value(const ir::Value* value) {
    if (value->producer() != nullptr && left_out_.contains(value->producer()))
      value = value->producer()->operand(0);
    return "%" + std::to_string(numbers_.try_emplace(value, numbers_.size() + 1).first->second);
  }
  std::string fresh() {
    return "%" +
           std::to_string(numbers_.try_emplace(&spare_.emplace_back(), numbers_.size() + 1).first->second);
  }

  std::string node(const ir::Op& op) {
    std::string text = name(op);
    std::string attributes;
    for (const auto& [name, attribute] : op.attributes) {
      std::string shown;
      if (const auto* flag = std::get_if<bool>(&attribute)) shown = std::to_string(static_cast<int>(*flag));
      if (const auto* integer = std::get_if<int64_t>(&attribute)) shown = std::to_string(*integer);
      if (const auto* real = std::get_if<double>(&attribute)) shown = std::to_string(*real);
      if (const auto* list = std::get_if<std::vector<int64_t>>(&attribute))
        shown = "[" + dims(Shape(list->begin(), list->end())) + "]";
      if (!shown.empty()) attributes += (attributes.empty() ? "" : ", ") + name + "=" + shown;
    }
    if (!attributes.empty()) text += "[" + attributes + "]";
    text += "(";
    bool first = true;
    for (int i = 0; i < op.operand_count(); ++i) {
      if (op.operand(i) == nullptr) continue;
      text += (first ? "" : ", ") + value(op.operand(i));
      first = false;
    }
    return text + ")";
  }

 private:
  std::string name(const ir::Op& op) const {
    if (names_of_torch_ && op.origin != nullptr)
      return op.origin->domain + "::" + op.origin->type.substr(0, op.origin->type.find('.'));
    return "popart::" + lower_case(type_name(op));
  }

  const Ops& left_out_;
  const bool names_of_torch_;
  std::map<const void*, size_t> numbers_;
  std::list<int> spare_;  // addresses of values that the graph does not have
};

std::string proportion(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  return text;
}

// Expanded indices that the back end reads without making them.
void log_expansions(const ForwardGraph& forward, const Nodes::Ops& unneeded) {
  const Nodes::Ops none;
  Nodes nodes(none, true);
  for (const auto& op : forward.graph->ops()) {
    if (!unneeded.contains(op.get())) continue;
    const bool gathers = op->result()->uses().front().user->is("gather");
    log(gathers ? LogLevel::kDebug : LogLevel::kTrace,
        (gathers ? "Optimising gather: " : "Removing index expansion node: ") + nodes.value(op->result()) +
            " : " + torch_type(op->result()->type()) + " = " + nodes.node(*op));
  }
}

void log_text(const ForwardGraph& forward, const Nodes::Ops& unneeded) {
  Nodes nodes(unneeded);
  std::string text = "Graph before lowering to PopART:\ngraph(";
  const auto& inputs = forward.graph->inputs();
  for (size_t i = 0; i < inputs.size(); ++i)
    text += (i == 0 ? "" : ",\n      ") + nodes.value(inputs[i]) + " : " + torch_type(inputs[i]->type());
  text += "):\n";
  for (const auto& op : forward.graph->ops()) {
    if (op->is("constant") || op->result_count() == 0 || unneeded.contains(op.get())) continue;
    const std::string node = nodes.node(*op);
    std::string results;
    for (int r = 0; r < op->result_count(); ++r)
      results +=
          (r == 0 ? "" : ", ") + nodes.value(op->result(r)) + " : " + torch_type(op->result(r)->type());
    text += "  " + results + " = " + node + "\n";
    if (op->settings.available_memory)
      text += "  " + nodes.fresh() + " : " + torch_type(op->result()->type()) +
              " = poptorch::set_available_memory[available_memory_proportion=" +
              proportion(*op->settings.available_memory) + "](" + nodes.value(op->result()) + ")\n";
  }
  text += "  return (";
  for (size_t i = 0; i < forward.graph->outputs().size(); ++i)
    text += (i == 0 ? "" : ", ") + nodes.value(forward.graph->outputs()[i]);
  log(LogLevel::kTrace, text + ")");
}

void log_inputs(const ForwardGraph& forward, const ForwardNames& names, Nodes& nodes) {
  std::string text = "graph(";
  for (size_t i = 0; i < forward.inputs.size(); ++i) {
    using Kind = ForwardGraph::Input::Kind;
    const ForwardGraph::Input& input = forward.inputs[i];
    if (input.kind == Kind::kSeed) continue;
    const ir::Value* value = forward.graph->inputs()[i];
    const ir::Type& type = value->type();
    text += std::string("\n      ") + (input.kind == Kind::kHost ? "input: " : "param: ") +
            nodes.value(value) + " : " + torch_type(type) + " -> " + names.of.at(value) + " [" +
            short_type(type) + "]";
  }
  log(LogLevel::kDebug, text + "):");
}

// "mode(Pipelined), ipu(1), stage(1)"; phases have the numbers of the machine.
std::string place_of(const ir::Op& op, const StepOptions& step) {
  StepOptions::Placement place;
  if (auto at = step.places.find(op.settings.block); at != step.places.end()) place = at->second;
  constexpr const char* kModes[] = {"Sharded", "Pipelined", "Phased"};  // in the order of Schedule
  const std::string text = std::string("mode(") + kModes[static_cast<size_t>(step.schedule)] + "), ipu(" +
                           std::to_string(place.ipu) + "), ";
  if (step.schedule != Schedule::kPhased) return text + "stage(" + std::to_string(place.stage) + ")";
  return text + "phase(" + std::to_string(number_phases(step.phases).stride * place.phase) + ")";
}

}  // namespace

void log_graph(const ForwardGraph& forward, const StepOptions& step) {
  if (!log_enabled(LogLevel::kDebug)) return;
  const Nodes::Ops unneeded = unneeded_expansions(*forward.graph);
  log_expansions(forward, unneeded);
  if (log_enabled(LogLevel::kTrace)) log_text(forward, unneeded);
  const ForwardNames names = forward_names(forward);
  Nodes nodes(unneeded, true);
  log_inputs(forward, names, nodes);
  log(LogLevel::kDebug, "Graph lowered to PopART {");
  for (const auto& op : forward.graph->ops()) {
    if (op->is("constant") || op->result_count() == 0 || unneeded.contains(op.get())) continue;
    const std::string node = nodes.node(*op);
    std::string made, types;
    for (int r = 0; r < op->result_count(); ++r) {
      made += (r == 0 ? "" : ", ") + names.of.at(op->result(r));
      types += (r == 0 ? "" : ", ") + short_type(op->result(r)->type());
    }
    log(LogLevel::kDebug, "  " + nodes.value(op->result()) + " = " + node + " was lowered to " + made + " [" +
                              types + ", " + place_of(*op, step) + "]");
  }
  log(LogLevel::kDebug, "}");
}

}  // namespace ipu::frontends::torch_frontend
