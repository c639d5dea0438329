#include "ops/collective/collective_support.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace ipu::ops {

void check_group(const InferContext& context) {
  if (context.attributes.integer("group_size") < 0 || context.attributes.integer("group_stride") < 1)
    attribute_error("group_size must be at least 0 and group_stride at least 1");
}

int64_t stated_group_size(const InferContext& context) {
  check_group(context);
  const int64_t size = context.attributes.integer("group_size");
  if (size == 0) attribute_error("group_size must be stated, as the shape of the result follows from it");
  return size;
}

void check_reduction(const InferContext& context, bool may_be_local) {
  const std::string& op = context.attributes.text("op");
  if (may_be_local && op == "local") return;
  const bool is_logical = op == "and" || op == "or";
  one_of(context, "op", {"sum", "mean", "prod", "min", "max", "and", "or", "square_sum"});
  for (const ir::Type* operand : context.operands) {
    const DType dtype = operand->dtype;
    if (is_logical != (dtype == DType::kBool))
      dtype_error(
          fmt::format("op=\"{}\" takes {}, not {}", op, is_logical ? "bool" : "numbers", to_string(dtype)));
    if (op == "mean" && !is_floating_point(dtype)) dtype_error("a mean of integers would be cut off");
  }
}

std::vector<double> reduced_over(std::string_view op, const std::vector<const ReferenceTensor*>& tensors) {
  std::vector<double> total = tensors[0]->values;
  if (op == "square_sum")
    for (double& value : total) value *= value;
  for (size_t t = 1; t < tensors.size(); ++t)
    for (size_t i = 0; i < total.size(); ++i) {
      const double next = tensors[t]->values[i];
      if (op == "sum" || op == "mean") {
        total[i] += next;
      } else if (op == "square_sum") {
        total[i] += next * next;
      } else if (op == "prod" || op == "and") {
        total[i] *= next;
      } else if (op == "min") {
        total[i] = next < total[i] || std::isnan(next) ? next : total[i];
      } else {
        IPU_CHECK(op == "max" || op == "or", fmt::format("no reduction '{}'", op));
        total[i] = next > total[i] || std::isnan(next) ? next : total[i];
      }
    }
  if (op == "mean")
    for (double& value : total) value /= static_cast<double>(tensors.size());
  return total;
}

std::vector<const ReferenceTensor*> first_operands(const CollectiveCall& call) {
  std::vector<const ReferenceTensor*> tensors;
  for (const auto& member : call.operands) tensors.push_back(member[0]);
  return tensors;
}

std::vector<target::Work> collective_work(const ir::Op& op, target::Collective collective,
                                          const ir::Type& whole) {
  return {{target::CollectiveWork{.collective = collective,
                                  .bytes = static_cast<double>(whole.bytes()),
                                  .group = op.attributes.integer("group_size", 0)}}};
}

std::vector<KernelChoice> group_kernel(const ir::Op& op) {
  return {{op.kind(), with_defaults(*definition(op), op.attributes)}};
}

Attributes same_group(const GradientBuilder& g, Attributes more) {
  more.set("group_size", g.attributes().integer("group_size"));
  more.set("group_stride", g.attributes().integer("group_stride"));
  return more;
}

void refuse_gradient(const GradientBuilder& g, const std::string& why) {
  throw Error(ErrorCode::kNotDifferentiable,
              fmt::format("gradient is not offered: '{}' {}.", g.forward().kind(), why))
      .at(ir::user_line(g.forward().location));
}

}  // namespace ipu::ops
