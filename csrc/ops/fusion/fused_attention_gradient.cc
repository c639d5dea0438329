// fused_attention_gradient: the four products and the softmax between them that give the gradients of an attention whose
// weights were kept; made by the pass fuse-attention-gradient.
#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "ops/definition/build.h"
#include "ops/definition/rule_support.h"
#include "ops/definition/sample_types.h"
#include "ops/linear/product_work.h"
#include "ops/softmax/softmax_work.h"

namespace ipu::ops {
namespace {

enum Operand : int { kQuery, kKey, kValue, kWeights, kDy, kMask };

std::vector<ir::Type> types_of(const InferContext& c) {
  const Shape &q = c.operand(kQuery).shape, &k = c.operand(kKey).shape, &v = c.operand(kValue).shape,
              &w = c.operand(kWeights).shape, &dy = c.operand(kDy).shape;
  const size_t rank = q.size();
  const auto fits = [&](const Shape& x, const Shape& rows, size_t row, const Shape& columns, size_t column) {
    return x.size() == rank && std::equal(q.begin(), q.end() - 2, x.begin()) && x[rank - 2] == rows[row] &&
           x[rank - 1] == columns[column];
  };
  if (rank < 2 || k.size() != rank || v.size() != rank || !fits(k, k, rank - 2, q, rank - 1) ||
      !fits(v, k, rank - 2, v, rank - 1) || !fits(w, q, rank - 2, k, rank - 2) ||
      !fits(dy, q, rank - 2, v, rank - 1))
    shape_error(
        fmt::format("query {}, key {}, value {}, weights {} and d_y {} must be [..,L,E], [..,S,E], [..,S,V], "
                    "[..,L,S] and [..,L,V]",
                    to_string(q), to_string(k), to_string(v), to_string(w), to_string(dy)));
  if (c.has(kMask) && broadcast_shapes(w, c.operand(kMask).shape) != w)
    shape_error(fmt::format("the mask {} does not broadcast to the weights {}",
                            to_string(c.operand(kMask).shape), to_string(w)));
  return {c.operand(kQuery), c.operand(kKey), c.operand(kValue)};
}

void reference(ReferenceCall& call) {
  const ReferenceTensor &q = call.operand(kQuery), &k = call.operand(kKey), &v = call.operand(kValue),
                        &w = call.operand(kWeights), &dy = call.operand(kDy);
  const Shape& shape = w.type.shape;
  const auto rows = static_cast<size_t>(shape[shape.size() - 2]), keys = static_cast<size_t>(shape.back());
  const auto width = static_cast<size_t>(q.type.shape.back()), out = static_cast<size_t>(v.type.shape.back());
  std::vector<double> mask;
  if (call.has(kMask))
    for_each_offset(
        shape, broadcast_strides(call.operand(kMask).type.shape, shape), 0,
        [&](int64_t, int64_t at) { mask.push_back(call.operand(kMask).values[static_cast<size_t>(at)]); });
  const double scale = call.attributes.real("scale", 1.0);
  const bool causal = call.attributes.boolean("causal", false),
             keeps = call.attributes.boolean("keeps", true);
  const size_t count = keys == 0 ? 0 : w.values.size() / keys;
  for (size_t i = 0; i < count; ++i) {
    const size_t head = i / rows, seen = causal ? std::min(keys, i % rows + 1) : keys;
    std::vector<double> dw(seen);
    double sum = 0.0;
    for (size_t j = 0; j < seen; ++j) {
      for (size_t n = 0; n < out; ++n)
        dw[j] += dy.values[i * out + n] * v.values[(head * keys + j) * out + n];
      sum += dw[j] * w.values[i * keys + j];
    }
    for (size_t j = 0; j < seen; ++j) {
      const double weight = w.values[i * keys + j];
      const bool counts = mask.empty() || (mask[i * keys + j] != 0.0) == keeps;
      const double ds = counts ? (dw[j] - sum) * weight * scale : 0.0;
      for (size_t e = 0; e < width; ++e) {
        call.result(0).values[i * width + e] += ds * k.values[(head * keys + j) * width + e];
        call.result(1).values[(head * keys + j) * width + e] += ds * q.values[i * width + e];
      }
      for (size_t n = 0; n < out; ++n)
        call.result(2).values[(head * keys + j) * out + n] += weight * dy.values[i * out + n];
    }
  }
}

// Weights and value give the gradient of the scores, and these those of query and key.
std::vector<target::Work> attention_gradient_work(const ir::Op& op) {
  const ir::Type& w = op.operand(kWeights)->type();
  const Shape& s = w.shape;
  const int64_t rows = s[s.size() - 2], keys = s.back(),
                lines = element_count(std::span(s).first(s.size() - 1));
  const int64_t width = op.operand(kQuery)->type().shape.back(),
                out = op.operand(kValue)->type().shape.back();
  const int64_t groups = lines / std::max<int64_t>(rows, 1);
  std::vector<target::Work> work = softmax_gradient_work(w, lines);
  for (const target::ProductShape& shape : {target::ProductShape{groups, rows, out, keys},
                                            {groups, keys, rows, out},
                                            {groups, rows, keys, width},
                                            {groups, keys, rows, width}})
    std::ranges::copy(product_work(op, shape), std::back_inserter(work));
  return work;
}

const OpRegistration fused_attention_gradient =
    define_op("fused_attention_gradient", "fusion")
        .doc(
            "Gradients of fused_attention for query [..,L,E], key [..,S,E] and value [..,S,V], from its weights "
            "[..,L,S] and d_y [..,L,V]. With s = (d_y @ value^T - rowsum(d_y @ value^T * weights)) * weights * scale, "
            "zero where mask is not `keeps`: s @ key, s^T @ query, weights^T @ d_y. causal: weights of row i beyond key "
            "i count as zero.")
        .operand("query", bit(DType::kF32))
        .operand("key", bit(DType::kF32))
        .operand("value", bit(DType::kF32))
        .operand("weights", bit(DType::kF32))
        .operand("d_y", bit(DType::kF32))
        .optional_operand("mask", kBoolean)
        .attribute("scale", 1.0)
        .attribute("causal", false)
        .attribute("keeps", true)
        .result("d_query")
        .result("d_key")
        .result("d_value")
        .traits(kMatmul | kExpensive)
        .infer(types_of)
        .gradient_refused("it is made after gradients are")
        .reference(reference)
        .kernel("fused_attention_gradient")
        .work(attention_gradient_work)
        .samples({{{f32({2, 3, 4}), f32({2, 5, 4}), f32({2, 5, 3}), f32({2, 3, 5}), f32({2, 3, 3})},
                   {{"scale", 0.5}}},
                  {{f32({2, 20, 4}), f32({2, 20, 4}), f32({2, 20, 4}), f32({2, 20, 20}), f32({2, 20, 4})},
                   {{"causal", true}}},
                  {{f32({3, 4}), f32({5, 4}), f32({5, 3}), f32({3, 5}), f32({3, 3}), boolean({5})},
                   {{"keeps", false}}}});

}  // namespace
}  // namespace ipu::ops
