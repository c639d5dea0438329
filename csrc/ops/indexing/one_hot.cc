// one_hot: class numbers as rows of zeros with a single one.
#include <fmt/core.h>

#include "ops/definition/work.h"
#include "ops/indexing/index_support.h"

namespace ipu::ops {
namespace {

void import_one_hot(AtenImportCall& call) {
  const int64_t classes = call.has("num_classes") ? call.integer("num_classes") : -1;
  if (classes < 1) call.unsupported("num_classes must be given: without it the shape depends on data");
  call.set_result(0, call.op("one_hot", {call.cast(call.tensor("self"), DType::kI32)},
                             {{"classes", classes}, {"dtype", call.result_type(0).dtype}}));
}

const OpRegistration one_hot =
    define_op("one_hot", "indexing")
        .doc("For each index a row of `classes` elements that are 0, but 1 at the index.")
        .operand("index", kAnyInteger)
        .attribute("classes")
        .attribute("dtype", DType::kI32)
        .result("y")
        .infer([](const InferContext& c) {
          const int64_t classes = c.attributes.integer("classes");
          if (classes < 1) attribute_error(fmt::format("classes={} must be at least 1", classes));
          ir::Type y{c.attributes.dtype("dtype"), c.operand(0).shape};
          y.shape.push_back(classes);
          return std::vector<ir::Type>{y};
        })
        .gradient_zero()
        .reference([](ReferenceCall& call) {
          const int64_t classes = call.attributes.integer("classes");
          for (int64_t i = 0; i < call.operand(0).size(); ++i) {
            call.result().values[i * classes + checked_index(call.operand(0), i, classes, "one_hot")] = 1.0;
          }
        })
        .work([](const ir::Op& op) -> std::vector<target::Work> {
          return {pass_over(op.result()->type(), {""}), pass_over(op.operand(0)->type(), {"OneHot"})};
        })
        .from_aten({"one_hot"}, import_one_hot)
        .samples(
            {{{ir::Type{DType::kI32, {4}}}, {{"classes", int64_t{3}}}, 0, 2},
             {{ir::Type{DType::kI32, {2, 3}}}, {{"classes", int64_t{5}}, {"dtype", DType::kF32}}, 0, 4}});

}  // namespace
}  // namespace ipu::ops
