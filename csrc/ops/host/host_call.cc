// host_call: a function of the host in the middle of a program (poptorch.CPU). The op names it; what the name
// means is bound to the session that runs the program.
#include "kernels/host/host_call.h"

#include <fmt/core.h>

#include "ops/definition/rule_support.h"
#include "ops/definition/work.h"

namespace ipu::ops {
namespace {

constexpr const char *kFunction = "function", *kBackward = "backward", *kDTypes = "dtypes",
                     *kShapes = "shapes";
// The gradient of a call, which has none itself.
constexpr const char* kIsGradient = "is_gradient";

std::vector<ir::Type> types_of(const std::vector<std::string>& dtypes, const std::vector<int64_t>& shapes) {
  std::vector<ir::Type> types;
  size_t at = 0;
  for (const std::string& name : dtypes) {
    const std::optional<DType> dtype = dtype_from_string(name);
    if (!dtype) attribute_error(fmt::format("'{}' is no element type", name));
    ir::Type type;
    type.dtype = *dtype;
    const int64_t rank = at < shapes.size() ? shapes[at++] : -1;
    if (rank < 0 || static_cast<uint64_t>(rank) > shapes.size() - at)
      attribute_error(fmt::format("shapes={} are not those of {} results", to_string(shapes), dtypes.size()));
    for (int64_t d = 0; d < rank; ++d) {
      if (shapes[at] < 0) attribute_error("a shape has a negative size");
      type.shape.push_back(shapes[at++]);
    }
    types.push_back(std::move(type));
  }
  if (at != shapes.size())
    attribute_error(fmt::format("shapes={} are not those of {} results", to_string(shapes), dtypes.size()));
  return types;
}

Attributes with_types(Attributes attributes, const std::vector<ir::Type>& types) {
  std::vector<std::string> dtypes;
  std::vector<int64_t> shapes;
  for (const ir::Type& type : types) {
    dtypes.emplace_back(to_string(type.dtype));
    shapes.push_back(std::ssize(type.shape));
    shapes.insert(shapes.end(), type.shape.begin(), type.shape.end());
  }
  attributes.set(kDTypes, std::move(dtypes));
  attributes.set(kShapes, std::move(shapes));
  return attributes;
}

// The backward function takes the operands and the gradients of the floating results, and gives the gradients of
// the floating operands. Without one the results are constants to the gradient, as values without a history are
// in torch.
void host_call_gradient(GradientBuilder& g) {
  if (g.attributes().boolean(kIsGradient, false))
    throw Error(ErrorCode::kUnsupportedOps,
                "unsupported gradient: host functions have no second derivatives.\n"
                "  try:      compute on the device what is differentiated twice");
  const std::string backward = g.attributes().text(kBackward, "");
  if (backward == kernels::kIdentityFunction) {
    for (int i = 0; i < g.forward().operand_count(); ++i)
      if (g.needs(i) && g.upstream(i) != nullptr) g.set(i, g.upstream(i));
    return;
  }
  const int count = g.forward().operand_count();
  std::vector<ir::Value*> operands;
  std::vector<ir::Type> types;
  std::vector<int> of;
  for (int i = 0; i < count; ++i) {
    if (!is_floating_point(g.operand_type(i).dtype)) continue;
    if (backward.empty()) {
      if (g.needs(i)) g.set(i, g.zeros(g.operand_type(i)));
      continue;
    }
    of.push_back(i);
    types.push_back({g.operand_type(i).dtype, g.operand_type(i).shape});
  }
  if (of.empty()) return;
  for (int i = 0; i < count; ++i) operands.push_back(g.operand(i));
  for (int i = 0; i < g.forward().result_count(); ++i) {
    if (!is_floating_point(g.result_type(i).dtype)) continue;
    operands.push_back(g.upstream(i) != nullptr ? g.upstream(i) : g.zeros(g.result_type(i)));
  }
  const ir::Op* call = build_op(g.builder(), "host_call", operands,
                                with_types({{kFunction, backward}, {kIsGradient, true}}, types));
  for (size_t k = 0; k < of.size(); ++k)
    if (g.needs(of[k])) g.set(of[k], call->result(static_cast<int>(k)));
}

void import_host_call(AtenImportCall& call) {
  std::vector<ir::Type> types;
  for (int i = 0; i < call.result_count(); ++i) types.push_back(call.result_type(i));
  const std::vector<ir::Value*> operands = call.tensors("inputs");
  const ir::Op* op =
      build_op(call.builder(), "host_call", operands,
               with_types({{kFunction, call.text("function")}, {kBackward, call.text("backward")}}, types));
  for (int i = 0; i < call.result_count(); ++i) call.set_result(i, op->result(i));
}

const OpRegistration host_call =
    define_op("host_call", "host")
        .doc(
            "What the host function `function` makes of x while the program runs: results of these `dtypes` and "
            "`shapes` (of each its rank and its sizes). `backward` names the function that gives the gradients of x; "
            "without one they are zero. The function `identity` is always there; others are bound to the session.")
        .variadic("x", kAnything)
        .attribute(kFunction)
        .attribute(kBackward, std::string())
        .attribute(kDTypes)
        .attribute(kShapes)
        .attribute(kIsGradient, false)
        .result("y...")
        .traits(kSideEffects | kExpensive)
        .infer([](const InferContext& c) {
          std::vector<ir::Type> types = types_of(c.attributes.texts(kDTypes), c.attributes.integers(kShapes));
          if (c.attributes.text(kFunction) != kernels::kIdentityFunction) return types;
          if (types.size() != c.operands.size()) attribute_error("identity gives what it takes");
          for (size_t i = 0; i < types.size(); ++i)
            if (types[i].dtype != c.operands[i]->dtype || types[i].shape != c.operands[i]->shape)
              attribute_error("identity gives what it takes");
          return types;
        })
        .gradient(host_call_gradient)
        // Copies to and from streams; the function is the host's.
        .work([](const ir::Op& op) {
          std::vector<target::Work> work;
          for (int i = 0; i < op.operand_count(); ++i) work.push_back(pass_over(op.operand(i)->type(), {""}));
          for (int i = 0; i < op.result_count(); ++i) work.push_back(pass_over(op.result(i)->type(), {""}));
          return work;
        })
        .reference([](ReferenceCall& call) {
          const std::string function = call.attributes.text(kFunction);
          if (function != kernels::kIdentityFunction)
            throw Error(ErrorCode::kUnsupportedOps,
                        fmt::format("no host function: the interpreter has none called '{}'", function));
          for (size_t i = 0; i < call.results.size(); ++i) call.results[i]->values = call.operands[i]->values;
        })
        .from_aten({"poptorch::host_call"}, import_host_call)
        .samples({{{ir::Type{DType::kF32, {2, 3}}},
                   {{kFunction, std::string(kernels::kIdentityFunction)},
                    {kBackward, std::string(kernels::kIdentityFunction)},
                    {kDTypes, std::vector<std::string>{"f32"}},
                    {kShapes, Shape{2, 2, 3}}}}});

}  // namespace
}  // namespace ipu::ops
