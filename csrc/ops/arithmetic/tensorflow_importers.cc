// Importers of TensorFlow's element-wise op types that are equations of ours, and of gradients of functions by their values.
#include <cmath>
#include <limits>

#include "ops/definition/tensorflow_nodes.h"

namespace ipu::ops {
namespace {

// TensorFlow rounds the quotient of reals; torch corrects it by the remainder.
void import_floor_div(NodeImportCall& call) {
  const Term a = term(call, 0), b = term(call, 1);
  if (!is_floating_point(a.dtype())) return set_result(call, Term::op("floor_divide", a, b));
  set_result(call, (a / b).op("floor"));
}

// f(a, b) where `guard` is not 0, else 0: whatever f is there.
Term guarded(const Term& guard, const Term& value) { return (guard == 0.0).choose(0.0, value); }

// Powers that are products and roots, where the model says the exponent.
void import_pow(NodeImportCall& call) {
  const Term x = term(call, 0);
  const ConstantPtr stated = call.constant(1);
  const std::vector<double> exponent = stated == nullptr ? std::vector<double>{} : reals_of(*stated);
  if (exponent.size() == 1 && stated->shape.empty()) {
    const bool is_real = is_floating_point(x.dtype());
    if (exponent[0] == 2.0) return set_result(call, square(x));
    if (exponent[0] == 3.0) return set_result(call, square(x) * x);
    if (is_real && exponent[0] == 0.5) return set_result(call, sqrt(x));
  }
  set_result(call, power(x, term(call, 1)));
}

void import_clip(NodeImportCall& call) {
  set_result(call, maximum(minimum(term(call, 0), term(call, 2)), term(call, 1)));
}

void import_is_finite(NodeImportCall& call) {
  set_result(call, absolute(term(call, 0)) < std::numeric_limits<double>::infinity());
}

void import_is_inf(NodeImportCall& call) {
  set_result(call, absolute(term(call, 0)) == std::numeric_limits<double>::infinity());
}

void import_approximate_equal(NodeImportCall& call) {
  set_result(call, absolute(term(call, 0) - term(call, 1)) < call.real("tolerance", 1e-5));
}

void import_equal(NodeImportCall& call, const char* kind) {
  require_default(call, "incompatible_shape_error", true);
  set_result(call, Term::op(kind, term(call, 0), term(call, 1)));
}

// The condition chooses elements, or rows when it has one for each.
void import_select(NodeImportCall& call) {
  ir::Value *condition = call.operand(0), *yes = call.operand(1);
  const size_t rank = yes->type().shape.size();
  if (condition->type().shape.size() == 1 && rank > 1) {
    Shape column(rank, 1);
    column[0] = condition->type().shape[0];
    condition = reshaped(call, condition, column);
  }
  call.set_result(0, call.op("where", {condition, yes, call.operand(2)}));
}

// Gradients. Most have the operands (y, dy), y being the value of the function.
using Equation = Term (*)(const Term& a, const Term& b);
struct Row {
  const char* type;
  Equation equation;
};
constexpr Row kRows[] = {
    {"SquaredDifference", [](const Term& a, const Term& b) { return square(a - b); }},
    {"DivNoNan", [](const Term& a, const Term& b) { return guarded(b, a / b); }},
    {"MulNoNan", [](const Term& a, const Term& b) { return guarded(b, a * b); }},
    {"Xlogy", [](const Term& a, const Term& b) { return guarded(a, a * b.op("log")); }},
    {"Xlog1py", [](const Term& a, const Term& b) { return guarded(a, a * b.op("log1p")); }},
    {"Xdivy", [](const Term& a, const Term& b) { return guarded(a, a / b); }},
    {"SqrtGrad", [](const Term& y, const Term& dy) { return dy * 0.5 / y; }},
    {"RsqrtGrad", [](const Term& y, const Term& dy) { return dy * (y * -0.5) * square(y); }},
    {"ReciprocalGrad", [](const Term& y, const Term& dy) { return -dy * square(y); }},
    {"InvGrad", [](const Term& y, const Term& dy) { return -dy * square(y); }},
    {"TanhGrad", [](const Term& y, const Term& dy) { return Term::op("tanh_gradient", y, dy); }},
    {"SigmoidGrad", [](const Term& y, const Term& dy) { return Term::op("sigmoid_gradient", y, dy); }},
};

void import_accumulate(NodeImportCall& call) {
  call.ignore("shape");
  std::vector<ir::Value*> terms;
  for (int i = 0; i < std::max(call.operand_count(), 1); ++i) terms.push_back(call.operand(i));
  call.set_result(0, build_op(call.builder(), "add_n", terms)->result());
}

struct ArithmeticTensorflowImporters {
  ArithmeticTensorflowImporters() {
    for (const Row& row : kRows)
      register_tensorflow_importer(row.type, [equation = row.equation](NodeImportCall& call) {
        set_result(call, equation(term(call, 0), term(call, 1)));
      });
    register_tensorflow_importer("Square",
                                 [](NodeImportCall& call) { set_result(call, square(term(call, 0))); });
    register_tensorflow_importer("AccumulateNV2", import_accumulate);
    register_tensorflow_importer("FloorDiv", import_floor_div);
    register_tensorflow_importer("Pow", import_pow);
    register_tensorflow_importer("ClipByValue", import_clip);
    register_tensorflow_importer("IsFinite", import_is_finite);
    register_tensorflow_importer("IsInf", import_is_inf);
    register_tensorflow_importer("ApproximateEqual", import_approximate_equal);
    register_tensorflow_importer("Equal", [](NodeImportCall& call) { import_equal(call, "equal"); });
    register_tensorflow_importer("NotEqual", [](NodeImportCall& call) { import_equal(call, "not_equal"); });
    register_tensorflow_importer("Select", import_select);
  }
};
const ArithmeticTensorflowImporters arithmetic_tensorflow_importers;

}  // namespace
}  // namespace ipu::ops
