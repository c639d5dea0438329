// Construction and ordering of expression trees. Evaluation is in expr_evaluate.cc, VM code in
// expr_compile.cc.
#include "ops/expression/expr.h"

#include <fmt/core.h>

#include <bit>
#include <map>
#include <tuple>
#include <unordered_map>

#include "ops/expression/expr_order.h"
#include "ops/expression/function_facts.h"
#include "support/error.h"

namespace ipu::ops {

struct ExprNode {
  Func func = Func::kInput;
  DType dtype = DType::kF32;
  int input = 0;
  double value = 0.0;
  std::vector<Expr> arguments;
};

Expr Expr::input(int index, DType dtype) {
  Expr e;
  e.node_ = std::make_shared<const ExprNode>(ExprNode{Func::kInput, dtype, index, 0.0, {}});
  return e;
}

Expr Expr::constant(DType dtype, double value) {
  Expr e;
  e.node_ = std::make_shared<const ExprNode>(ExprNode{Func::kConstant, dtype, 0, value, {}});
  return e;
}

Expr Expr::make(Func func, DType dtype, std::vector<Expr> arguments) {
  for (const Expr& a : arguments) IPU_CHECK(static_cast<bool>(a), "an argument of an expression is empty");
  Expr e;
  e.node_ = std::make_shared<const ExprNode>(ExprNode{func, dtype, 0, 0.0, std::move(arguments)});
  return e;
}

DType Expr::dtype() const { return node_->dtype; }
Func Expr::func() const { return node_->func; }
int Expr::input_index() const { return node_->input; }
double Expr::value() const { return node_->value; }
std::span<const Expr> Expr::arguments() const { return node_->arguments; }

namespace {
void check_equal(const Expr& a, const Expr& b) {
  IPU_CHECK(a.dtype() == b.dtype(),
            fmt::format("an expression mixes {} and {}", to_string(a.dtype()), to_string(b.dtype())));
}

Expr compare(Func func, Expr a, Expr b) {
  check_equal(a, b);
  return Expr::make(func, DType::kBool, {std::move(a), std::move(b)});
}

Expr like(const Expr& e, double value) { return Expr::constant(e.dtype(), value); }
}  // namespace

Expr unary(Func func, Expr a) {
  const DType dtype = facts_of(func).is_predicate ? DType::kBool : a.dtype();
  return Expr::make(func, dtype, {std::move(a)});
}

Expr binary(Func func, Expr a, Expr b) {
  if (facts_of(func).is_predicate) return compare(func, std::move(a), std::move(b));
  check_equal(a, b);
  const DType dtype = a.dtype();
  return Expr::make(func, dtype, {std::move(a), std::move(b)});
}

Expr operator+(Expr a, Expr b) { return binary(Func::kAdd, std::move(a), std::move(b)); }
Expr operator-(Expr a, Expr b) { return binary(Func::kSub, std::move(a), std::move(b)); }
Expr operator*(Expr a, Expr b) { return binary(Func::kMul, std::move(a), std::move(b)); }
Expr operator/(Expr a, Expr b) { return binary(Func::kDiv, std::move(a), std::move(b)); }
Expr operator+(Expr a, double b) { return a + like(a, b); }
Expr operator-(Expr a, double b) { return a - like(a, b); }
Expr operator*(Expr a, double b) { return a * like(a, b); }
Expr operator/(Expr a, double b) { return a / like(a, b); }
Expr operator+(double a, Expr b) { return like(b, a) + b; }
Expr operator-(double a, Expr b) { return like(b, a) - b; }
Expr operator*(double a, Expr b) { return like(b, a) * b; }
Expr operator/(double a, Expr b) { return like(b, a) / b; }
Expr operator-(Expr a) { return unary(Func::kNeg, std::move(a)); }
Expr operator<(Expr a, Expr b) { return compare(Func::kLt, std::move(a), std::move(b)); }
Expr operator<=(Expr a, Expr b) { return compare(Func::kLe, std::move(a), std::move(b)); }
Expr operator>(Expr a, Expr b) { return compare(Func::kGt, std::move(a), std::move(b)); }
Expr operator>=(Expr a, Expr b) { return compare(Func::kGe, std::move(a), std::move(b)); }
Expr operator<(Expr a, double b) { return a < like(a, b); }
Expr operator<=(Expr a, double b) { return a <= like(a, b); }
Expr operator>(Expr a, double b) { return a > like(a, b); }
Expr operator>=(Expr a, double b) { return a >= like(a, b); }
Expr equal(Expr a, Expr b) { return compare(Func::kEq, std::move(a), std::move(b)); }
Expr not_equal(Expr a, Expr b) { return compare(Func::kNe, std::move(a), std::move(b)); }

Expr select(Expr condition, Expr a, Expr b) {
  IPU_CHECK(condition.dtype() == DType::kBool, "the condition of a select is not a bool");
  check_equal(a, b);
  const DType dtype = a.dtype();
  return Expr::make(Func::kSelect, dtype, {std::move(condition), std::move(a), std::move(b)});
}
Expr select(Expr condition, Expr a, double b) { return select(std::move(condition), a, like(a, b)); }

Expr cast(Expr a, DType dtype) {
  if (a.dtype() == dtype) return a;
  return Expr::make(Func::kCast, dtype, {std::move(a)});
}

namespace {
class Orderer {
 public:
  OrderedTrees run(std::span<const Expr> roots) {
    for (const Expr& root : roots) result_.roots.push_back(visit(root));
    return std::move(result_);
  }

 private:
  // Depth of recursion is the depth of one op's tree, which is small by construction.
  int visit(const Expr& e) {
    auto known = by_node_.find(e.node());
    if (known != by_node_.end()) return known->second;
    OrderedNode node{e.func(), e.dtype(), e.func() == Func::kInput ? e.input_index() : 0, e.value(), {}};
    for (const Expr& a : e.arguments()) node.arguments.push_back(visit(a));
    // Constants are equal by their bits: -0.0 and 0.0 differ, a NaN equals itself.
    auto key =
        std::tuple(node.func, node.dtype, node.input, std::bit_cast<uint64_t>(node.value), node.arguments);
    auto [at, is_new] = by_content_.emplace(std::move(key), static_cast<int>(result_.nodes.size()));
    if (is_new) result_.nodes.push_back(std::move(node));
    by_node_.emplace(e.node(), at->second);
    return at->second;
  }

  OrderedTrees result_;
  std::unordered_map<const ExprNode*, int> by_node_;
  std::map<std::tuple<Func, DType, int, uint64_t, std::vector<int>>, int> by_content_;
};
}  // namespace

OrderedTrees order(std::span<const Expr> roots) { return Orderer().run(roots); }

}  // namespace ipu::ops
