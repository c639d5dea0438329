#include "frontends/torch/executor/back_end_form.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "executable/machine_operators.h"
#include "frontends/torch/executor/index_groups.h"
#include "ir/node_marks.h"
#include "ir/structure.h"
#include "ops/definition/op_def.h"
#include "ops/indexing/index_support.h"
#include "support/interruption.h"

namespace ipu::frontends::torch_frontend {
namespace {

std::string dtype_name(DType dtype) {
  constexpr std::string_view kNames[] = {// in the order of DType
                                         "FLOAT",  "FLOAT16", "FLOAT8_143", "FLOAT8_152", "INT32",
                                         "UINT32", "INT16",   "UINT16",     "INT8",       "UINT8",
                                         "BOOL",   "INT64",   "DOUBLE"};
  return std::string(kNames[static_cast<size_t>(dtype)]);
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

template <typename T, typename F>
std::string listed(const std::vector<T>& values, F text) {
  std::string list = "[";
  for (const T& value : values) list += (list.size() > 1 ? " " : "") + text(value);
  return list + "]";
}

// "" for what is no text: constants.
std::string attribute_text(const Attribute& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* integer = std::get_if<int64_t>(&value)) return std::to_string(*integer);
  if (const auto* real = std::get_if<double>(&value)) return number(*real);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* dtype = std::get_if<DType>(&value)) return dtype_name(*dtype);
  if (const auto* symbol = std::get_if<Symbol>(&value)) return symbol->name;
  if (const auto* list = std::get_if<std::vector<int64_t>>(&value))
    return listed(*list, [](int64_t i) { return std::to_string(i); });
  if (const auto* list = std::get_if<std::vector<double>>(&value)) return listed(*list, number);
  if (const auto* list = std::get_if<std::vector<std::string>>(&value))
    return listed(*list, [](const std::string& s) { return s; });
  return "";
}

std::string context_name(ir::Context context) {
  if (context == ir::Context::kAccumulateOuter) return "AccumulateOuterFragment";
  return context == ir::Context::kWeightTransfer ? "WeightsFromHostFragment" : "Normal";
}

// What makes a value, as the machine's facts name it.
std::string node_of(const ir::Op& op) { return op.origin->attributes.text(ir::kOriginNode); }

// Each op is a node of its own, as the machine's passes see it.
void mark_nodes(ir::Module& module) {
  int64_t number = 0;
  for (const auto& graph : module.graphs())
    for (const auto& op : graph->ops()) {
      ir::Origin origin = op->origin == nullptr ? ir::Origin{} : *op->origin;
      origin.attributes.set(ir::kOriginNode, std::to_string(number++));
      op->origin = std::make_shared<const ir::Origin>(std::move(origin));
    }
}

class Maker {
 public:
  // `machine`: of the module whose ops have their nodes.
  Maker(const ForwardGraph& forward, const StepOptions& step, const PartialsTypes& partials,
        executable::MachineOperators machine)
      : forward_(forward),
        step_(step),
        partials_(partials),
        machine_(std::move(machine)),
        names_(forward_names(forward)) {
    for (const executable::Crossing& crossing : machine_.crossings)
      sent_.emplace(crossing.node, crossing.to_ipu);
    std::set<int> ipus;
    for (const auto& op : forward.graph->ops()) ipus.insert(place(op->settings.block).ipu);
    pipelined_ = step.schedule == Schedule::kPipelined && ipus.size() > 1;
  }

  BackEndForm make() {
    const bool overlaps =
        std::any_of(forward_.inputs.begin(), forward_.inputs.end(), is_overlapped<ForwardGraph::Input>) ||
        std::any_of(forward_.outputs.begin(), forward_.outputs.end(), is_overlapped<ForwardGraph::Output>);
    if (overlaps) loads();
    graph(*forward_.graph, false);
    if (overlaps) stores();
    if (step_.training) {
      const std::vector<const ir::Graph*> backward = gradient_graphs();
      stashes();
      for (const ir::Graph* gradient : backward) graph(*gradient, true);
      for (size_t i = 0; i < forward_.inputs.size(); ++i)
        update(forward_.inputs[i], *forward_.graph->inputs()[i]);
    }
    for (size_t i = 0; i < bodies_.size(); ++i) {  // bodies in bodies come behind
      form_.bodies.emplace_back(bodies_[i].first->name(), std::vector<BackEndOperation>());
      list_ = &form_.bodies.back().second;
      this->graph(*bodies_[i].first, bodies_[i].second);
    }
    return std::move(form_);
  }

 private:
  template <class Edge>
  static bool is_overlapped(const Edge& edge) {
    return edge.exchange != ir::ExchangeStrategy::kJustInTime;
  }

  BackEndOperation transfer(const std::string& type, const std::string& block, ir::ExchangeStrategy exchange,
                            bool on_io_tiles) const {
    BackEndOperation made = start(type, type, block, ir::Context::kForward);
    if (on_io_tiles) made.attributes["tileSet"] = "IO";
    constexpr std::string_view kNames[] = {"JustInTime", "OverlapInnerLoop", "OverlapLoops", "OverlapStep"};
    made.attributes["exchangeStrategy"] = kNames[static_cast<size_t>(exchange)];
    return made;
  }

  // With overlapped I/O, PopART loads and stores by operations.
  void loads() {
    for (size_t i = 0; i < forward_.inputs.size(); ++i) {
      const ForwardGraph::Input& input = forward_.inputs[i];
      if (input.kind != ForwardGraph::Input::Kind::kHost) continue;
      const ir::Value& value = *forward_.graph->inputs()[i];
      const bool overlapped = is_overlapped(input);
      const std::string block = value.uses().empty() ? "" : value.uses().front().user->settings.block;
      BackEndOperation load = transfer("HostLoad", block, input.exchange, overlapped);
      load.outputs = {tensor(value)};
      if (overlapped) load.outputs[0].name += "_io";
      form_.operations.push_back(load);
      if (!overlapped) continue;
      BackEndOperation copy = transfer("IoTileCopy", block, input.exchange, false);
      copy.inputs = load.outputs;
      copy.outputs = {tensor(value)};
      form_.operations.push_back(std::move(copy));
    }
  }

  void stores() {
    for (size_t i = 0; i < forward_.outputs.size(); ++i) {
      const ForwardGraph::Output& output = forward_.outputs[i];
      if (output.kind != ForwardGraph::Output::Kind::kHost) continue;
      const ir::Value& value = *forward_.graph->outputs()[i];
      const bool overlapped = is_overlapped(output);
      const std::string block = value.producer() == nullptr ? "" : value.producer()->settings.block;
      BackEndOperation store = transfer("HostStore", block, output.exchange, overlapped);
      store.inputs = {tensor(value)};
      if (overlapped) {
        BackEndOperation copy = transfer("IoTileCopy", block, output.exchange, true);
        copy.inputs = {tensor(value)};
        store.inputs[0].name += "_io";
        copy.outputs = store.inputs;
        form_.operations.push_back(std::move(copy));
      }
      form_.operations.push_back(std::move(store));
    }
  }

  StepOptions::Placement place(const std::string& block) const {
    auto at = step_.places.find(block);
    return at == step_.places.end() ? StepOptions::Placement{} : at->second;
  }

  std::vector<const ir::Graph*> gradient_graphs() const {
    std::vector<const ir::Graph*> found;
    for (const auto& graph : forward_.graph->module()->graphs())
      for (const auto& op : graph->ops())
        if (op->is("call") && op->settings.context == ir::Context::kBackward)
          for (const ir::Graph* callee : ir::called_graphs(*op))
            if (std::find(found.begin(), found.end(), callee) == found.end()) found.push_back(callee);
    // Those that a body of another one calls are part of that body.
    std::set<const ir::Graph*> inside;
    for (const ir::Graph* graph : found) mark_inside(*graph, inside);
    std::erase_if(found, [&](const ir::Graph* graph) { return inside.contains(graph); });
    return found;
  }

  // The list makes neither duplicates nor expanded indices.
  const ir::Value& listed(const ir::Value& value) const {
    auto same = same_as_.find(&value);
    const ir::Value& made = same == same_as_.end() ? value : *same->second;
    return made.producer() != nullptr && unneeded_.contains(made.producer()) ? *made.producer()->operand(0)
                                                                             : made;
  }

  static void mark_inside(const ir::Graph& graph, std::set<const ir::Graph*>& inside) {
    for (const auto& op : graph.ops())
      for (const ir::Graph* callee : ir::called_graphs(*op))
        if (inside.insert(callee).second) mark_inside(*callee, inside);
  }

  std::string value_name(const ir::Value& value) {
    auto at = names_.of.find(&value);
    if (at != names_.of.end()) return at->second;
    return names_.of.emplace(&value, prefix_of(value) + value.name()).first->second;
  }

  // Returns the prefix of a name that is not from the forward pass. Each body of a loop or branch has its own prefix.
  std::string prefix_of(const ir::Value& value) const {
    return list_ != &form_.operations ? value.graph()->name() + "/" : "Gradient___";
  }

  BackEndTensor tensor(const ir::Value& given) {
    const ir::Value& value = listed(given);
    return {value_name(value), dtype_name(value.type().dtype), value.type().shape};
  }

  BackEndOperation start(const std::string& type, const std::string& name, const std::string& block,
                         ir::Context context) const {
    BackEndOperation made;
    made.type = type;
    made.name = name;
    const StepOptions::Placement at = place(block);
    made.attributes = {{"recompute", "NO"},
                       {"recomputetype", "Checkpoint"},
                       {"__ipu_number", std::to_string(at.ipu)},
                       {"tileSet", "Compute"},
                       {"__execution_context", context_name(context)},
                       {"scope", name.substr(0, name.rfind('/') == std::string::npos ? 0 : name.rfind('/'))},
                       {"schedulePriority", "0"}};
    if (pipelined_) made.attributes["__pipeline_stage"] = std::to_string(at.stage);
    if (step_.schedule == Schedule::kPhased && context != ir::Context::kAccumulateOuter) {
      const PhaseNumbers numbers = number_phases(step_.phases);
      const int64_t phase = numbers.stride * at.phase;
      made.attributes["__execution_phase"] =
          std::to_string(context == ir::Context::kBackward ? numbers.backward_base - phase : phase);
    }
    return made;
  }

  void annotate(BackEndOperation& made, const ir::Op& op) const {
    const ir::Settings& settings = op.settings;
    made.location = op.location;
    if (op.graph() == forward_.graph && machine_.marked.contains(node_of(op))) {
      made.attributes["recompute"] = "YES";
      made.attributes["recomputetype"] = "Recompute";
    }
    made.attributes["schedulePriority"] = number(settings.priority);
    for (const auto& [name, value] : op.attributes)
      if (const std::string text = attribute_text(value); !text.empty()) made.attributes.emplace(name, text);
    constexpr std::string_view kOutline = "__outline.", kSerialised = "serialization.";
    for (const auto& [name, value] : settings.outline)
      if (name.starts_with(kOutline)) {
        const std::string key = name.substr(kOutline.size());
        made.attributes[key] = key + ":" + attribute_text(value);
      } else if (name.starts_with(kSerialised)) {  // poptorch.serializedMatMul: of products alone
        if (made.type == "MatMul")
          made.attributes["serialization_" + name.substr(kSerialised.size())] = attribute_text(value);
      } else if (!name.starts_with("multi_conv") && name != ops::kClearsCounts) {
        made.attributes[name] = attribute_text(value);
      }
    if (settings.available_memory)
      made.attributes["available_memory_proportion"] = number(*settings.available_memory);
    if (made.type == "MatMul") {
      made.attributes["partialsType"] =
          partials_.products == "half" ? "MatMulPartialsType::HALF" : "MatMulPartialsType::FLOAT";
      made.attributes.emplace("serialization_mode", "None");
      made.attributes.emplace("serialization_factor", "0");
    }
    if (made.type == "Conv" || made.type == "MultiConv")
      made.attributes["partialsType[0]"] = partials_.convolutions;
    if (made.type == "ScatterReduce" || made.type == "Gather" || made.type == "GroupedGather") {
      made.attributes.emplace("group_size", "1");
      const Attribute* dim = op.attributes.find("dim");
      if (dim != nullptr && std::holds_alternative<int64_t>(*dim))
        made.attributes["axis"] = attribute_text(*dim);
    }
    if (made.type == "ScatterReduce") {
      made.attributes["reduction"] = reduction_of(op);
      const ir::Op* index = op.operand(1)->producer();
      const bool by_slices = op.is("index_add") || op.is("index_copy");
      made.attributes["index_broadcasted"] = by_slices || unneeded_.contains(index) ? "false" : "true";
    }
  }

  static std::string reduction_of(const ir::Op& op) {
    if (!op.is("scatter")) return op.is("index_copy") ? "none" : "sum";
    const std::string mode = op.attributes.text("mode", "assign");
    return mode == "assign" ? "none" : mode == "multiply" ? "mul" : mode;
  }

  // Operations of one key as one: their operands and results one after the other.
  void join(BackEndOperation& made, const std::vector<const ir::Op*>& members) {
    size_t size = 0;
    for (const ir::Op* op : members) {
      size += op->settings.outline.find(ops::kClearsCounts) != nullptr ? 2 : 1;
      if (op == members.front()) continue;
      for (int i = 0; i < op->operand_count(); ++i) made.inputs.push_back(tensor(*op->operand(i)));
      made.outputs.push_back(tensor(*op->result()));
    }
    made.attributes["group_size"] = std::to_string(size);
  }

  // PopART's in-place form: the first operand is read by nobody else and is no state.
  bool reuses_operand(const ir::Op& op) const {
    if (!ops::has_trait(op, ops::kElementwise) || op.operand_count() == 0 || op.operand(0) == nullptr)
      return false;
    const ir::Value& first = *op.operand(0);
    if (first.uses().size() != 1 || first.is_output() || first.type() != op.result()->type()) return false;
    return first.producer() != nullptr ? !first.producer()->is("constant") : is_host_input(first);
  }

  void copies(const ir::Op& op, ir::Context context) {
    const int here = place(op.settings.block).ipu;
    for (int i = 0; i < op.operand_count(); ++i) {
      const ir::Value* value = op.operand(i);
      if (value == nullptr || value->producer() == nullptr || value->producer()->is("constant")) continue;
      if (!sent_.contains({node_of(*value->producer()), here}) || !copied_.insert({value, here}).second)
        continue;
      BackEndOperation made = start("IpuCopy", "IpuCopy", value->producer()->settings.block, context);
      made.inputs = {tensor(*value)};
      made.outputs = {tensor(*value)};
      made.outputs[0].name += "_c" + std::to_string(here);
      made.attributes["__ipu_number_to"] = std::to_string(here);
      list_->push_back(std::move(made));
    }
  }

  void graph(const ir::Graph& graph, bool backward) {
    IndexGroups groups = group_indexing(graph);
    same_as_.merge(groups.same_as);
    unneeded_.merge(unneeded_expansions(graph));
    for (const std::vector<const ir::Op*>& members : groups.entries) {
      poll_interruption();
      const ir::Op* op = members.front();
      if (op->is("constant") || unneeded_.contains(op)) continue;
      const ir::Context context = backward ? ir::Context::kBackward : op->settings.context;
      if (op->is("call")) {  // what it calls stands in its place
        for (const ir::Graph* callee : ir::called_graphs(*op)) this->graph(*callee, backward);
        continue;
      }
      for (const ir::Graph* body : ir::called_graphs(*op))
        if (listed_.insert(body).second) bodies_.emplace_back(body, backward);
      for (const ir::Op* member : members) copies(*member, context);
      if (const Attribute* block = op->settings.outline.find("multi_conv"); block != nullptr && !backward) {
        convolution_of(*op, std::get<int64_t>(*block));
        continue;
      }
      std::string type = type_name(*op), prefix = backward ? "Gradient___" : "";
      if (type == "Gather" && members.size() > 1) type = "GroupedGather";
      BackEndOperation made = start(type, prefix + operation_name(*op, type), op->settings.block, context);
      for (int i = 0; i < op->operand_count(); ++i)
        if (op->operand(i) != nullptr) made.inputs.push_back(tensor(*op->operand(i)));
      for (int r = 0; r < op->result_count(); ++r) made.outputs.push_back(tensor(*op->result(r)));
      if (op->is("linear") && type == "Add") split_linear(*op, made);
      annotate(made, *op);
      if (!group_key(*op).empty()) join(made, members);
      if (!backward && type != "Identity" && reuses_operand(*op)) made.name += ":InPlace";
      list_->push_back(std::move(made));
    }
  }

  // The product; what remains of `sum` is the addition of the bias.
  void split_linear(const ir::Op& op, BackEndOperation& sum) {
    BackEndOperation product =
        start("MatMul", operation_name(op, "MatMul"), op.settings.block, op.settings.context);
    product.inputs = {sum.inputs[0], sum.inputs[1]};
    BackEndTensor made = sum.outputs[0];
    auto named = names_.products.find(&op);
    made.name =
        named != names_.products.end() ? named->second : prefix_of(*op.result()) + product.name + ":0";
    product.outputs = {made};
    annotate(product, op);
    list_->push_back(std::move(product));
    sum.inputs = {made, sum.inputs[2]};
  }

  void convolution_of(const ir::Op& op, int64_t block) {
    auto [at, is_new] = multi_convs_.try_emplace(block, list_->size());
    if (is_new) {
      list_->push_back(
          start("MultiConv", operation_name(op, "MultiConv"), op.settings.block, op.settings.context));
      annotate(list_->back(), op);
      for (const auto& [name, value] : op.settings.outline)
        if (name.starts_with("multi_conv."))
          list_->back().attributes[name.substr(std::string_view("multi_conv.").size())] =
              attribute_text(value);
    }
    BackEndOperation& made = (*list_)[at->second];
    for (int i = 0; i < op.operand_count(); ++i)
      if (op.operand(i) != nullptr) made.inputs.push_back(tensor(*op.operand(i)));
    for (int r = 0; r < op.result_count(); ++r) made.outputs.push_back(tensor(*op.result(r)));
  }

  // What waits on its IPU for a later stage.
  void stashes() {
    std::map<std::string, const ir::Value*> values;
    for (size_t i = 0; i < forward_.inputs.size(); ++i)
      values[forward_.inputs[i].name] = forward_.graph->inputs()[i];
    for (const auto& op : forward_.graph->ops())
      if (op->result_count() > 0) values[node_of(*op)] = op->result(0);
    for (const executable::Crossing& crossing : machine_.crossings)
      if (const auto at = values.find(crossing.node);
          at != values.end() && crossing.from_stage >= 0 && crossing.from_ipu == crossing.to_ipu)
        stash(*at->second, crossing);
  }

  bool is_host_input(const ir::Value& value) const {
    return value.producer() == nullptr && value.graph() == forward_.graph &&
           forward_.inputs[static_cast<size_t>(value.index())].kind == ForwardGraph::Input::Kind::kHost;
  }

  void stash(const ir::Value& value, const executable::Crossing& crossing) {
    for (const char* type : {"Stash", crossing.is_repeated_from ? "RestoreInplace" : "Restore"}) {
      BackEndOperation made = start(type, type, "", ir::Context::kForward);
      made.attributes["__ipu_number"] = std::to_string(crossing.from_ipu);
      made.attributes["__pipeline_stage"] = std::to_string(crossing.from_stage);
      made.inputs = {tensor(value)};
      made.outputs = {tensor(value)};
      made.outputs[0].name += std::string("_") + type;
      list_->push_back(std::move(made));
    }
  }

  void update(const ForwardGraph::Input& input, const ir::Value& value) {
    auto group = step_.optimizer.group_of.find(input.name);
    if (!input.trainable || group == step_.optimizer.group_of.end()) return;
    using optimizers::Kind;
    const Kind kind = step_.optimizer.kind;
    std::vector<std::string> types = {"AdamUpdater", "AdamVarUpdate"};
    if (kind == Kind::kSgdCombined || kind == Kind::kSgdSeparate) {
      const auto& hyper = step_.optimizer.groups[static_cast<size_t>(group->second)].hyper;
      const auto momentum = hyper.find("momentum");
      const bool plain =
          momentum == hyper.end() || (momentum->second.constant && momentum->second.value == 0);
      const bool accumulates = step_.accumulation > 1, separate = kind == Kind::kSgdSeparate;
      types = {plain && (separate || !accumulates) ? "SGD0VarUpdate"
               : separate                          ? "SGD2VarUpdate"
                                                   : "SGD1VarUpdate"};
      if (accumulates) types.insert(types.begin(), "Accumulate");
    } else if (kind == Kind::kRmsProp || kind == Kind::kRmsPropCentred || kind == Kind::kAdaGrad ||
               kind == Kind::kAdaDelta) {
      types = {"RMSPropUpdater", "ScaledVarUpdate"};
    }
    for (const std::string& type : types) {
      BackEndOperation made = start(type, type, "", ir::Context::kAccumulateOuter);
      const auto of_parameter = [&](const std::string& name) {
        return BackEndTensor{name + input.name, dtype_name(value.type().dtype), value.type().shape};
      };
      made.inputs = {of_parameter(""), of_parameter("Gradient___")};
      made.outputs = {of_parameter(type == types.back() ? "UpdatedVar___" : type + "___")};
      if (!value.uses().empty())
        made.attributes["__ipu_number"] = std::to_string(place(value.uses().back().user->settings.block).ipu);
      list_->push_back(std::move(made));
    }
  }

  const ForwardGraph& forward_;
  const StepOptions& step_;
  const PartialsTypes& partials_;
  const executable::MachineOperators machine_;
  ForwardNames names_;
  BackEndForm form_;
  std::set<std::pair<std::string, int>> sent_;  // nodes, and the IPUs that get what they give
  bool pipelined_ = false;
  decltype(IndexGroups::same_as) same_as_;                   // of all graphs listed so far
  std::unordered_set<const ir::Op*> unneeded_;               // expanded indices of them
  std::vector<BackEndOperation>* list_ = &form_.operations;  // that is being made
  std::vector<std::pair<const ir::Graph*, bool>> bodies_;    // found so far, and whether of the backward pass
  std::set<const ir::Graph*> listed_;
  std::set<std::pair<const ir::Value*, int>> copied_;
  std::map<int64_t, size_t> multi_convs_;
};

}  // namespace

BackEndSource::BackEndSource(const ForwardGraph& forward, const StepOptions& step, PartialsTypes partials,
                             const target::System& system)
    : module_(forward.graph->module()->clone()),
      forward_(forward),
      step_(step),
      partials_(std::move(partials)),
      system_(system) {
  forward_.graph = module_->find_graph(forward.graph->name());
  step_.loss = nullptr;  // of the original
}

const BackEndForm& BackEndSource::form() const {
  std::call_once(made_, [&] {
    mark_nodes(*module_);
    form_ = Maker(forward_, step_, partials_,
                  executable::machine_operators(*executable::machine_form_of(module_->clone(), system_)))
                .make();
    module_.reset();
    forward_ = {};
    step_ = {};
  });
  return form_;
}

}  // namespace ipu::frontends::torch_frontend
