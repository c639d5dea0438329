// softmax and log_softmax with their gradients, which read the result instead of the operand.
#include <cmath>
#include <limits>

#include "ops/definition/node_support.h"
#include "ops/definition/popart_operators.h"
#include "ops/definition/rule_support.h"
#include "ops/definition/sample_types.h"
#include "ops/softmax/softmax_work.h"

namespace ipu::ops {
namespace {

// Calls visit(at, n) for each line along the dimension; at(k) is the element number of its k-th element.
template <typename Visit>
void for_each_line(const Shape& shape, int64_t dim, Visit visit) {
  const Split3 s = split_at(shape, dim);
  for (int64_t o = 0; o < s.outer; ++o) {
    for (int64_t i = 0; i < s.inner; ++i)
      visit([&](int64_t k) { return (o * s.size + k) * s.inner + i; }, s.size);
  }
}

void softmax_reference(ReferenceCall& call, bool logarithm) {
  const std::vector<double>& x = call.operand(0).values;
  std::vector<double>& y = call.result().values;
  const bool zero_blocked = call.attributes.boolean("zero_blocked", false);
  for_each_line(call.operand(0).type.shape, call.attributes.integer("dim"), [&](auto at, int64_t n) {
    double largest = -std::numeric_limits<double>::infinity(), sum = 0.0;
    for (int64_t k = 0; k < n; ++k) largest = std::max(largest, x[at(k)]);
    if (zero_blocked && std::isinf(largest) && largest < 0.0) largest = 0.0;
    for (int64_t k = 0; k < n; ++k) sum += std::exp(x[at(k)] - largest);
    if (zero_blocked && sum == 0.0) sum = 1.0;
    for (int64_t k = 0; k < n; ++k) {
      const double shifted = x[at(k)] - largest;
      y[at(k)] = logarithm ? shifted - std::log(sum) : std::exp(shifted) / sum;
    }
  });
}

void gradient_reference(ReferenceCall& call, bool logarithm) {
  const std::vector<double>&y = call.operand(0).values, &dy = call.operand(1).values;
  std::vector<double>& dx = call.result().values;
  for_each_line(call.operand(0).type.shape, call.attributes.integer("dim"), [&](auto at, int64_t n) {
    double sum = 0.0;
    for (int64_t k = 0; k < n; ++k) sum += logarithm ? dy[at(k)] : dy[at(k)] * y[at(k)];
    for (int64_t k = 0; k < n; ++k) {
      dx[at(k)] = logarithm ? dy[at(k)] - std::exp(y[at(k)]) * sum : y[at(k)] * (dy[at(k)] - sum);
    }
  });
}

void import_softmax(AtenImportCall& call, std::string_view kind) {
  // A dtype argument converts before, the result's dtype is that one (half_to_float likewise).
  ir::Value* x = call.cast(call.tensor("self"), call.result_type(0).dtype);
  if (x->type().shape.empty()) {  // one class
    ir::Value* y = call.op(kind, {reshaped(call, x, {1})}, {{"dim", int64_t{0}}});
    return call.set_result(0, reshaped(call, y, {}));
  }
  call.set_result(0,
                  call.op(kind, {x}, {{"dim", normalize_dim(call.integer("dim"), x->type().shape.size())}}));
}

// Before version 13 all dimensions from the axis on are one line, from then on the axis alone is.
void import_onnx_softmax(NodeImportCall& call, std::string_view kind) {
  ir::Value* x = call.operand(0);
  const Shape shape = x->type().shape;
  if (call.version() >= 13)
    return call.set_result(0, call.op(kind, {x}, {{"dim", axis_of(call, "axis", -1, shape.size())}}));
  const int64_t axis = axis_of(call, "axis", 1, shape.size());
  int64_t lines = 1;
  for (int64_t d = 0; d < axis; ++d) lines *= shape[d];
  const int64_t length = x->type().elements() / std::max<int64_t>(lines, 1);
  ir::Value* y = call.op(kind, {reshaped(call, x, {lines, length})}, {{"dim", int64_t{1}}});
  call.set_result(0, reshaped(call, y, shape));
}

int64_t lines_of(const ir::Op& op) {
  const Split3 s = split_at(op.result()->type().shape, op.attributes.integer("dim"));
  return s.outer * s.inner;
}

OpDefBuilder softmax_op(std::string name, bool logarithm, std::string doc, std::vector<std::string> overloads,
                        std::string onnx) {
  OpDefBuilder builder = define_op(name, "softmax");
  builder.doc(std::move(doc))
      .operand("x", kAnyFloat)
      .attribute("dim")
      .result("y")
      .infer([](const InferContext& c) {
        dimension(c, "dim", c.operand(0).shape.size());
        return std::vector<ir::Type>{{c.operand(0).dtype, c.operand(0).shape}};
      })
      .gradient([name](GradientBuilder& g) {
        g.set(0,
              g.op(name + "_gradient", {g.result(), g.upstream()}, {{"dim", g.attributes().integer("dim")}}));
      })
      .reference([logarithm](ReferenceCall& call) { softmax_reference(call, logarithm); })
      .work([](const ir::Op& op) { return softmax_work(op.result()->type(), lines_of(op)); })
      .batch(batch_beside("dim"))
      .from_aten(std::move(overloads), [name](AtenImportCall& call) { import_softmax(call, name); })
      .from_onnx(std::move(onnx), {6}, [name](NodeImportCall& call) { import_onnx_softmax(call, name); })
      .samples({{{f32({2, 5})}, {{"dim", int64_t{1}}}},
                {{f32({3, 2})}, {{"dim", int64_t{0}}}},
                {{f32({2, 3, 2, 2})}, {{"dim", int64_t{1}}}}});
  return builder;
}

OpDefBuilder gradient_op(std::string name, bool logarithm, std::string doc) {
  OpDefBuilder builder = define_op(std::move(name), "softmax");
  builder.doc(std::move(doc))
      .operand("y", kAnyFloat)
      .operand("dy", kAnyFloat)
      .attribute("dim")
      .result("dx")
      .infer([](const InferContext& c) {
        dimension(c, "dim", c.operand(0).shape.size());
        require_same_dtype(c, 0, 1);
        require_same_shape(c, 0, 1);
        return std::vector<ir::Type>{{c.operand(0).dtype, c.operand(0).shape}};
      })
      .reference([logarithm](ReferenceCall& call) { gradient_reference(call, logarithm); })
      .work([](const ir::Op& op) { return softmax_gradient_work(op.result()->type(), lines_of(op)); })
      .samples({{{f32({2, 5}), f32({2, 5})}, {{"dim", int64_t{1}}}},
                {{f32({2, 3, 2}), f32({2, 3, 2})}, {{"dim", int64_t{1}}}}});
  return builder;
}

const OpRegistration softmax =
    softmax_op("softmax", false,
               "exp(x) over its sum along dim. Where all of x is -inf that is NaN, with zero_blocked 0.",
               {"softmax.int", "_softmax"}, "Softmax")
        .attribute("zero_blocked", false)
        .samples({{{f32({2, 5})}, {{"dim", int64_t{1}}, {"zero_blocked", true}}},
                  {{f32({3, 2})}, {{"dim", int64_t{0}}, {"zero_blocked", true}}}});
const OpRegistration log_softmax = softmax_op("log_softmax", true, "Logarithm of the softmax of x along dim.",
                                              {"log_softmax.int", "_log_softmax"}, "LogSoftmax");

const OpRegistration softmax_gradient =
    gradient_op("softmax_gradient", false, "y * (dy - sum(y * dy)): gradient of softmax from its result y.")
        .gradient([](GradientBuilder& g) {
          // dx = y * (dy - s), s = sum(y * dy); with upstream u and t = sum(y * u).
          const std::vector<int64_t> dim{g.attributes().integer("dim")};
          ir::Value *y = g.operand(0), *dy = g.operand(1), *u = g.upstream();
          ir::Value *s = g.sum(g.mul(y, dy), dim, true), *t = g.sum(g.mul(y, u), dim, true);
          if (g.needs(0)) g.set(0, g.sub(g.mul(u, g.sub(dy, s)), g.mul(dy, t)));
          if (g.needs(1)) g.set(1, g.mul(y, g.sub(u, t)));
        });

const OpRegistration log_softmax_gradient =
    gradient_op("log_softmax_gradient", true,
                "dy - exp(y) * sum(dy): gradient of log_softmax from its result y.")
        .gradient([](GradientBuilder& g) {
          const std::vector<int64_t> dim{g.attributes().integer("dim")};
          ir::Value *p = g.op("exp", {g.operand(0)}), *u = g.upstream();
          if (g.needs(0)) g.set(0, g.neg(g.mul(g.mul(u, p), g.sum(g.operand(1), dim, true))));
          if (g.needs(1)) g.set(1, g.sub(u, g.sum(g.mul(u, p), dim, true)));
        });

const PopartOperators softmax_popart = {{
    {"Softmax LogSoftmax", "1 11", "input:F", "output:F", "yes", "axis"},
}};

}  // namespace
}  // namespace ipu::ops
