#include "executable/check_kernels.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "ir/module.h"
#include "ops/definition/build.h"
#include "ops/definition/op_def.h"
#include "support/error.h"

namespace ipu::executable {
namespace {

constexpr const char* kKernelShape = "kernel_shape";

// The shape an operation sees. Lowering stores a packed weight [N, ...] as the matrix [..., N]; of a
// convolution it keeps the shape of the taps in an attribute. Empty when that attribute is no shape of this
// weight.
std::optional<Shape> logical_shape(const ops::OpDef& def, const TensorSpec& spec,
                                   const Attributes& attributes) {
  if (!spec.layout.is_blocked()) return spec.shape;
  if (!def.has(ops::kConvolution)) return Shape(spec.shape.rbegin(), spec.shape.rend());
  if (!attributes.has(kKernelShape)) return std::nullopt;
  const Attribute& given = *attributes.find(kKernelShape);
  const auto* shape = std::get_if<std::vector<int64_t>>(&given);
  if (shape == nullptr || shape->size() < 3) return std::nullopt;
  int64_t rest = spec.shape[0];  // [taps * channels, outputs]: divided, so that no product overflows
  for (size_t i = 1; i < shape->size(); ++i) {
    if ((*shape)[i] <= 0 || rest % (*shape)[i] != 0) return std::nullopt;
    rest /= (*shape)[i];
  }
  if (rest != 1 || (*shape)[0] != spec.shape[1]) return std::nullopt;
  return Shape(shape->begin(), shape->end());
}

// Empty when the step agrees with the definition.
std::string disagreement(const ops::OpDef& def, const program::Instruction& step, ir::Graph& scratch) {
  const bool variadic = !def.operands.empty() && def.operands.back().variadic;
  if (step.operands.size() > def.operands.size() && !variadic) return "has too many operands";
  for (size_t i = 0; i < def.operands.size(); ++i) {
    const bool absent = i >= step.operands.size() || step.operands[i].buffer < 0;
    if (absent && !def.operands[i].optional && !def.operands[i].variadic)
      return fmt::format("has no operand '{}'", def.operands[i].name);
  }
  if (step.results.size() != def.results.size() && !def.results.back().ends_with("..."))
    return fmt::format("has {} results", step.results.size());
  std::vector<ir::Value*> operands;
  for (const program::Operand& operand : step.operands) {
    const std::optional<Shape> shape = logical_shape(def, operand.spec, step.attributes);
    if (!shape) return "has a packed weight whose kernel_shape is none of it";
    operands.push_back(operand.buffer < 0 ? nullptr : scratch.add_input({operand.spec.dtype, *shape}));
  }
  Attributes attributes = step.attributes;
  const bool declared = std::any_of(def.attributes.begin(), def.attributes.end(),
                                    [](const auto& attribute) { return attribute.name == kKernelShape; });
  if (!declared) attributes.erase(kKernelShape);  // lowering's own
  std::vector<ir::Type> types;
  try {
    types = ops::infer_types(def.name, operands, attributes);
  } catch (const Error& error) {
    return error.message();
  }
  if (types.size() != step.results.size()) return fmt::format("has {} results", step.results.size());
  for (size_t i = 0; i < types.size(); ++i)
    if (types[i].dtype != step.results[i].spec.dtype ||
        types[i].shape != logical_shape(def, step.results[i].spec, step.attributes))
      return fmt::format("result {} has another type than its operands give", i);
  return {};
}

}  // namespace

void check_kernels(const program::Program& program) {
  for (size_t i = 0; i < program.ipus.size(); ++i) {
    ir::Module module;
    ir::Graph* scratch = module.add_graph("scratch");
    const std::vector<program::Instruction>& steps = program.ipus[i].instructions;
    for (size_t s = 0; s < steps.size(); ++s) {
      if (steps[s].opcode != program::Opcode::kKernel && steps[s].opcode != program::Opcode::kCollective)
        continue;
      const ops::OpDef* def = ops::find_op(steps[s].kernel);
      if (def == nullptr || def->results.empty()) continue;
      const std::string what = disagreement(*def, steps[s], *scratch);
      if (!what.empty())
        throw Error(ErrorCode::kInvalidProgram,
                    fmt::format("invalid program: {}: {}",
                                program::describe(program, static_cast<int>(i), static_cast<int>(s)), what));
    }
  }
}

}  // namespace ipu::executable
