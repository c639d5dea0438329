#include "ops/definition/graphcore_nodes.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <tuple>

#include "ops/definition/importers.h"
#include "ops/definition/op_def.h"

namespace ipu::ops {

namespace {

std::vector<GraphcoreOperator>& described() {
  static std::vector<GraphcoreOperator> operators;
  return operators;
}

bool is_function_of_floats(const OpDef& def) {
  return def.has(kElementwise) && std::ranges::all_of(def.operands, [](const OperandDef& operand) {
           return operand.dtypes == kAnyFloat;
         });
}

GraphcoreOperator described_by(const OpDef& def, const std::string& type) {
  GraphcoreOperator op{type, type, "", def.results.at(0) + "~:F", "yes", "", def.doc};
  std::ranges::transform(type, op.method.begin(), [](unsigned char letter) { return std::tolower(letter); });
  for (const OperandDef& operand : def.operands)
    op.operands += fmt::format("{}{}:F", op.operands.empty() ? "" : " ", operand.name);
  return op;
}

}  // namespace

void register_graphcore_importer(GraphcoreOperator op, NodeImporter importer) {
  register_importer({kGraphcore, op.type, {1, 1}, std::move(importer)});
  describe_graphcore_operator(std::move(op));
}

void describe_graphcore_operator(GraphcoreOperator op) { described().push_back(std::move(op)); }

std::vector<GraphcoreOperator> graphcore_operators() {
  std::vector<GraphcoreOperator> operators = described();
  for (const OpDef* def : all_ops())
    for (const Importer& importer : def->importers)
      if (importer.domain == kGraphcore && importer.is_by_name && is_function_of_floats(*def))
        operators.push_back(described_by(*def, importer.type));
  std::ranges::sort(operators, {}, [](const GraphcoreOperator& op) { return std::tie(op.method, op.type); });
  return operators;
}

void node_shape_error(NodeImportCall& call, const std::string& what) {
  throw Error(ErrorCode::kTypeMismatch, fmt::format("shape mismatch: {} {}.", call.described(), what));
}
void node_dtype_error(NodeImportCall& call, const std::string& what) {
  throw Error(ErrorCode::kTypeMismatch, fmt::format("dtype mismatch: {} {}.", call.described(), what));
}
void node_attribute_error(NodeImportCall& call, const std::string& what) {
  throw Error(ErrorCode::kTypeMismatch, fmt::format("value out of range: {} {}.", call.described(), what));
}

void require_equal_dtypes(NodeImportCall& call, int a, int b) {
  const DType left = call.operand(a)->type().dtype, right = call.operand(b)->type().dtype;
  if (left != right)
    node_dtype_error(call, fmt::format("has {} as operand {} and {} as operand {}", to_string(left), a,
                                       to_string(right), b));
}

void require_float(NodeImportCall& call, int i) {
  const DType dtype = call.operand(i)->type().dtype;
  if (!is_floating_point(dtype))
    node_dtype_error(call, fmt::format("has {} as operand {}; it takes f32 or f16", to_string(dtype), i));
}

void require_integer(NodeImportCall& call, int i) {
  const DType dtype = call.operand(i)->type().dtype;
  if (!is_integer(dtype))
    node_dtype_error(call, fmt::format("has {} as operand {}; it takes integers", to_string(dtype), i));
}

bool flag_of(NodeImportCall& call, std::string_view name, bool fallback) {
  const int64_t value = call.integer(name, fallback ? 1 : 0);
  if (value != 0 && value != 1)
    node_attribute_error(call, fmt::format("has '{}' = {}; it is 0 or 1", name, value));
  return value == 1;
}

ir::Value* number_like(ImportCall& call, const ir::Value* like, double value) {
  return call.builder().scalar(like->type().dtype, value);
}

ir::Value* places_along(ImportCall& call, int64_t size, int64_t dim, size_t rank) {
  Shape shape(rank, 1);
  shape[static_cast<size_t>(dim)] = size;
  return call.op("iota", {}, {{"shape", shape}, {"dim", dim}, {"dtype", DType::kI32}});
}

ir::Value* one_element(ImportCall& call, ir::Value* x, int64_t i) {
  return sliced(call, reshaped(call, x, {x->type().elements()}), 0, i, 1);
}

std::string loss_reduction(NodeImportCall& call) {
  const std::string word = call.text("reduction", "Mean");
  if (word == "Sum") return "sum";
  if (word == "Mean") return "mean";
  if (word == "None") return "none";
  node_attribute_error(call, fmt::format("has reduction \"{}\"; it is \"Sum\", \"Mean\" or \"None\"", word));
}

}  // namespace ipu::ops
