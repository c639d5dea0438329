#include "passes/host/packed_products.h"

#include "ir/transposed_layout.h"
#include "ops/definition/build.h"
#include "passes/inline_graph.h"
#include "passes/sole_reader.h"

namespace ipu::passes {
namespace {

const std::vector<int64_t> kSwapped = {1, 0};

bool reads_transposed(const ir::Op& op, const char* which) { return op.attributes.boolean(which, false); }

void set_layout(ir::Value* value, const Layout& layout) {
  ir::Type type = value->type();
  type.layout = layout;
  value->set_type(std::move(type));
}

// The transpose of a packed matrix: the same memory.
ir::Value* swapped(ir::Builder& builder, ir::Value* matrix) {
  ir::Value* result = ops::build(builder, "transpose", {matrix}, {{"perm", kSwapped}});
  set_layout(result, ir::transposed_layout(matrix->type().layout, kSwapped));
  return result;
}

// The reshape that alone reads the product and leaves its columns; nullptr: there is none.
ir::Op* reshape_of_rows(const ir::Op& op) {
  if (op.result()->uses().size() != 1 || op.result()->is_output()) return nullptr;
  ir::Op* reader = op.result()->uses()[0].user;
  if (!reader->is("reshape") || reader->graph() != op.graph() || !run_together(op, *reader)) return nullptr;
  const Shape& shape = reader->result()->type().shape;
  return !shape.empty() && shape.back() == op.result()->type().shape.back() ? reader : nullptr;
}

void replace(ir::Op& op, ir::Value* value) {
  ir::Graph* graph = op.graph();
  const std::string name = op.result()->name();
  replace_op(op, {value});
  graph->rename(value, name);
}

}  // namespace

bool is_product_of_weight(const ir::Op& op) {
  return op.is("matmul") && op.operand(1)->type().shape.size() == 2 &&
         !(reads_transposed(op, "trans_a") && reads_transposed(op, "trans_b"));
}

bool read_packed_weight(ir::Op& op) {
  const bool is_gradient = reads_transposed(op, "trans_a"), swaps = reads_transposed(op, "trans_b");
  ir::Value* weight = is_gradient ? op.result() : op.operand(1);
  if (!weight->type().layout.is_blocked()) return false;
  ir::Builder builder(op.graph(), &op);
  builder.settings = op.settings;
  builder.location = op.location;
  builder.origin = op.origin;
  const bool along_columns = weight->type().layout.cut() == 1;
  if (is_gradient) {
    ir::Value *x = op.operand(along_columns ? 0 : 1), *dy = op.operand(along_columns ? 1 : 0);
    ir::Value* made = ops::build(builder, "linear_weight_gradient", {x, dy});
    set_layout(made, Layout::panels_of_weight(made->type().shape));
    replace(op, along_columns ? swapped(builder, made) : made);
    return true;
  }
  if (along_columns) weight = swapped(builder, weight);
  if (along_columns == swaps) {
    replace(op, ops::build(builder, "linear_input_gradient", {op.operand(0), weight}));
    return true;
  }
  ir::Value* x = op.operand(0);
  ir::Op* reshape = reshape_of_rows(op);
  if (reshape != nullptr) {  // so that what follows finds the product
    Shape rows = reshape->result()->type().shape;
    rows.back() = x->type().shape.back();
    x = ops::build(builder, "reshape", {x}, {{"shape", rows}});
  }
  ir::Value* product = ops::build(builder, "linear", {x, weight});
  if (reshape == nullptr) {
    replace(op, product);
    return true;
  }
  replace(*reshape, product);
  op.graph()->erase(&op);
  return true;
}

}  // namespace ipu::passes
