// all_reduce: one value of all replicas of a group, from each replica's own.
#include "ops/rule_support.h"

namespace ipu::ops {
namespace {

constexpr DTypeSet kReducible = bit(DType::kF32) | bit(DType::kF16) | bit(DType::kI32) | bit(DType::kF64);

const OpRegistration all_reduce =
    define_op("all_reduce", "collective")
        .doc(
            "The sum of x over the replicas of a group, added in replica order, on each of them. group_size "
            "0: all replicas; else replica r and the ones group_stride apart from it, group_size of them.")
        .operand("x", kReducible)
        .attribute("op", std::string("sum"))
        .attribute("group_size", int64_t{0})
        .attribute("group_stride", int64_t{1})
        .result("y")
        .traits(kSideEffects | kAnyLayout | kMayReuseFirstOperand)
        .infer([](const InferContext& c) {
          one_of(c, "op", {"sum"});
          if (c.attributes.integer("group_size", 0) < 0 || c.attributes.integer("group_stride", 1) < 1)
            attribute_error("group_size must be at least 0 and group_stride at least 1");
          return std::vector<ir::Type>{c.operand(0)};
        })
        .gradient([](GradientBuilder& g) {
          g.set(0, g.op("all_reduce", {g.upstream()},
                        {{"group_size", g.attributes().integer("group_size", 0)},
                         {"group_stride", g.attributes().integer("group_stride", 1)}}));
        })
        // The interpreter runs one replica.
        .reference([](ReferenceCall& call) { call.result(0).values = call.operand(0).values; })
        .kernels([](const ir::Op&) { return std::vector<KernelChoice>{}; })  // an instruction of the machine
        .samples({{{ir::Type{DType::kF32, {2, 3}}}, {}}, {{ir::Type{DType::kI32, {4}}}, {}}});

}  // namespace
}  // namespace ipu::ops
