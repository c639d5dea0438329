#include "ops/linear/product_work.h"

#include "ops/definition/effects.h"
#include "ops/linear/half_partials.h"

namespace ipu::ops {

using target::ProductType;

bool multiplies_float8(const ir::Op& op) {
  const auto is_converted = [](const ir::Value* value) {
    const ir::Op* maker = value->producer();
    while (maker != nullptr && view_rule(*maker) != nullptr && maker->operand(0) != nullptr)
      maker = maker->operand(0)->producer();
    return maker != nullptr && maker->is("from_float8");
  };
  return definition(op) != nullptr && (definition(op)->has(kConvolution) || definition(op)->has(kMatmul)) &&
         is_converted(op.operand(0)) && is_converted(op.operand(1));
}

target::ProductOptions product_options(const ir::Op& op, bool is_half_sum) {
  target::ProductOptions options;
  if (op.operand(0)->type().dtype == DType::kF16)
    options.type = is_half_sum || has_half_partials(op) ? ProductType::kFp16Fp16 : ProductType::kFp16Fp32;
  else if (multiplies_float8(op))
    options.type = ProductType::kFp8;
  if (op.settings.available_memory) options.memory_proportion = *op.settings.available_memory;
  return options;
}

std::vector<target::Work> product_work(const ir::Op& op, const target::ProductShape& shape,
                                       bool is_half_sum) {
  if (shape.macs() == 0) return {pass_over(op.result()->type(), {""})};
  return {{target::ProductWork{shape, product_options(op, is_half_sum)}}};
}

std::vector<target::Work> linear_work(const ir::Op& op) {
  const Shape& weight = op.operand(1)->type().shape;
  const int64_t rows =
      element_count(std::span(op.operand(0)->type().shape).first(op.operand(0)->type().shape.size() - 1));
  std::vector<target::Work> work =
      product_work(op, {.rows = rows, .inputs = weight[1], .outputs = weight[0]});
  const bool has_bias = op.operand_count() > 2 && op.operand(2) != nullptr;
  if (has_bias) work.push_back(pass_over(op.result()->type(), {"Add"}, 2));
  return work;
}

}  // namespace ipu::ops
