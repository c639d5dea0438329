// What operators of ONNX are of constants: the arithmetic of shapes, in the types of the model. Nothing is
// narrowed to 32 bits here; that is for what the program reads when it runs.
#pragma once

#include <string_view>
#include <vector>

#include "ops/definition/node_import_call.h"

namespace ipu::ops {

// More elements than that are computed when the program runs.
inline constexpr int64_t kMostFolded = 65536;

// Whether ConstantPtr results were set: the operator of ai.onnx computes, and all operands of the call are
// stated by the model. False: it is none of those, its numbers have no meaning (a division by zero), or there
// are more than kMostFolded. Operands and attributes that it understood count as asked for.
bool fold_node(NodeImportCall& call, std::string_view type);

// Operands of an operator that only moves elements, in the order of the model; the others say where to. Empty: it computes.
std::vector<int> moved_operands(std::string_view type, int operand_count);

// What an operator makes of two numbers: "Add", "Mul", "Max" or "Min". Integers wrap around at 64 bits.
struct Combination {
  int64_t (*integer)(int64_t, int64_t);
  double (*real)(double, double);
};
Combination combination_of(std::string_view type);

// --- parts of fold_node
bool fold_pointwise(NodeImportCall& call, std::string_view type);
bool fold_reduction(NodeImportCall& call, std::string_view type);
bool fold_cast(NodeImportCall& call, std::string_view type);
bool fold_creation(NodeImportCall& call, std::string_view type);

}  // namespace ipu::ops
