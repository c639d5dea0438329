// Names of PopART for ops and values of a forward graph.
#include <algorithm>
#include <cctype>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "frontends/torch/executor/back_end_form.h"
#include "support/interruption.h"

namespace ipu::frontends::torch_frontend {
namespace {

// Where PopART's type is not the kind in capitals.
const std::map<std::string_view, std::string_view>& types() {
  static const std::map<std::string_view, std::string_view> names{
      {"add_n", "Sum"},
      {"argmax", "ArgMax"},
      {"argmin", "ArgMin"},
      {"avg_pool", "AveragePool"},
      {"batch_norm", "BatchNormalization"},
      {"batch_norm_inference", "BatchNormalization"},
      {"bitwise_and", "BitwiseAnd"},
      {"clamp", "Clip"},
      {"conv_input_gradient", "ConvDataGrad"},
      {"conv_weight_gradient", "ConvWeightsGrad"},
      {"cross_entropy", "Nll"},
      {"cross_entropy_gradient", "NllGrad"},
      {"embedding", "Gather"},
      {"embedding_gradient", "GatherGrad"},
      {"flip", "Reverse"},
      {"group_norm", "GroupNormalization"},
      {"index_add", "ScatterReduce"},
      {"index_copy", "ScatterReduce"},
      {"index_select", "Gather"},
      {"instance_norm", "InstanceNormalization"},
      {"is_nan", "IsNaN"},
      {"l1_loss", "L1"},
      {"l1_loss_gradient", "L1Grad"},
      {"layer_norm", "GroupNormalization"},
      {"linear", "MatMul"},
      {"linear_input_gradient", "MatMul"},
      {"linear_weight_gradient", "MatMul"},
      {"logical_and", "And"},
      {"logical_not", "Not"},
      {"logical_or", "Or"},
      {"logical_xor", "Xor"},
      {"matmul", "MatMul"},
      {"max_pool", "MaxPool"},
      {"maximum", "Max"},
      {"minimum", "Min"},
      {"nll_loss", "Nll"},
      {"nll_loss_gradient", "NllGrad"},
      {"scatter", "ScatterReduce"},
      {"scatter_add", "ScatterReduce"},
      {"topk", "TopK"},
  };
  return names;
}

std::string capitalised(std::string_view kind) {
  std::string name;
  bool starts_word = true;
  for (const char c : kind) {
    if (c == '_' || c == '.') {
      starts_word = true;
      continue;
    }
    name += starts_word ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    starts_word = false;
  }
  constexpr std::string_view kGradient = "Gradient";
  if (name.size() > kGradient.size() && name.ends_with(kGradient))
    name.resize(name.size() - std::string_view("ient").size());
  return name;
}

bool adds_bias(const ir::Op& op) {
  return op.is("linear") && op.operand_count() > 2 && op.operand(2) != nullptr;
}

}  // namespace

std::string type_name(const ir::Op& op) {
  if (op.settings.recompute == ir::Recompute::kCheckpoint && op.is("nop")) return "Identity";
  if (adds_bias(op)) return "Add";
  auto at = types().find(op.kind());
  return at != types().end() ? std::string(at->second) : capitalised(op.kind());
}

std::string operation_name(const ir::Op& op, const std::string& type) {
  std::string scope = op.location ? op.location->module_path : "";
  std::replace(scope.begin(), scope.end(), '.', '/');
  const bool is_checkpoint = op.settings.recompute == ir::Recompute::kCheckpoint;
  return scope + (scope.empty() ? "" : "/") + (is_checkpoint ? "Checkpoint" : type);
}

ForwardNames forward_names(const ForwardGraph& forward) {
  ForwardNames names;
  std::unordered_set<std::string> taken;
  std::unordered_map<std::string, int> next;
  auto unused = [&](const std::string& wanted) {
    std::string name = wanted;
    while (!taken.insert(name).second) name = wanted + "/" + std::to_string(++next[wanted]);
    return name;
  };
  auto give = [&](ir::Value* value, const std::string& wanted) {
    const std::string name = unused(wanted);
    names.of.emplace(value, name);
    names.in_order.push_back({name, value, nullptr});
  };
  for (size_t i = 0; i < forward.inputs.size(); ++i) {
    const ForwardGraph::Input& input = forward.inputs[i];
    const bool is_host = input.kind == ForwardGraph::Input::Kind::kHost;
    if (input.kind != ForwardGraph::Input::Kind::kSeed)
      give(forward.graph->inputs()[i], is_host ? "input" : input.name);
  }
  for (const auto& op : forward.graph->ops()) {
    poll_interruption();
    const std::string name = operation_name(*op, type_name(*op));
    if (adds_bias(*op)) {
      const std::string product = unused(operation_name(*op, "MatMul") + ":0");
      names.products.emplace(op.get(), product);
      names.in_order.push_back({product, nullptr, op.get()});
    }
    for (int r = 0; r < op->result_count(); ++r) give(op->result(r), name + ":" + std::to_string(r));
  }
  return names;
}

}  // namespace ipu::frontends::torch_frontend
