// overlap_mark: how far the transfer of an input or output of the model may overlap with compute. A front end takes
// the marks out of the forward graph before it becomes a program (frontends/torch/executor/overlap_marks.h).
#include "ops/definition/rule_support.h"
#include "ops/definition/work.h"

namespace ipu::ops {
namespace {

void import_overlap_mark(AtenImportCall& call) {
  call.set_result(0, call.op("overlap_mark", {call.tensor("x")},
                             {{"direction", call.text("direction")}, {"mode", call.text("mode")}}));
}

const OpRegistration overlap_mark_op =
    define_op("overlap_mark", "exchange")
        .doc(
            "x, an input or output of the model whose transfer overlaps with compute. direction: \"input\", "
            "\"output\"; mode: \"no_overlap\", \"overlap_accumulation_loop\", \"overlap_device_iteration_loop\".")
        .operand("x", kAnything)
        .attribute("direction")
        .attribute("mode")
        .result("y")
        .traits(kMayReuseFirstOperand)
        .infer([](const InferContext& c) {
          one_of(c, "direction", {"input", "output"});
          one_of(c, "mode", {"no_overlap", "overlap_accumulation_loop", "overlap_device_iteration_loop"});
          return std::vector<ir::Type>{c.operand(0)};
        })
        .gradient([](GradientBuilder& g) { g.set(0, g.upstream()); })
        .reference([](ReferenceCall& call) { call.result().values = call.operand(0).values; })
        .kernels([](const ir::Op&) {
          return std::vector<KernelChoice>{{"copy", {}}};
        })
        .work(no_work())
        .from_aten({"poptorch::overlap_mark"}, import_overlap_mark)
        .samples(
            {{{ir::Type{DType::kF32, {2, 3}}},
              {{"direction", std::string("input")}, {"mode", std::string("no_overlap")}}},
             {{ir::Type{DType::kI32, {4}}},
              {{"direction", std::string("output")}, {"mode", std::string("overlap_accumulation_loop")}}}});

}  // namespace
}  // namespace ipu::ops
