#include "frontends/records/fold.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "ir/builder.h"
#include "ops/definition/effects.h"
#include "ops/definition/op_def.h"
#include "ops/folding/exact_tensor.h"
#include "ops/folding/fold_node.h"
#include "ops/interpreter/interpreter.h"

namespace ipu::frontends::records {
namespace {

using Values = std::unordered_map<const ir::Value*, ops::ReferenceTensor>;

const ops::ReferenceTensor* find_value(Values& values, const ir::Value* value) {
  const auto at = values.find(value);
  if (at != values.end()) return &at->second;
  const ir::Op* producer = value->producer();
  if (producer == nullptr || !producer->is("constant")) return nullptr;
  return &values.emplace(value, ops::ReferenceTensor::from_constant(*producer->attributes.constant("value")))
              .first->second;
}

bool is_small(const ir::Op& op, int64_t most) {
  for (int i = 0; i < op.operand_count(); ++i)
    if (op.operand(i) != nullptr && op.operand(i)->type().elements() > most) return false;
  for (int i = 0; i < op.result_count(); ++i)
    if (op.result(i)->type().elements() > most) return false;
  return true;
}

// False: the op's values stay unknown.
bool evaluate(const ir::Op& op, Values& values, int64_t most) {
  const ops::OpDef* def = ops::definition(op);
  if (op.is("constant")) return true;
  if (def == nullptr || !def->reference || def->has(ops::kRandom) || def->has(ops::kSideEffects) ||
      !is_small(op, most))
    return false;
  std::vector<const ops::ReferenceTensor*> operands;
  for (int i = 0; i < op.operand_count(); ++i) {
    operands.push_back(op.operand(i) == nullptr ? nullptr : find_value(values, op.operand(i)));
    if (op.operand(i) != nullptr && operands.back() == nullptr) return false;
  }
  std::vector<ops::ReferenceTensor> results = ops::interpret_op(op, operands, ops::Arithmetic::kNative);
  for (int i = 0; i < op.result_count(); ++i)
    values.emplace(op.result(i), std::move(results[static_cast<size_t>(i)]));
  return true;
}

// The operands of a node that only moves elements, with what is moved replaced by where it lies in `bytes`.
struct Moved {
  NodeRecord node;
  DType dtype;
  std::vector<std::byte> bytes;  // of all that is moved, one operand behind the other
};

// nullopt: the operands that are moved have no type in common.
std::optional<Moved> with_places(const NodeRecord& node, const std::vector<int>& moved, ValueTable& values,
                                 ValueTable& scratch) {
  Moved made{node, {}, {}};
  std::vector<ops::ExactTensor> parts;
  for (const int i : moved) {
    if (i >= std::ssize(node.operands) || node.operands[static_cast<size_t>(i)].empty()) return std::nullopt;
    const ConstantPtr& constant = values.find(node.operands[static_cast<size_t>(i)])->constant;
    parts.push_back(ops::ExactTensor::of(*constant));
    if (parts.back().is_real() != parts[0].is_real()) return std::nullopt;
    made.dtype = i == moved[0] ? constant->dtype : ops::wider(made.dtype, constant->dtype);
  }
  int32_t place = 0;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    if (node.operands[i].empty()) continue;
    Known known{.constant = values.find(node.operands[i])->constant};
    if (const auto at = std::find(moved.begin(), moved.end(), static_cast<int>(i)); at != moved.end()) {
      const ConstantPtr part =
          converted(parts[static_cast<size_t>(at - moved.begin())], made.dtype).to_constant();
      made.bytes.insert(made.bytes.end(), part->bytes.begin(), part->bytes.end());
      std::vector<int32_t> places(static_cast<size_t>(element_count(part->shape)));
      std::iota(places.begin(), places.end(), place);
      place += static_cast<int32_t>(places.size());
      known.constant = ir::make_constant(DType::kI32, part->shape, places.data());
    }
    std::string& name = made.node.operands[i];
    while (scratch.find(name) != nullptr) name += "'";  // one name may be moved and say where to
    scratch.add(name, known);
  }
  return made;
}

// A node that only moves elements is run on their places.
std::vector<ConstantPtr> fold_moves(const NodeRecord& node, int version, const ops::NodeImporter& import,
                                    ValueTable& values, const ModelState& around,
                                    const std::vector<int>& moved) {
  ir::Module module;
  ir::Graph* graph = module.add_graph("places");
  ValueTable scratch(graph, nullptr);
  const std::optional<Moved> made = with_places(node, moved, values, scratch);
  if (!made) return {};
  ir::Builder builder(graph);
  ModelState state = around;
  state.graph = graph;
  RecordCall call(builder, made->node, version, scratch, state);
  import(call);
  call.check_complete();
  std::vector<Known> results = call.results();
  fold_results(*graph, nullptr, {}, results, ops::kMostFolded);
  const auto size = static_cast<size_t>(size_in_bytes(made->dtype));
  std::vector<ConstantPtr> constants;
  for (size_t i = 0; i < results.size(); ++i) {
    if (node.results[i].empty()) {
      constants.push_back(nullptr);
      continue;
    }
    if (results[i].constant == nullptr) return {};
    auto constant = std::make_shared<ConstantData>(ConstantData{made->dtype, results[i].constant->shape, {}});
    for (const int64_t place : ops::integers_of(*results[i].constant)) {
      const auto from = made->bytes.begin() + place * static_cast<int64_t>(size);
      constant->bytes.insert(constant->bytes.end(), from, from + static_cast<int64_t>(size));
    }
    constants.push_back(std::move(constant));
  }
  return constants;
}

}  // namespace

std::vector<ConstantPtr> fold_node(const NodeRecord& node, int version, const ops::NodeImporter* import,
                                   ValueTable& values, const ModelState& state) {
  if (ops::canonical_domain(node.domain) != ops::kOnnx || !node.subgraphs.empty()) return {};
  bool any_wide = false;
  int64_t most = 0;
  for (const std::string& name : node.operands) {
    if (name.empty()) continue;
    const ConstantData& constant = *values.find(name)->constant;
    any_wide = any_wide || is_wide(constant.dtype);
    most = std::max(most, element_count(constant.shape));
  }
  if (most > (any_wide ? ops::kMostFolded : kMostElements)) return {};
  const std::vector<int> moved = ops::moved_operands(node.type, static_cast<int>(node.operands.size()));
  if (!moved.empty()) {
    // Sums of what is scattered are no moves.
    if (import == nullptr || node.attributes.has("reduction")) return {};
    return fold_moves(node, version, *import, values, state, moved);
  }
  ir::Module module;
  ir::Builder builder(module.add_graph("none"));
  ModelState alone = state;
  RecordCall call(builder, node, version, values, alone);
  if (!ops::fold_node(call, node.type)) return {};
  call.check_complete();
  std::vector<ConstantPtr> constants;
  for (const Known& result : call.results()) constants.push_back(result.constant);
  return constants;
}

void fold_results(const ir::Graph& graph, const ir::Op* last, const GivenValues& given,
                  std::vector<Known>& results, int64_t most) {
  auto first = graph.ops().end();
  while (first != graph.ops().begin() && (*std::prev(first)).get() != last) --first;
  Values values;
  for (const auto& [value, constant] : given)
    values.emplace(value, ops::ReferenceTensor::from_constant(*constant));
  for (; first != graph.ops().end(); ++first)
    if (!evaluate(**first, values, most)) return;
  for (Known& result : results) {
    if (result.constant != nullptr || result.value == nullptr || result.value->type().elements() > most)
      continue;
    if (const ops::ReferenceTensor* tensor = find_value(values, result.value))
      result.constant = tensor->to_constant();
  }
}

std::unordered_map<const ir::Value*, ir::Type> erase_unused(ir::Graph& graph, const ir::Value* kept) {
  std::unordered_map<const ir::Value*, ir::Type> gone;
  std::vector<ir::Op*> ops;
  for (const auto& op : graph.ops()) ops.push_back(op.get());
  for (auto at = ops.rbegin(); at != ops.rend(); ++at) {
    bool is_unused = (*at)->result_count() > 0 && !ops::has_side_effects(**at);
    for (int i = 0; i < (*at)->result_count(); ++i)
      is_unused = is_unused && (*at)->result(i)->is_unused() && (*at)->result(i) != kept;
    if (!is_unused) continue;
    for (int i = 0; i < (*at)->result_count(); ++i) gone.emplace((*at)->result(i), (*at)->result(i)->type());
    graph.erase(*at);
  }
  return gone;
}

}  // namespace ipu::frontends::records
