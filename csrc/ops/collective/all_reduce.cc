// all_reduce: one value of all replicas of a group, from each replica's own.
#include "ops/collective/collective_support.h"

namespace ipu::ops {
namespace {

const OpRegistration all_reduce =
    define_op("all_reduce", "collective")
        .doc(
            "x reduced over the replicas of a group, in replica order, on each of them: op is sum, mean, "
            "prod, "
            "min, max, square_sum (of numbers), and, or (of bool). group_size 0: all replicas; else replica "
            "r "
            "and the ones group_stride apart from it, group_size of them.")
        .operand("x", kReducibleByReplicas)
        .attribute("op", std::string("sum"))
        .attribute("group_size", int64_t{0})
        .attribute("group_stride", int64_t{1})
        .result("y")
        .traits(kAnyLayout | kMayReuseFirstOperand)
        .infer([](const InferContext& c) {
          check_reduction(c, false);
          check_group(c);
          return std::vector<ir::Type>{c.operand(0)};
        })
        .gradient([](GradientBuilder& g) {
          const std::string& op = g.attributes().text("op");
          if (op != "sum" && op != "mean") refuse_gradient(g, "has one for op=\"sum\" and \"mean\" only");
          g.set(0, g.op("all_reduce", {g.upstream()}, same_group(g, {{"op", op}})));
        })
        .collective([](CollectiveCall& call) {
          const std::vector<double> total = reduced_over(call.attributes.text("op"), first_operands(call));
          for (auto& results : call.results) results[0]->values = total;
        })
        .kernels(group_kernel)
        .work([](const ir::Op& op) {
          return collective_work(op, target::Collective::kAllReduce, op.result()->type());
        })
        .samples({{{ir::Type{DType::kF32, {2, 3}}}, {}},
                  {{ir::Type{DType::kI32, {4}}}, {}},
                  {{ir::Type{DType::kF32, {5}}}, {{"op", std::string("mean")}}},
                  {{ir::Type{DType::kBool, {5}}}, {{"op", std::string("or")}}}});

}  // namespace
}  // namespace ipu::ops
