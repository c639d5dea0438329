// square_sum: the squared 2-norm of a tensor. One op, so that norms of weights and gradients read them once,
// in whatever layout they are kept.
#include "ops/definition/rule_support.h"
#include "ops/definition/work.h"

namespace ipu::ops {
namespace {

const OpRegistration square_sum =
    define_op("square_sum", "reduction")
        .doc("Sum of the squares of all elements, in f32; reads any layout.")
        .operand("x", kAnyFloat)
        .result("y")
        .infer([](const InferContext&) {
          return std::vector<ir::Type>{{DType::kF32, {}}};
        })
        .gradient([](GradientBuilder& g) {
          const ir::Type& x = g.operand_type(0);
          ir::Value* slope = g.expand(g.cast(g.scale(g.upstream(), 2.0), x.dtype), x.shape);
          g.set(0, g.mul(g.operand(0), slope));
        })
        .reference([](ReferenceCall& call) {
          double sum = 0.0;
          for (const double v : call.operand(0).values) sum += v * v;
          call.result().values[0] = sum;
        })
        .work([](const ir::Op& op) { return std::vector{reduction_of(op.operand(0)->type(), 1)}; })
        .samples({{{ir::Type{DType::kF32, {3, 4}}}, {}},
                  {{ir::Type{DType::kF16, {5}}}, {}},
                  {{ir::Type{DType::kF32, {}}}, {}},
                  {{ir::Type{DType::kF32, {70, 33}}}, {}}});

}  // namespace
}  // namespace ipu::ops
