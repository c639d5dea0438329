// io_tile_copy: between the tiles of an IPU that compute and those that exchange with the host and streaming
// memory. The value stays; where it lies matters to memory and time only.
#include "ops/definition/rule_support.h"
#include "ops/definition/work.h"

namespace ipu::ops {
namespace {

const OpRegistration io_tile_copy_op =
    define_op("io_tile_copy", "exchange")
        .doc("x on the other tile set of its IPU: to=\"io\" or \"compute\".")
        .operand("x", kAnything)
        .attribute("to")
        .result("y")
        .traits(kAnyLayout | kMayReuseFirstOperand | kCompletesLoad)
        .infer([](const InferContext& c) {
          one_of(c, "to", {"io", "compute"});
          return std::vector<ir::Type>{c.operand(0)};
        })
        .gradient([](GradientBuilder& g) {
          const bool to_io = g.attributes().text("to") == "io";
          g.set(0, g.op("io_tile_copy", {g.upstream()}, {{"to", std::string(to_io ? "compute" : "io")}}));
        })
        .work([](const ir::Op& op) {
          return std::vector{rearrangement_of(op.result()->type(), op.result()->type().elements())};
        })
        .reference([](ReferenceCall& call) { call.result().values = call.operand(0).values; })
        .kernels([](const ir::Op&) {
          return std::vector<KernelChoice>{{"copy", {}}};
        })
        .samples({{{ir::Type{DType::kF32, {2, 3}}}, {{"to", std::string("io")}}},
                  {{ir::Type{DType::kI32, {4}}}, {{"to", std::string("compute")}}}});

}  // namespace
}  // namespace ipu::ops
