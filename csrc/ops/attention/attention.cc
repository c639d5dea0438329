// Scaled dot-product attention: two products around a softmax. Rows that a mask blocks entirely give zeros, as
// in torch.
#include <fmt/core.h>

#include <cmath>
#include <limits>

#include "ops/definition/composer.h"
#include "ops/definition/rule_support.h"
#include "ops/definition/sample_types.h"
#include "ops/random/random_support.h"

namespace ipu::ops {
namespace {

enum Operand : int { kQuery = 0, kKey = 1, kValue = 2, kMask = 3, kSeed = 4 };

Shape batch_of(const Shape& shape) { return Shape(shape.begin(), shape.end() - 2); }
Shape with_matrix(Shape batch, int64_t rows, int64_t columns) {
  batch.insert(batch.end(), {rows, columns});
  return batch;
}

// A key or value whose heads each serve several heads of the query, as if there were as many: dimension -3.
Shape with_heads(Shape shape, int64_t heads) {
  shape[shape.size() - 3] = heads;
  return shape;
}

struct Shapes {
  Shape batch;
  int64_t queries, keys, width;  // width of a value
};

Shapes shapes_of(const InferContext& c) {
  const Shape& q = c.operand(kQuery).shape;
  Shape k = c.operand(kKey).shape, v = c.operand(kValue).shape;
  if (q.size() < 2 || k.size() < 2 || v.size() < 2)
    shape_error("query, key and value must have at least two dimensions");
  if (c.attributes.boolean("grouped")) {
    for (Shape* shape : {&k, &v}) {
      if (q.size() < 3 || shape->size() != q.size() || (*shape)[q.size() - 3] < 1 ||
          q[q.size() - 3] % (*shape)[q.size() - 3] != 0)
        shape_error(fmt::format("the heads of the query {} cannot be divided among those of {}", to_string(q),
                                to_string(*shape)));
      *shape = with_heads(*shape, q[q.size() - 3]);
    }
  }
  if (q.back() != k.back() || k[k.size() - 2] != v[v.size() - 2])
    shape_error(fmt::format("query {}, key {} and value {} must be [..,L,E], [..,S,E] and [..,S,V]",
                            to_string(q), to_string(k), to_string(v)));
  return {broadcast_shapes(broadcast_shapes(batch_of(q), batch_of(k)), batch_of(v)), q[q.size() - 2],
          k[k.size() - 2], v.back()};
}

std::vector<ir::Type> attention_types(const InferContext& c) {
  require_same_dtype(c, kQuery, kKey);
  require_same_dtype(c, kQuery, kValue);
  const Shapes s = shapes_of(c);
  const DType dtype = c.operand(kQuery).dtype;
  const Shape weights = with_matrix(s.batch, s.queries, s.keys);
  if (c.has(kMask) && broadcast_shapes(weights, c.operand(kMask).shape) != weights)
    shape_error(fmt::format("the mask {} does not broadcast to the scores {}",
                            to_string(c.operand(kMask).shape), to_string(weights)));
  const double p = c.attributes.real("dropout");
  if (!(p >= 0.0 && p <= 1.0)) attribute_error(fmt::format("dropout must be in [0, 1], not {:f}", p));
  if ((p != 0.0) != c.has(kSeed)) attribute_error("dropout other than 0 and a seed come together");
  if (c.has(kSeed)) require_seed(c, kSeed);
  return {{dtype, with_matrix(s.batch, s.queries, s.width)}, {dtype, weights}};
}

ir::Value* with_batch(Composer& c, ir::Value* x, const Shape& batch) {
  const Shape& shape = x->type().shape;
  return c.expand(x, with_matrix(batch, shape[shape.size() - 2], shape.back()));
}

// Grouped queries: each head of k and v serves several heads of q that stand next to each other.
ir::Value* with_repeated_heads(Composer& c, ir::Value* x, int64_t heads) {
  const Shape shape = x->type().shape;
  const size_t head = shape.size() - 3;
  const int64_t copies = heads / shape[head];
  if (copies == 1) return x;
  Shape spread = shape, grown = shape;
  spread.insert(spread.begin() + static_cast<ptrdiff_t>(head) + 1, 1);
  grown.insert(grown.begin() + static_cast<ptrdiff_t>(head) + 1, copies);
  return c.reshape(c.expand(c.reshape(x, spread), grown), with_heads(shape, heads));
}

// Scores with -inf where attention is not allowed.
ir::Value* masked(Composer& c, ir::Value* scores) {
  const DType dtype = scores->type().dtype;
  if (!c.attributes().boolean("causal") && !c.has(kMask)) return scores;
  ir::Value* blocked = c.scalar(dtype, -std::numeric_limits<double>::infinity());
  if (c.attributes().boolean("causal")) {
    const Shape matrix(scores->type().shape.end() - 2, scores->type().shape.end());
    const auto index = [&](int64_t dim) { return c.op("iota", {}, {{"shape", matrix}, {"dim", dim}}); };
    ir::Value* row = index(0);
    scores = c.op("where", {c.op("greater_equal", {row, index(1)}), scores, blocked});
  }
  if (!c.has(kMask)) return scores;
  ir::Value* mask = c.operand(kMask);
  return mask->type().dtype == DType::kBool ? c.op("where", {mask, scores, blocked})
                                            : c.add(scores, c.cast(mask, dtype));
}

std::vector<ir::Value*> attention_parts(Composer& c) {
  ir::Value *q = c.operand(kQuery), *k = c.operand(kKey), *v = c.operand(kValue);
  const Attributes& attributes = c.attributes();
  if (attributes.boolean("grouped")) {
    const Shape& shape = q->type().shape;
    k = with_repeated_heads(c, k, shape[shape.size() - 3]);
    v = with_repeated_heads(c, v, shape[shape.size() - 3]);
  }
  const Shape batch = batch_of(c.result_type(0).shape);
  q = c.mul(q, c.scalar_like(q, attributes.real("scale")));
  ir::Value* scores = c.op("matmul", {with_batch(c, q, batch), with_batch(c, k, batch)}, {{"trans_b", true}});
  scores = masked(c, scores);
  const auto last = static_cast<int64_t>(scores->type().shape.size()) - 1;
  ir::Value* weights = c.op("softmax", {scores}, {{"dim", last}, {"zero_blocked", c.has(kMask)}});
  ir::Value* kept = weights;
  if (c.has(kSeed))
    kept = c.op("dropout", {weights, c.operand(kSeed)},
                {{"p", attributes.real("dropout")}, {"stream_id", attributes.integer("stream_id")}});
  return {c.op("matmul", {kept, with_batch(c, v, batch)}), weights};
}

void import_attention(AtenImportCall& call) {
  ir::Value* q = call.tensor("query");
  const Shape& shape = q->type().shape;
  if (shape.size() < 2) call.unsupported("a query with fewer than two dimensions");
  const bool grouped = call.has("enable_gqa") && call.boolean("enable_gqa") && shape.size() >= 3;
  const double scale =
      call.has("scale") ? call.real("scale") : 1.0 / std::sqrt(static_cast<double>(shape.back()));
  const double p = call.has("dropout_p") ? call.real("dropout_p") : 0.0;
  Attributes attributes{{"scale", scale},
                        {"causal", call.has("is_causal") && call.boolean("is_causal")},
                        {"grouped", grouped},
                        {"dropout", p}};
  std::vector<ir::Value*> operands{q, call.tensor("key"), call.tensor("value"),
                                   call.optional_tensor("attn_mask")};
  if (p != 0.0) {
    operands.push_back(call.seed());
    attributes.set("stream_id", call.next_stream());
  }
  call.set_result(0, build_op(call.builder(), "attention", operands, std::move(attributes))->result());
}

const OpRegistration attention =
    define_op("attention", "attention")
        .doc(
            "softmax(query * scale @ key^T) @ value, of query [..,L,E], key [..,S,E] and value [..,S,V]. A "
            "boolean mask says which scores count, one of numbers is added to the scores; causal lets query i "
            "see the keys up to i alone; rows without a score give zeros with a mask. grouped: a head "
            "(dimension -3) of key and value serves several neighbouring heads of the query. Each weight is "
            "dropped with the probability dropout. The result weights is the softmax.")
        .operand("query", kAnyFloat)
        .operand("key", kAnyFloat)
        .operand("value", kAnyFloat)
        .optional_operand("mask", kAnyFloat | kBoolean)
        .optional_operand("seed", bit(DType::kU32))
        .attribute("scale")
        .attribute("causal", false)
        .attribute("grouped", false)
        .attribute("dropout", 0.0)
        .attribute("stream_id", int64_t{0})
        .result("y")
        .result("weights")
        .traits(kRandom | kExpensive)
        .infer(attention_types)
        .compound(attention_parts)
        .gradient_by_decomposition({"weights"})
        .from_aten({"scaled_dot_product_attention"}, import_attention)
        .samples(
            {{{f32({2, 3, 4}), f32({2, 5, 4}), f32({2, 5, 3})}, {{"scale", 0.5}}},
             {{f32({2, 2, 3, 4}), f32({2, 2, 3, 4}), f32({2, 2, 3, 4})}, {{"scale", 0.25}, {"causal", true}}},
             {{f32({2, 3, 4}), f32({5, 4}), f32({2, 5, 3}), f32({3, 5})}, {{"scale", 0.5}}},
             {{f32({3, 4}), f32({5, 4}), f32({5, 3}), boolean({5})}, {{"scale", 0.5}}},
             {{f32({4, 2, 3}), f32({2, 3, 3}), f32({2, 3, 3})}, {{"scale", 1.0}, {"grouped", true}}},
             {{f32({3, 4}), f32({5, 4}), f32({5, 3}), std::nullopt, ir::Type{DType::kU32, {2}}},
              {{"scale", 0.5}, {"dropout", 0.25}, {"stream_id", int64_t{3}}},
              -1,
              1,
              {{kSeed, {0, 1e9}}}}});

}  // namespace
}  // namespace ipu::ops
