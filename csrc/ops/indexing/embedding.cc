// embedding and its gradient: rows of a table by number.
#include <fmt/core.h>

#include "ops/definition/sample_types.h"
#include "ops/definition/work.h"
#include "ops/indexing/index_support.h"

namespace ipu::ops {
namespace {

void embedding_reference(ReferenceCall& call) {
  const ReferenceTensor &table = call.operand(0), &index = call.operand(1);
  const int64_t rows = table.type.shape[0], width = table.type.shape[1];
  for (int64_t i = 0; i < index.size(); ++i) {
    const int64_t row = checked_index(index, i, rows, "embedding");
    std::copy_n(table.values.begin() + row * width, width, call.result().values.begin() + i * width);
  }
}

void embedding_gradient_reference(ReferenceCall& call) {
  const ReferenceTensor &dy = call.operand(0), &index = call.operand(1);
  const int64_t rows = call.attributes.integer("rows"), padding = call.attributes.integer("padding_idx");
  const int64_t width = dy.type.shape.back();
  for (int64_t i = 0; i < index.size(); ++i) {
    const int64_t row = checked_index(index, i, rows, "embedding_gradient");
    if (row == padding) continue;
    for (int64_t j = 0; j < width; ++j) call.result().values[row * width + j] += dy.values[i * width + j];
  }
}

void import_embedding(AtenImportCall& call) {
  for (const char* option : {"scale_grad_by_freq", "sparse"}) {
    if (call.has(option) && call.boolean(option))
      call.unsupported(std::string(option) + "=True is not supported");
  }
  call.set_result(
      0, call.op("embedding", {call.tensor("weight"), call.cast(call.tensor("indices"), DType::kI32)},
                 {{"padding_idx", call.has("padding_idx") ? call.integer("padding_idx") : -1}}));
}

const OpRegistration embedding =
    define_op("embedding", "indexing")
        .doc("Rows of weight [V, D] by number: index [...] gives [..., D]. Row padding_idx gets no gradient.")
        .operand("weight", kAnyFloat)
        .operand("index", kAnyInteger)
        .attribute("padding_idx", int64_t{-1})
        .result("y")
        .infer([](const InferContext& c) {
          require_rank(c, 0, 2, "the weight");
          ir::Type y{c.operand(0).dtype, c.operand(1).shape};
          y.shape.push_back(c.operand(0).shape[1]);
          return std::vector<ir::Type>{y};
        })
        .gradient([](GradientBuilder& g) {
          g.set(0, g.op("embedding_gradient", {g.upstream(), g.operand(1)},
                        {{"rows", g.operand_type(0).shape[0]},
                         {"padding_idx", g.attributes().integer("padding_idx")}}));
        })
        .reference(embedding_reference)
        .work([](const ir::Op& op) {
          const ir::Type& weight = op.operand(0)->type();
          return std::vector{gather_from(weight, op.operand(1)->type().elements(), weight.shape[1])};
        })
        .batch([](BatchPart& part) -> std::optional<int64_t> {
          if (!part.is_only_cut(1)) return std::nullopt;
          return part.axis(1);
        })
        .from_aten({"embedding"}, import_embedding)
        .samples({{{f32({5, 3}), i32({2, 4})}, {}, -1, 1, {{1, {0, 4}}}},
                  {{f32({5, 3}), i32({6})}, {{"padding_idx", int64_t{2}}}, -1, 1, {{1, {0, 4}}}}});

const OpRegistration embedding_gradient =
    define_op("embedding_gradient", "indexing")
        .doc("Gradient of embedding for the weight [rows, D]: rows of dy added up by number.")
        .operand("dy", kAnyFloat)
        .operand("index", kAnyInteger)
        .attribute("rows")
        .attribute("padding_idx", int64_t{-1})
        .result("dweight")
        .infer([](const InferContext& c) {
          const ir::Type &dy = c.operand(0), &index = c.operand(1);
          if (dy.shape.empty() || Shape(dy.shape.begin(), dy.shape.end() - 1) != index.shape) {
            shape_error(fmt::format("dy {} must have one row per element of the index {}",
                                    to_string(dy.shape), to_string(index.shape)));
          }
          return std::vector<ir::Type>{{dy.dtype, {c.attributes.integer("rows"), dy.shape.back()}}};
        })
        .gradient([](GradientBuilder& g) {
          if (g.attributes().integer("padding_idx") < 0) {
            g.set(0, g.op("embedding", {g.upstream(), g.operand(1)}));
            return;
          }
          // Rows that were skipped contribute nothing.
          const int64_t padding = g.attributes().integer("padding_idx");
          ir::Value* index = g.operand(1);
          ir::Value* counts = g.op("not_equal", {index, g.scalar_like(index, static_cast<double>(padding))});
          Shape column = index->type().shape;
          column.push_back(1);
          ir::Value* rows = g.op("embedding", {g.upstream(), index});
          g.set(0, g.where(g.reshape(counts, column), rows, g.scalar_like(rows, 0.0)));
        })
        .reference(embedding_gradient_reference)
        .work([](const ir::Op& op) -> std::vector<target::Work> {
          const ir::Type& weight = op.result()->type();
          return {pass_over(weight, {""}),  // zeros
                  gather_from(weight, op.operand(1)->type().elements(), weight.shape[1], true)};
        })
        .samples({{{f32({2, 4, 3}), i32({2, 4})}, {{"rows", int64_t{5}}}, -1, 1, {{1, {0, 4}}}},
                  {{f32({6, 3}), i32({6})},
                   {{"rows", int64_t{5}}, {"padding_idx", int64_t{2}}},
                   -1,
                   1,
                   {{1, {0, 4}}}}});

}  // namespace
}  // namespace ipu::ops
