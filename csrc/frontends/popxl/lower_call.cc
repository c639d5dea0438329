#include "frontends/popxl/lower_call.h"

#include <fmt/core.h>

#include <algorithm>

#include "frontends/popxl/op_kind.h"
#include "ops/update/overwritten.h"
#include "support/error.h"

namespace ipu::popxl {

using ir::Value;

Value* LowerCall::input(int i) const {
  const auto found = inputs_.find(i);
  if (found == inputs_.end()) refuse(fmt::format("missing input: {} has no input {}", op_.kind().type, i));
  return found->second;
}

const TensorInfo& LowerCall::info(int i) const {
  const Tensor* tensor = op_.input(i);
  if (tensor == nullptr) refuse(fmt::format("missing input: {} has no input {}", op_.kind().type, i));
  return tensor->info;
}

Value* LowerCall::build(std::string_view kind, std::initializer_list<Value*> operands,
                        Attributes attributes) {
  return ops::build(builder_, kind, operands, std::move(attributes));
}

ir::Op* LowerCall::build_op(std::string_view kind, const std::vector<Value*>& operands,
                            Attributes attributes) {
  return ops::build_op(builder_, kind, operands, std::move(attributes));
}

Value* LowerCall::build(std::string_view kind, const std::vector<Value*>& operands, Attributes attributes) {
  return build_op(kind, operands, std::move(attributes))->result();
}

Value* LowerCall::cast(Value* x, DType dtype) {
  return x->type().dtype == dtype ? x : build("cast", {x}, {{"dtype", dtype}});
}

Value* LowerCall::reshape(Value* x, Shape shape) {
  return x->type().shape == shape ? x : build("reshape", {x}, {{"shape", std::move(shape)}});
}

Value* LowerCall::expand(Value* x, Shape shape) {
  return x->type().shape == shape ? x : build("expand", {x}, {{"shape", std::move(shape)}});
}

Value* LowerCall::transpose(Value* x, std::vector<int64_t> permutation) {
  return std::is_sorted(permutation.begin(), permutation.end())
             ? x
             : build("transpose", {x}, {{"perm", std::move(permutation)}});
}

Value* LowerCall::reduce(std::string_view kind, Value* x, std::vector<int64_t> dims, bool keep_dims) {
  return build(kind, {x}, {{"dims", std::move(dims)}, {"keep_dims", keep_dims}});
}

Value* LowerCall::factor(int i, std::string_view attribute, DType dtype) {
  return has(i) ? cast(input(i), dtype) : scalar(dtype, attributes_.real(attribute));
}

void LowerCall::overwrite(int i, Value* value) { set_output(0, ops::overwritten(builder_, input(i), value)); }

void LowerCall::refuse(const std::string& what) const { throw Error(ErrorCode::kTypeMismatch, what); }

Value* LowerCall::upstream(int i) const {
  for (const auto& [input, from] : op_.forward->consumed)
    if (from.from == GradientInput::From::kGradOut && from.forward_index == i)
      return has(input) ? this->input(input) : nullptr;
  return nullptr;
}

Value* LowerCall::forward_input(int i) const {
  for (const auto& [input, from] : op_.forward->consumed)
    if (from.from == GradientInput::From::kIn && from.forward_index == i) return this->input(input);
  IPU_CHECK(false, fmt::format("{} does not consume input {} of its forward op", op_.kind().type, i));
}

Value* LowerCall::forward_output(int i) const {
  for (const auto& [input, from] : op_.forward->consumed)
    if (from.from == GradientInput::From::kOut && from.forward_index == i) return this->input(input);
  IPU_CHECK(false, fmt::format("{} does not consume output {} of its forward op", op_.kind().type, i));
}

ir::Type LowerCall::forward_input_type(int i) const {
  const TensorInfo& info = op_.forward->inputs.at(i);
  return {on_device(info.dtype).value(), info.shape};
}

void LowerCall::set_gradient(int forward_input, Value* value) {
  const std::vector<int>& all = op_.forward->differentiated;
  const auto found = std::find(all.begin(), all.end(), forward_input);
  if (found != all.end()) set_output(static_cast<int>(found - all.begin()), value);
}

}  // namespace ipu::popxl
