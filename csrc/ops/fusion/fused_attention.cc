// fused_attention: two products around a softmax, whose scores never reach memory as a whole, and
// fused_attention_with_weights, which gives the softmax too; made by the pass fuse-attention.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/definition/build.h"
#include "ops/definition/rule_support.h"
#include "ops/definition/sample_types.h"
#include "ops/linear/product_work.h"
#include "ops/softmax/softmax_work.h"

namespace ipu::ops {
namespace {

constexpr DTypeSet kHalfOrFloat = bit(DType::kF16) | bit(DType::kF32);
constexpr double kInfinity = std::numeric_limits<double>::infinity();

enum Operand : int { kQuery, kKey, kValue, kMask, kAddend };

// Returns the shape of the scores. The operands' shapes must fit.
Shape scores_of(const ir::Type& query, const ir::Type& key) {
  Shape scores = query.shape;
  scores.back() = key.shape[key.shape.size() - 2];
  return scores;
}

ir::Type type_of(const InferContext& c) {
  const Shape &q = c.operand(kQuery).shape, &k = c.operand(kKey).shape, &v = c.operand(kValue).shape;
  for (int i : {kKey, kValue, kAddend})
    if (c.has(i)) require_same_dtype(c, kQuery, i);
  const size_t rank = q.size();
  const auto same_batch = [&](const Shape& other) {
    return std::equal(q.begin(), q.end() - 2, other.begin(), other.end() - 2);
  };
  if (rank < 2 || k.size() != rank || v.size() != rank || !same_batch(k) || !same_batch(v) ||
      q.back() != k.back() || k[rank - 2] != v[rank - 2])
    shape_error(fmt::format("query {}, key {} and value {} must be [..,L,E], [..,S,E] and [..,S,V]",
                            to_string(q), to_string(k), to_string(v)));
  const Shape scores = scores_of(c.operand(kQuery), c.operand(kKey));
  for (int i : {kMask, kAddend})
    if (c.has(i) && broadcast_shapes(scores, c.operand(i).shape) != scores)
      shape_error(fmt::format("the {} {} does not broadcast to the scores {}", i == kMask ? "mask" : "addend",
                              to_string(c.operand(i).shape), to_string(scores)));
  Shape y = q;
  y.back() = v.back();
  return {c.operand(kQuery).dtype, y};
}

// An operand as if it had the shape of the scores.
std::vector<double> spread(const ReferenceTensor& x, const Shape& scores) {
  std::vector<double> all(static_cast<size_t>(element_count(scores)));
  for_each_offset(scores, broadcast_strides(x.type.shape, scores), 0, [&](int64_t i, int64_t at) {
    all[static_cast<size_t>(i)] = x.values[static_cast<size_t>(at)];
  });
  return all;
}

void reference(ReferenceCall& call) {
  const ReferenceTensor &q = call.operand(kQuery), &k = call.operand(kKey), &v = call.operand(kValue);
  const Shape scores = scores_of(q.type, k.type);
  const std::vector<double> mask =
      call.has(kMask) ? spread(call.operand(kMask), scores) : std::vector<double>();
  const std::vector<double> addend =
      call.has(kAddend) ? spread(call.operand(kAddend), scores) : std::vector<double>();
  const auto rows = static_cast<size_t>(scores[scores.size() - 2]), keys = static_cast<size_t>(scores.back());
  const auto width = static_cast<size_t>(q.type.shape.back()), out = static_cast<size_t>(v.type.shape.back());
  const double scale = call.attributes.real("scale", 1.0),
               blocked = call.attributes.real("blocked", -kInfinity);
  const bool causal = call.attributes.boolean("causal", false),
             keeps = call.attributes.boolean("keeps", true),
             zero_blocked = call.attributes.boolean("zero_blocked", false);
  std::vector<double> row(keys);
  const size_t count = keys == 0 ? 0 : static_cast<size_t>(element_count(scores)) / keys;
  for (size_t i = 0; i < count; ++i) {
    const size_t head = i / rows;
    double largest = -kInfinity, sum = 0.0;
    for (size_t j = 0; j < keys; ++j) {
      double s = 0.0;
      for (size_t e = 0; e < width; ++e)
        s += q.values[i * width + e] * k.values[(head * keys + j) * width + e];
      s *= scale;
      if (causal && j > i % rows) s = -kInfinity;
      if (!mask.empty() && (mask[i * keys + j] != 0.0) != keeps) s = blocked;
      if (!addend.empty()) s += addend[i * keys + j];
      row[j] = s;
      largest = std::max(largest, s);
    }
    const bool is_blocked = zero_blocked && largest == -kInfinity;
    for (double& s : row) sum += s = is_blocked ? 0.0 : std::exp(s - largest);
    for (double& weight : row) weight /= is_blocked ? 1.0 : sum;
    for (size_t n = 0; n < out; ++n)
      for (size_t j = 0; j < keys; ++j)
        call.result().values[i * out + n] += row[j] * v.values[(head * keys + j) * out + n];
    if (call.results.size() > 1)
      std::copy(row.begin(), row.end(), call.result(1).values.begin() + static_cast<ptrdiff_t>(i * keys));
  }
}

std::vector<target::Work> attention_work(const ir::Op& op) {
  const ir::Type &q = op.operand(kQuery)->type(), &v = op.operand(kValue)->type();
  const ir::Type scores{q.dtype, scores_of(q, op.operand(kKey)->type())};
  const Shape& s = scores.shape;
  const int64_t rows = s[s.size() - 2], keys = s.back(),
                lines = element_count(std::span(s).first(s.size() - 1));
  const int64_t groups = lines / std::max<int64_t>(rows, 1);
  std::vector<target::Work> work =
      product_work(op, {.groups = groups, .rows = rows, .inputs = q.shape.back(), .outputs = keys});
  const bool has_mask = op.operand_count() > kMask || op.attributes.boolean("causal", false);
  work.push_back(has_mask ? pass_over(scores, {"Mul", "Add"}, 2) : pass_over(scores, {"Mul"}, 2));
  std::ranges::copy(softmax_work(scores, lines), std::back_inserter(work));
  std::ranges::copy(
      product_work(op, {.groups = groups, .rows = rows, .inputs = keys, .outputs = v.shape.back()}),
      std::back_inserter(work));
  return work;
}

const char* const kMeaning =
    "softmax(scores) @ value [..,S,V], of scores = query [..,L,E] @ key [..,S,E]^T * scale. causal: query i "
    "sees the keys up to i alone. Then the scores where mask is not `keeps` become `blocked`, and addend is "
    "added; both broadcast to [..,L,S]. zero_blocked: rows of -inf give zeros, not NaN. ";

OpDefBuilder attention_op(const char* name, const char* also, DTypeSet dtypes) {
  OpDefBuilder builder(name, "fusion");
  builder.doc(std::string(kMeaning) + also)
      .operand("query", dtypes)
      .operand("key", dtypes)
      .operand("value", dtypes)
      .optional_operand("mask", kBoolean)
      .optional_operand("addend", dtypes)
      .attribute("scale", 1.0)
      .attribute("causal", false)
      .attribute("keeps", true)
      .attribute("blocked", -kInfinity)
      .attribute("zero_blocked", false)
      .traits(kMatmul | kExpensive)
      .gradient_refused("it is made after gradients are")
      .reference(reference)
      .kernel(name)
      .work(attention_work);
  return builder;
}

const OpRegistration fused_attention =
    attention_op("fused_attention", "Of halves the result alone is rounded.", kHalfOrFloat)
        .result("y")
        .infer([](const InferContext& c) { return std::vector<ir::Type>{type_of(c)}; })
        .samples(
            {{{f32({2, 3, 4}), f32({2, 5, 4}), f32({2, 5, 3})}, {{"scale", 0.5}}},
             {{f32({2, 2, 70, 4}), f32({2, 2, 70, 4}), f32({2, 2, 70, 4})}, {{"causal", true}}},
             {{f32({3, 4}), f32({5, 4}), f32({5, 3}), boolean({5})}, {{"blocked", -2.0}}},
             {{f32({2, 3, 4}), f32({2, 5, 4}), f32({2, 5, 3}), boolean({2, 1, 5}), f32({3, 5})},
              {{"keeps", false}, {"zero_blocked", true}}},
             {{f16({2, 3, 4}), f16({2, 5, 4}), f16({2, 5, 3}), std::nullopt, f16({5})}, {{"scale", 0.5}}}});

const OpRegistration fused_attention_with_weights =
    attention_op("fused_attention_with_weights", "The second result is the softmax.", bit(DType::kF32))
        .result("y")
        .result("weights")
        .infer([](const InferContext& c) {
          return std::vector<ir::Type>{type_of(c),
                                       {DType::kF32, scores_of(c.operand(kQuery), c.operand(kKey))}};
        })
        .samples({{{f32({2, 3, 4}), f32({2, 5, 4}), f32({2, 5, 3})}, {{"scale", 0.5}}},
                  {{f32({2, 20, 4}), f32({2, 20, 4}), f32({2, 20, 4})}, {{"causal", true}}},
                  {{f32({2, 3, 4}), f32({2, 5, 4}), f32({2, 5, 3}), boolean({2, 1, 5}), f32({3, 5})},
                   {{"zero_blocked", true}}}});

}  // namespace
}  // namespace ipu::ops
