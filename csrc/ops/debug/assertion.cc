// assertion: ends the run with a message where a condition does not hold.
#include "kernels/debug/assertion.h"

#include "ops/definition/importers.h"
#include "ops/definition/node_import_call.h"
#include "ops/definition/op_def.h"
#include "ops/definition/work.h"

namespace ipu::ops {
namespace {

// Without its attribute the data follow the words.
void import_assert(NodeImportCall& call) {
  call.ignore("T");
  std::vector<ir::Value*> operands;
  for (int i = 0; i < call.operand_count(); ++i) operands.push_back(call.operand(i));
  Attributes attributes;
  attributes.set("message", call.text("message", ""));
  attributes.set("summarize", call.integer("summarize", 3));
  build_op(call.builder(), "assertion", operands, std::move(attributes));
}

const OpRegistration assertion =
    define_op("assertion", "debug")
        .doc(
            "condition; ends the run with an error when an element of it is false: message, with each {} replaced by the next "
            "tensor of data, of which so many elements are shown (all: -1).")
        .operand("condition", kBoolean)
        .variadic("data", kAnything)
        .attribute("message", std::string())
        .attribute("summarize", int64_t{3})
        .result("y")
        .traits(kSideEffects | kMayReuseFirstOperand)
        .infer([](const InferContext& c) { return std::vector<ir::Type>{c.operand(0)}; })
        .gradient_zero()
        .work([](const ir::Op& op) { return std::vector{reduction_of(op.operand(0)->type(), 1)}; })
        .reference([](ReferenceCall& call) {
          for (const double holds : call.operand(0).values) {
            if (holds != 0.0) continue;
            std::vector<ConstantPtr> kept;
            std::vector<TensorSpec> specs;
            std::vector<const std::byte*> data;
            for (size_t i = 1; i < call.operands.size(); ++i) {
              kept.push_back(call.operands[i]->to_constant());
              specs.push_back(TensorSpec::plain(kept.back()->dtype, kept.back()->shape));
              data.push_back(kept.back()->bytes.data());
            }
            kernels::raise_assertion(call.attributes.text("message", ""),
                                     call.attributes.integer("summarize", 3), specs, data);
          }
          call.result(0).values = call.operand(0).values;
        })
        .samples({{{ir::Type{DType::kBool, {2, 3}}, ir::Type{DType::kF32, {4}}}, {}, 1, 1, {}},
                  {{ir::Type{DType::kBool, {}}}, {{"message", std::string("no")}}, 1, 1, {}}});

struct AssertionImporters {
  AssertionImporters() { register_tensorflow_importer("Assert", import_assert); }
};
const AssertionImporters assertion_importers;

}  // namespace
}  // namespace ipu::ops
