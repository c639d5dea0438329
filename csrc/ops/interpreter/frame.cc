#include "ops/interpreter/frame.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "ops/definition/build.h"
#include "ops/definition/effects.h"
#include "support/error.h"

namespace ipu::ops {
namespace {

int64_t elements_of(const std::vector<const ir::Value*>& memories) {
  int64_t count = 0;
  for (const ir::Value* memory : memories) count += memory->type().elements();
  return count;
}

}  // namespace

ReplicaValues Frame::read(const ir::Value* value) const {
  auto at = views_.find(value);
  if (at == views_.end()) return memories_.at(value);
  const View& view = at->second;
  if (view.is_whole) return memories_.at(view.memories[0]);
  const size_t replicas = memories_.at(view.memories[0]).size();
  ReplicaValues result(replicas);
  for (size_t r = 0; r < replicas; ++r) {
    std::vector<double> all;
    bool is_here = true;
    for (const ir::Value* memory : view.memories) {
      const TensorPtr& contents = memories_.at(memory)[r];
      is_here = is_here && contents != nullptr;
      if (is_here) all.insert(all.end(), contents->values.begin(), contents->values.end());
    }
    if (!is_here) continue;
    ReferenceTensor tensor = ReferenceTensor::zeros(value->type());
    for (size_t i = 0; i < tensor.values.size(); ++i)
      tensor.values[i] = all[static_cast<size_t>(view.elements[i])];
    result[r] = std::make_shared<ReferenceTensor>(std::move(tensor));
  }
  return result;
}

void Frame::write(const ir::Op& op, const ir::Value* value, const ReplicaValues& contents,
                  const ReplicaList& replicas) {
  auto at = views_.find(value);
  const bool is_whole = at == views_.end() || at->second.is_whole;
  if (is_whole) {
    ReplicaValues& memory = memories_.at(at == views_.end() ? value : at->second.memories[0]);
    memory.resize(contents.size());
    for (int64_t r : replicas) memory[static_cast<size_t>(r)] = contents[static_cast<size_t>(r)];
    return;
  }
  const View& view = at->second;
  std::vector<bool> written(static_cast<size_t>(elements_of(view.memories)), false);
  for (int64_t element : view.elements) {
    if (written[static_cast<size_t>(element)])
      throw Error(ErrorCode::kExecution,
                  fmt::format("overlapping view: '{}' writes to %{} of @{}, which shows elements of its "
                              "memory more than once. Write to what it is a view of.",
                              op.kind(), value->name(), op.graph()->name()))
          .at(ir::user_line(op.location));
    written[static_cast<size_t>(element)] = true;
  }
  for (int64_t r : replicas) {
    std::vector<std::shared_ptr<ReferenceTensor>> fresh;
    std::vector<int64_t> starts;
    int64_t start = 0;
    for (const ir::Value* memory : view.memories) {
      TensorPtr& old = memories_.at(memory)[static_cast<size_t>(r)];
      fresh.push_back(std::make_shared<ReferenceTensor>(*old));
      old = fresh.back();
      starts.push_back(start);
      start += memory->type().elements();
    }
    const std::vector<double>& source = contents[static_cast<size_t>(r)]->values;
    for (size_t i = 0; i < source.size(); ++i) {
      const int64_t element = view.elements[i];
      const auto m =
          static_cast<size_t>(std::upper_bound(starts.begin(), starts.end(), element) - starts.begin() - 1);
      fresh[m]->values[static_cast<size_t>(element - starts[m])] = source[i];
    }
  }
}

Frame::View Frame::view_of(const ir::Value* value) const {
  auto at = views_.find(value);
  View view = at == views_.end() ? View{{value}, {}, true} : at->second;
  if (view.is_whole) {
    view.is_whole = false;
    view.elements.resize(static_cast<size_t>(value->type().elements()));
    std::iota(view.elements.begin(), view.elements.end(), int64_t{0});
  }
  return view;
}

void Frame::define_view(const ir::Op& op) {
  const OpDef& def = *definition(op);
  View result;
  std::vector<ReferenceTensor> numbers;
  for (int i = 0; i < op.operand_count(); ++i) {
    numbers.push_back(ReferenceTensor::zeros({DType::kF64, op.operand(i)->type().shape}));
    const View operand = view_of(op.operand(i));
    std::vector<int64_t> starts;  // of the operand's memories, among those of the result
    for (const ir::Value* memory : operand.memories) {
      auto known = std::find(result.memories.begin(), result.memories.end(), memory);
      starts.push_back(elements_of({result.memories.begin(), known}));
      if (known == result.memories.end()) result.memories.push_back(memory);
    }
    std::vector<int64_t> own;
    for (size_t m = 0; m < operand.memories.size(); ++m)
      own.push_back(
          elements_of({operand.memories.begin(), operand.memories.begin() + static_cast<ptrdiff_t>(m)}));
    for (size_t e = 0; e < operand.elements.size(); ++e) {
      const auto m = static_cast<size_t>(std::upper_bound(own.begin(), own.end(), operand.elements[e]) -
                                         own.begin() - 1);
      numbers.back().values[e] = static_cast<double>(starts[m] + operand.elements[e] - own[m]);
    }
  }
  ReferenceTensor elements = ReferenceTensor::zeros({DType::kF64, op.result()->type().shape});
  const Attributes attributes = with_defaults(def, op.attributes);
  ReferenceCall call{attributes, {}, {&elements}};
  for (const ReferenceTensor& operand : numbers) call.operands.push_back(&operand);
  def.reference(call);
  for (double element : elements.values) result.elements.push_back(static_cast<int64_t>(element));
  views_[op.result()] = std::move(result);
}

void Frame::define_same(const ir::Value* result, const ir::Value* operand) {
  auto at = views_.find(operand);
  views_[result] = at == views_.end() ? View{{operand}, {}, true} : at->second;
}

}  // namespace ipu::ops
