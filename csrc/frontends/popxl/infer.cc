#include "frontends/popxl/infer.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>

#include "frontends/popxl/infer_scratch.h"
#include "frontends/popxl/lower_call.h"
#include "frontends/popxl/op_kind.h"
#include "support/error.h"

namespace ipu::popxl {
namespace {

// The type of the device is that of the first input which the device narrows to it, so that sums of INT64 stay INT64.
DataType widened(DType type, const Op& op) {
  for (const auto& [i, tensor] : op.inputs())
    if (on_device(tensor->info.dtype) == type) return tensor->info.dtype;
  return from_device(type);
}

// Elementwise results of shards are shards of the same whole: the one meta shape among inputs of that shape.
Shape meta_shape(const Shape& shape, const Op& op) {
  Shape found;
  for (const auto& [i, tensor] : op.inputs()) {
    if (tensor->info.meta_shape.empty() || tensor->info.shape != shape) continue;
    if (!found.empty() && found != tensor->info.meta_shape)
      throw Error(ErrorCode::kTypeMismatch,
                  fmt::format("meta shape mismatch: shards of {} and of {}", ipu::to_string(found),
                              ipu::to_string(tensor->info.meta_shape)));
    found = tensor->info.meta_shape;
  }
  return found;
}

std::map<int, TensorInfo> types_of_gradient(const Op& op) {
  std::map<int, TensorInfo> infos;
  for (size_t k = 0; k < op.forward->differentiated.size(); ++k)
    infos[static_cast<int>(k)] = op.forward->inputs.at(op.forward->differentiated[k]);
  return infos;
}

// LateTypes of op_kind.h.
bool has_late_types(const Op& op) {
  const LateTypes late = op.kind().late_types;
  if (late == LateTypes::kNo || op.input(0) == nullptr) return false;
  const DataType first = op.input(0)->info.dtype;
  if (late == LateTypes::kFloats) return !is_floating_point(first);
  const Tensor* second = op.input(1);
  return second != nullptr && second->info.dtype != first && size_in_bytes(first) > 1 &&
         size_in_bytes(second->info.dtype) > 1;  // 8-bit floats have their own rules
}
DataType type_if_late(const Op& op, int i) {
  if (op.kind().late_types == LateTypes::kFloats)
    return i == 0 ? DataType::kFloat16 : op.input(i)->info.dtype;
  return i == 1 ? op.input(0)->info.dtype : op.input(i)->info.dtype;
}

std::map<int, TensorInfo> types_of_lowered(const Op& op, InferenceScratch& scratch) {
  struct Clear {
    InferenceScratch& scratch;
    ~Clear() { scratch.clear(); }
  } clear{scratch};
  ir::Builder builder(&scratch.graph());
  LowerCall call(op, op.kind(), op.attributes, builder);
  const bool late = has_late_types(op);
  for (const auto& [i, tensor] : op.inputs()) {
    const std::optional<DType> dtype = on_device(late ? type_if_late(op, i) : tensor->info.dtype);
    if (!dtype)
      throw Error(ErrorCode::kTypeMismatch,
                  fmt::format("no such type on the device: input {} is {}", i, to_string(tensor->info)));
    call.set_input(i, scratch.graph().add_input({*dtype, tensor->info.shape}));
  }
  op.kind().lower(call);
  std::map<int, TensorInfo> infos;
  for (const auto& [i, value] : call.outputs()) {
    const ir::Type& type = value->type();
    const auto stated = call.stated_types().find(i);
    DataType dtype = stated == call.stated_types().end() ? widened(type.dtype, op) : stated->second;
    if (late && op.kind().late_types == LateTypes::kFloats && type.dtype == DType::kF16)
      dtype = op.input(0)->info.dtype;
    infos[i] = {dtype, type.shape, meta_shape(type.shape, op)};
  }
  return infos;
}

// Rows without `infer` read the attributes, the inputs with their constants and the number of replicas.
std::map<int, TensorInfo> remembered(const Op& op) {
  InferenceScratch& scratch = op.graph().program().scratch();
  const size_t hash = Inferred::hash(op);
  if (const auto found = scratch.inferred.find(hash);
      found != scratch.inferred.end() && found->second.is_of(op))
    return found->second.outputs();
  std::map<int, TensorInfo> types = types_of_lowered(op, scratch);
  scratch.inferred.insert_or_assign(hash, Inferred(op, types));
  return types;
}

// The error with the op and its inputs, at the line of the program.
[[noreturn]] void fail(const Op& op, const Error& error) {
  std::string inputs;
  for (const auto& [i, tensor] : op.inputs())
    inputs +=
        fmt::format("{}{} '{}' {}", inputs.empty() ? "" : ", ", i, tensor->id(), to_string(tensor->info));
  Error named(error.code(),
              fmt::format("{}\n  op: {} {} in {}, inputs: {}", error.text(), op.id(), op.kind().type,
                          described(op.graph()), inputs.empty() ? "none" : inputs));
  throw named.because(error.reason(), error.parameters()).at(ir::user_line(op.settings.location));
}

}  // namespace

Inferred::Inferred(const Op& op, std::map<int, TensorInfo> outputs)
    : kind_(&op.kind()),
      replicas_(op.graph().program().replicas),
      attributes_(op.attributes),
      outputs_(std::move(outputs)) {
  for (const auto& [i, tensor] : op.inputs()) inputs_.push_back({i, tensor->info, tensor->constant});
}

bool Inferred::is_of(const Op& op) const {
  return kind_ == &op.kind() && replicas_ == op.graph().program().replicas &&
         std::equal(inputs_.begin(), inputs_.end(), op.inputs().begin(), op.inputs().end(),
                    [](const Input& input, const auto& now) {
                      return input.number == now.first && input.info == now.second->info &&
                             input.constant == now.second->constant;
                    }) &&
         attributes_ == op.attributes;
}

size_t Inferred::hash(const Op& op) {
  size_t hash = std::hash<const OpKind*>()(&op.kind());
  const auto mix = [&hash](size_t value) { hash = (hash ^ value) * 0x9E3779B97F4A7C15U + (hash >> 29); };
  for (const auto& [i, tensor] : op.inputs()) {
    mix(static_cast<size_t>(i) << 8 | static_cast<size_t>(tensor->info.dtype));
    for (const int64_t size : tensor->info.shape) mix(static_cast<size_t>(size));
  }
  return hash;
}

void InferenceScratch::clear() {
  while (!graph_->ops().empty()) {
    ir::Op* last = graph_->ops().back().get();
    graph_->erase(last);
  }
  while (!graph_->inputs().empty()) graph_->erase_input(static_cast<int>(graph_->inputs().size()) - 1);
}

std::map<int, TensorInfo> infer(const Op& op) {
  try {
    if (op.forward != nullptr) return types_of_gradient(op);
    if (op.kind().infer) {
      InferCall call(op);
      op.kind().infer(call);
      return call.take();
    }
    IPU_CHECK(op.kind().lower != nullptr, "the row of " + op.kind().type + " says nothing of types");
    return remembered(op);
  } catch (const Error& error) {
    fail(op, error);
  }
}

void check_late_types(const Op& op) {
  if (!has_late_types(op)) return;
  const char* what = op.kind().late_types == LateTypes::kFloats
                         ? "dtype mismatch: the input must be floating; cast it"
                         : "dtype mismatch: the operands must be of one dtype; cast one of them";
  fail(op, Error(ErrorCode::kTypeMismatch, what));
}

}  // namespace ipu::popxl
