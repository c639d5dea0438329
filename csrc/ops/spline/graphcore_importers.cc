// Importers of ai.graphcore's spline operators, of graph networks with continuous kernels. No gradient passes them.
#include <fmt/core.h>

#include "ops/definition/graphcore_nodes.h"

namespace ipu::ops {
namespace {

// Column d of x [E, D], or entry d of x [D], as [E, 1] or [1].
ir::Value* column(NodeImportCall& call, ir::Value* x, int64_t d) {
  return sliced(call, x, std::ssize(x->type().shape) - 1, d, 1);
}

// The polynomial c[0] + c[1] v + c[2] v^2 + ...
ir::Value* polynomial(NodeImportCall& call, ir::Value* v, const std::vector<double>& c) {
  ir::Value* y = call.builder().splat(v->type(), c.back());
  for (size_t i = c.size() - 1; i-- > 0;)
    y = call.op("add", {call.op("mul", {y, v}), number_like(call, v, c[i])});
  return y;
}

// B-splines of degree 1, 2 and 3: piece j as a polynomial of the fraction.
const std::vector<std::vector<double>>& pieces(int64_t degree) {
  static const std::vector<std::vector<double>> kLinear{{1, -1}, {0, 1}},
      kQuadratic{{.5, -1, .5}, {.5, 1, -1}, {0, 0, .5}},
      kCubic{{1. / 6, -.5, .5, -1. / 6}, {4. / 6, 0, -1, .5}, {1. / 6, .5, .5, -.5}, {0, 0, 0, 1. / 6}};
  return degree == 1 ? kLinear : degree == 2 ? kQuadratic : kCubic;
}

// Computes for each edge E and each of the (degree + 1)^D knots around it the product of the splines of its D
// coordinates, and the number of the knot. The first coordinate varies fastest in that number.
void import_basis(NodeImportCall& call) {
  require_float(call, 0);
  require_integer(call, 1);
  const Shape shape = call.operand(0)->type().shape;
  const int64_t degree = call.integer("degree");
  if (degree < 1 || degree > 3)
    node_attribute_error(call, fmt::format("has degree {}; it is 1, 2 or 3", degree));
  if (shape.size() != 2) node_shape_error(call, fmt::format("of pseudo {}; it is [E, D]", to_string(shape)));
  for (const int i : {1, 2})
    if (call.operand(i)->type().shape != Shape{shape[1]})
      node_shape_error(call, fmt::format("has {} as operand {} for {} dimensions",
                                         to_string(call.operand(i)->type().shape), i, shape[1]));
  ir::Value* pseudo = call.op("detach", {call.operand(0)});
  const DType dtype = pseudo->type().dtype;
  ir::Value *sizes = call.cast(call.operand(1), DType::kI32), *open = call.cast(call.operand(2), DType::kI32);
  ir::Value *basis = nullptr, *index = nullptr, *stride = nullptr;
  int64_t knots = 1;
  for (int64_t d = 0; d < shape[1]; ++d) {
    ir::Value* size = column(call, sizes, d);
    ir::Value* cut =
        call.op("mul", {column(call, open, d), number_like(call, open, static_cast<double>(degree))});
    ir::Value* u = call.op("mul", {column(call, pseudo, d), call.cast(call.op("sub", {size, cut}), dtype)});
    ir::Value* first = call.op("floor", {u});
    ir::Value* fraction = call.op("sub", {u, first});
    std::vector<ir::Value*> factors, places;
    for (int64_t j = 0; j <= degree; ++j) {
      factors.push_back(polynomial(call, fraction, pieces(degree)[static_cast<size_t>(j)]));
      ir::Value* knot = call.cast(first, DType::kI32);
      places.push_back(call.op(
          "remainder", {call.op("add", {knot, number_like(call, knot, static_cast<double>(j))}), size}));
    }
    // [E, degree + 1, 1] times [E, 1, knots so far]: the first coordinate changes fastest.
    const Shape here{shape[0], degree + 1, 1}, before{shape[0], 1, knots};
    ir::Value *factor = concatenated(call, factors, 1), *place = concatenated(call, places, 1);
    if (d == 0) {
      basis = factor, index = place, stride = size;
    } else {
      place = call.op("mul", {place, stride});
      basis = call.op("mul", {reshaped(call, factor, here), reshaped(call, basis, before)});
      index = call.op("add", {reshaped(call, place, here), reshaped(call, index, before)});
      stride = call.op("mul", {stride, size});
    }
    knots *= degree + 1;
    basis = reshaped(call, basis, {shape[0], knots});
    index = reshaped(call, index, {shape[0], knots});
  }
  if (basis == nullptr)
    node_shape_error(call, fmt::format("of pseudo {}, which has no dimensions", to_string(shape)));
  call.set_result(0, basis);
  call.set_result(1, index);
}

// out[e, m] = sum over s of basis[e, s] * (input[e] . weight[weight_index[e, s]])[m]: one product with the weights of all
// knots, of which each edge takes its own.
void import_weighting(NodeImportCall& call) {
  require_float(call, 0);
  require_integer(call, 3);
  const Shape x = call.operand(0)->type().shape, w = call.operand(1)->type().shape,
              basis = call.operand(2)->type().shape, index = call.operand(3)->type().shape;
  if (x.size() != 2 || w.size() != 3 || basis.size() != 2 || basis != index || basis[0] != x[0] ||
      w[1] != x[1])
    node_shape_error(call,
                     fmt::format("of input {}, weight {}, basis {} and weight_index {}; they are [E, I], [K, "
                                 "I, M], [E, S] and [E, S]",
                                 to_string(x), to_string(w), to_string(basis), to_string(index)));
  const int64_t edges = x[0], knots = w[0], outputs = w[2], near = basis[1];
  ir::Value* all = reshaped(call, transposed(call, call.operand(1), {1, 0, 2}), {x[1], knots * outputs});
  ir::Value* products = reshaped(call, call.op("matmul", {call.operand(0), all}), {edges * knots, outputs});
  ir::Value* start = call.op("iota", {},
                             {{"shape", Shape{edges, 1}},
                              {"dim", int64_t{0}},
                              {"dtype", DType::kI32},
                              {"step", static_cast<double>(knots)}});
  ir::Value* rows =
      reshaped(call, call.op("add", {start, call.cast(call.operand(3), DType::kI32)}), {edges * near});
  ir::Value* taken = call.op("index_select", {products, rows}, {{"dim", int64_t{0}}});
  taken = call.op("mul", {reshaped(call, taken, {edges, near, outputs}),
                          reshaped(call, call.operand(2), {edges, near, 1})});
  ir::Value* y = call.op("reduce_sum", {taken}, {{"dims", std::vector<int64_t>{1}}, {"keep_dims", false}});
  call.set_result(0, call.op("detach", {y}));
}

struct SplineGraphcoreImporters {
  SplineGraphcoreImporters() {
    register_graphcore_importer(
        {"SplineBasis", "splinebasis", "pseudo:F kernelSize:INT32 isOpenSpline:UINT8", "basis:F index:INT32",
         "none", "degree:int([1-3])", "[pseudo, kernel sizes, open]: basis values and indices [E, S]."},
        import_basis);
    register_graphcore_importer(
        {"SplineWeighting", "splineweighting", "input:F weight:F basis:F index:INT32", "y:F", "none", "",
         "[input, weight, basis, indices]: features weighted by bases."},
        import_weighting);
  }
};
const SplineGraphcoreImporters spline_graphcore_importers;

}  // namespace
}  // namespace ipu::ops
