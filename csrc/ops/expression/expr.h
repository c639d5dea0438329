// Scalar expression trees: what an elementwise op means for one element. From one tree follow the reference
// value (evaluate), the pointwise VM code (compile), half-precision rounding and the work. Expressions are
// typed by DType; the constructors check types and insert no conversion.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernels/pointwise/program.h"
#include "kernels/pointwise/scalar_functions.h"
#include "support/dtype.h"

namespace ipu::ops {

// Besides these, the functions of kernels/pointwise/scalar_functions.h. kPolygamma takes its order first.
enum class Func : uint8_t {
  kInput,
  kConstant,
  kSelect,
  kCast,
#define IPU_FUNC(name, ...) k##name,
  IPU_TYPED_FUNCTIONS(IPU_FUNC) IPU_PREDICATES(IPU_FUNC) IPU_REAL_FUNCTIONS(IPU_FUNC)
#undef IPU_FUNC
};

struct ExprNode;
class Expr {
 public:
  Expr() = default;
  static Expr input(int index, DType dtype);
  static Expr constant(DType dtype, double value);
  static Expr make(Func func, DType dtype, std::vector<Expr> arguments);

  DType dtype() const;
  Func func() const;
  int input_index() const;
  double value() const;
  std::span<const Expr> arguments() const;
  explicit operator bool() const { return node_ != nullptr; }
  const ExprNode* node() const { return node_.get(); }

 private:
  std::shared_ptr<const ExprNode> node_;
};

// Arithmetic needs equal dtypes on both sides; a number on one side becomes a constant of the other's dtype.
Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator*(Expr a, Expr b);
Expr operator/(Expr a, Expr b);
Expr operator+(Expr a, double b);
Expr operator-(Expr a, double b);
Expr operator*(Expr a, double b);
Expr operator/(Expr a, double b);
Expr operator+(double a, Expr b);
Expr operator-(double a, Expr b);
Expr operator*(double a, Expr b);
Expr operator/(double a, Expr b);
Expr operator-(Expr a);
Expr operator<(Expr a, Expr b);
Expr operator<=(Expr a, Expr b);
Expr operator>(Expr a, Expr b);
Expr operator>=(Expr a, Expr b);
Expr operator<(Expr a, double b);
Expr operator<=(Expr a, double b);
Expr operator>(Expr a, double b);
Expr operator>=(Expr a, double b);
Expr equal(Expr a, Expr b);
Expr not_equal(Expr a, Expr b);
Expr unary(Func func, Expr a);
Expr binary(Func func, Expr a, Expr b);
Expr select(Expr condition, Expr a, Expr b);
Expr select(Expr condition, Expr a, double b);
Expr cast(Expr a, DType dtype);

// Value for one element. f64 arithmetic throughout; integers are exact and wrap to their width as on the
// device. Rounding of floating results to a dtype is the caller's.
double evaluate(const Expr& expr, std::span<const double> inputs);

// The same for many elements: trees are put in order once, subtrees that are equal are computed once.
class Evaluator {
 public:
  explicit Evaluator(std::span<const Expr> roots);
  void operator()(std::span<const double> inputs, std::span<double> results);

 private:
  struct Step {
    Func func;
    DType dtype, argument_dtype;  // of the first argument
    int arguments[3];
    double value;
  };
  std::vector<Step> steps_;
  std::vector<int> roots_;
  std::vector<double> values_;
};

// VM code for several results of the same element; common subtrees once. f16 inputs are widened; each root of
// dtype f16 is rounded. Within one op f16 arithmetic is done in f32 and rounded at the op's boundary.
kernels::PointwiseProgram compile(std::span<const Expr> roots, std::span<const DType> input_dtypes);

}  // namespace ipu::ops
