#include "executable/check_kernels.h"

#include <algorithm>

#include "ir/module.h"
#include "ops/build.h"
#include "ops/op_def.h"
#include "support/error.h"

namespace ipu::executable {
namespace {

bool is_packed(const program::Operand& operand) { return operand.spec.layout == Layout::kPacked64; }

bool has_packed(const program::Instruction& step) {
  return std::any_of(step.operands.begin(), step.operands.end(), is_packed) ||
         std::any_of(step.results.begin(), step.results.end(), is_packed);
}

// Empty when the step agrees with the definition.
std::string disagreement(const ops::OpDef& def, const program::Instruction& step, ir::Graph& scratch) {
  const bool variadic = !def.operands.empty() && def.operands.back().variadic;
  if (step.operands.size() > def.operands.size() && !variadic) return "has too many operands";
  for (size_t i = 0; i < def.operands.size(); ++i) {
    const bool absent = i >= step.operands.size() || step.operands[i].buffer < 0;
    if (absent && !def.operands[i].optional && !def.operands[i].variadic)
      return "has no operand '" + def.operands[i].name + "'";
  }
  if (step.results.size() != def.results.size() && !def.results.back().ends_with("..."))
    return "has " + std::to_string(step.results.size()) + " results";
  if (has_packed(step)) return {};
  std::vector<ir::Value*> operands;
  for (const program::Operand& operand : step.operands)
    operands.push_back(operand.buffer < 0 ? nullptr
                                          : scratch.add_input({operand.spec.dtype, operand.spec.shape}));
  std::vector<ir::Type> types;
  try {
    types = ops::infer_types(def.name, operands, step.attributes);
  } catch (const Error& error) {
    return error.message();
  }
  if (types.size() != step.results.size()) return "has " + std::to_string(step.results.size()) + " results";
  for (size_t i = 0; i < types.size(); ++i)
    if (types[i].dtype != step.results[i].spec.dtype || types[i].shape != step.results[i].spec.shape)
      return "result " + std::to_string(i) + " has another type than its operands give";
  return {};
}

}  // namespace

void check_kernels(const program::Program& program) {
  for (size_t i = 0; i < program.ipus.size(); ++i) {
    ir::Module module;
    ir::Graph* scratch = module.add_graph("scratch");
    const std::vector<program::Instruction>& steps = program.ipus[i].instructions;
    for (size_t s = 0; s < steps.size(); ++s) {
      if (steps[s].opcode != program::Opcode::kKernel) continue;
      const ops::OpDef* def = ops::find_op(steps[s].kernel);
      if (def == nullptr || def->results.empty()) continue;
      const std::string what = disagreement(*def, steps[s], *scratch);
      if (!what.empty())
        throw Error(ErrorCode::kInvalidProgram,
                    "invalid program: " +
                        program::describe(program, static_cast<int>(i), static_cast<int>(s)) + ": " + what);
    }
  }
}

}  // namespace ipu::executable
