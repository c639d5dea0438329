// ipu_all_reduce: the reduction over the IPUs of one replica, one operand and one result on each. Decomposes
// to elementwise ops on every IPU; the copies between IPUs follow from where these stand.
#include "ops/collective/collective_support.h"

namespace ipu::ops {
namespace {

void check_ipu_reduction(const InferContext& c) {
  if (c.operands.empty()) shape_error("needs at least one operand");
  check_reduction(c, false);
  one_of(c, "identical", {"none", "operands", "gradients"});
  for (int i = 1; i < static_cast<int>(c.operands.size()); ++i) {
    require_same_dtype(c, 0, i);
    require_same_shape(c, 0, i);
  }
}

bool is_identity(const Attributes& attributes) { return attributes.text("identical") == "operands"; }

void reference(ReferenceCall& call) {
  if (is_identity(call.attributes)) {
    for (size_t i = 0; i < call.results.size(); ++i) call.results[i]->values = call.operands[i]->values;
    return;
  }
  const std::vector<double> total = reduced_over(call.attributes.text("op"), call.operands);
  for (ReferenceTensor* result : call.results) result->values = total;
}

void gradient(GradientBuilder& g) {
  const std::string op = g.attributes().text("op");
  if (op != "sum") refuse_gradient(g, "has one for op=\"sum\" only");
  const int count = g.forward().operand_count();
  std::vector<ir::Value*> upstream;
  for (int i = 0; i < count; ++i)
    upstream.push_back(g.upstream(i) != nullptr ? g.upstream(i) : g.zeros(g.result_type(i)));
  if (g.attributes().text("identical") != "gradients") {
    const ir::Op* reduced = build_op(g.builder(), "ipu_all_reduce", upstream, {{"op", op}});
    for (int i = 0; i < count; ++i) upstream[static_cast<size_t>(i)] = reduced->result(i);
  }
  for (int i = 0; i < count; ++i)
    if (g.needs(i)) g.set(i, upstream[static_cast<size_t>(i)]);
}

std::optional<int> ipu_of(const ir::Value& value) {
  return value.producer() != nullptr ? value.producer()->settings.ipu : value.ipu;
}

// `op` over all operands, in order, where the builder stands.
ir::Value* total_of(ir::Builder& builder, const ir::Op& op, const std::string& reduction) {
  auto term = [&](int i) {
    ir::Value* value = op.operand(i);
    return reduction == "square_sum" ? build(builder, "mul", {value, value}) : value;
  };
  static constexpr std::pair<std::string_view, std::string_view> kKinds[] = {
      {"sum", "add"},     {"mean", "add"},    {"square_sum", "add"},  {"prod", "mul"},
      {"min", "minimum"}, {"max", "maximum"}, {"and", "logical_and"}, {"or", "logical_or"}};
  std::string_view kind;
  for (const auto& [name, binary] : kKinds)
    if (name == reduction) kind = binary;
  ir::Value* total = term(0);
  for (int i = 1; i < op.operand_count(); ++i) total = build(builder, kind, {total, term(i)});
  if (reduction == "mean")
    total = build(builder, "div", {total, builder.scalar(total->type().dtype, op.operand_count())});
  return total;
}

std::vector<ir::Value*> decompose(ir::Op& op) {
  std::vector<ir::Value*> results;
  ir::Builder builder(op.graph(), &op);
  builder.location = op.location;
  builder.origin = op.origin;
  const Attributes attributes = with_defaults(*definition(op), op.attributes);
  for (int i = 0; i < op.result_count(); ++i) {
    builder.settings = op.settings;
    if (std::optional<int> ipu = ipu_of(*op.operand(i))) builder.settings.ipu = ipu;
    results.push_back(is_identity(attributes) || op.operand_count() == 1
                          ? build(builder, "nop", {op.operand(i)})
                          : total_of(builder, op, attributes.text("op")));
  }
  return results;
}

const OpRegistration ipu_all_reduce_op =
    define_op("ipu_all_reduce", "collective")
        .doc(
            "One tensor of one type on each of several IPUs of a replica: every IPU gets the reduction of "
            "all. "
            "identical=\"operands\" says that they are equal already (the identity; its gradient reduces), "
            "\"gradients\" that the gradients are (its gradient is the identity).")
        .variadic("xs", kReducible)
        .attribute("op", std::string("sum"))
        .attribute("identical", std::string("none"))
        .result("ys...")
        .infer([](const InferContext& c) {
          check_ipu_reduction(c);
          std::vector<ir::Type> types;
          for (const ir::Type* operand : c.operands) types.push_back(*operand);
          return types;
        })
        .gradient(gradient)
        .reference(reference)
        .kernels([](const ir::Op&) { return std::vector<KernelChoice>{}; })
        .work([](const ir::Op& op) -> std::vector<target::Work> {
          if (is_identity(with_defaults(*definition(op), op.attributes))) return {};
          return {{target::CollectiveWork{.bytes = static_cast<double>(op.result()->type().bytes()),
                                          .group = op.operand_count(),
                                          .is_of_ipus = true}}};
        })
        .decompose(decompose)
        .samples(
            {{{ir::Type{DType::kF32, {2, 3}}, ir::Type{DType::kF32, {2, 3}}}, {}},
             {{ir::Type{DType::kF32, {4}}, ir::Type{DType::kF32, {4}}, ir::Type{DType::kF32, {4}}}, {}}});

}  // namespace
}  // namespace ipu::ops
