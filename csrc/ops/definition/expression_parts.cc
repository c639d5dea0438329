// See expression_parts.h.
#include "ops/definition/expression_parts.h"

#include <fmt/core.h>

#include <unordered_map>

#include "ops/definition/composer.h"
#include "ops/definition/op_def.h"
#include "ops/expression/function_facts.h"
#include "support/error.h"

namespace ipu::ops {
namespace {

DType widened(DType dtype) { return dtype == DType::kF16 ? DType::kF32 : dtype; }

class Nodes {
 public:
  explicit Nodes(Composer& composer) : composer_(composer) {}

  ir::Value* value(const Expr& node) {
    auto [at, is_new] = known_.try_emplace(node.node(), nullptr);
    if (is_new) {
      ir::Value* made = make(node);
      known_[node.node()] = made;
      return made;
    }
    return at->second;
  }

 private:
  ir::Value* make(const Expr& node) {
    const DType dtype = widened(node.dtype());
    if (node.func() == Func::kInput) return composer_.cast(composer_.operand(node.input_index()), dtype);
    if (node.func() == Func::kConstant) return composer_.scalar(dtype, node.value());
    std::vector<ir::Value*> operands;
    for (const Expr& argument : node.arguments()) operands.push_back(value(argument));
    if (node.func() == Func::kCast) return composer_.cast(operands[0], dtype);
    const std::string_view kind = facts_of(node.func()).op;
    IPU_CHECK(!kind.empty(), fmt::format("an expression of '{}' has a node without an op of its own",
                                         composer_.compound().kind()));
    return build_op(composer_.builder(), kind, operands)->result();
  }

  Composer& composer_;
  std::unordered_map<const ExprNode*, ir::Value*> known_;
};

}  // namespace

std::vector<ir::Value*> parts_of_expression(ir::Op& op) {
  Composer composer(op);
  std::vector<Expr> inputs;
  for (int i = 0; i < op.operand_count(); ++i) inputs.push_back(Expr::input(i, op.operand(i)->type().dtype));
  Nodes nodes(composer);
  std::vector<ir::Value*> results;
  for (const Expr& tree :
       definition(op)->expression(inputs, composer.attributes(), op.result()->type().dtype)) {
    const ir::Type& type = op.result(static_cast<int>(results.size()))->type();
    results.push_back(composer.cast(composer.expand(nodes.value(tree), type.shape), type.dtype));
  }
  return results;
}

}  // namespace ipu::ops
