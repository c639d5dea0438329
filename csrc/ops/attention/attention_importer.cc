// Importer of scaled_dot_product_attention: two products around a softmax. Rows that a mask blocks entirely
// give zeros, as in torch.
#include <cmath>
#include <limits>

#include "ops/definition/rule_support.h"

namespace ipu::ops {
namespace {

constexpr double kBlocked = -std::numeric_limits<double>::infinity();

Shape batch_of(const ir::Value* value) {
  return Shape(value->type().shape.begin(), value->type().shape.end() - 2);
}

ir::Value* with_batch(AtenImportCall& call, ir::Value* value, const Shape& batch) {
  Shape shape = batch;
  shape.insert(shape.end(), value->type().shape.end() - 2, value->type().shape.end());
  return expanded(call, value, shape);
}

// Grouped queries: each head of k and v serves several heads of q that stand next to each other.
ir::Value* with_repeated_heads(AtenImportCall& call, ir::Value* value, int64_t heads) {
  Shape shape = value->type().shape;
  const size_t head = shape.size() - 3;
  const int64_t copies = heads / shape[head];
  if (copies == 1) return value;
  Shape spread = shape, grown = shape;
  spread.insert(spread.begin() + static_cast<ptrdiff_t>(head) + 1, 1);
  grown.insert(grown.begin() + static_cast<ptrdiff_t>(head) + 1, copies);
  shape[head] = heads;
  return reshaped(call, expanded(call, reshaped(call, value, spread), grown), shape);
}

// Scores with -inf where attention is not allowed; `may_block_rows` is set when a row may lose all of its
// scores.
ir::Value* masked(AtenImportCall& call, ir::Value* scores, bool& may_block_rows) {
  const DType dtype = scores->type().dtype;
  ir::Value* blocked = call.builder().scalar(dtype, kBlocked);
  if (call.has("is_causal") && call.boolean("is_causal")) {
    const Shape matrix(scores->type().shape.end() - 2, scores->type().shape.end());
    const auto index = [&](int64_t dim) { return call.op("iota", {}, {{"shape", matrix}, {"dim", dim}}); };
    ir::Value* allowed = call.op("greater_equal", {index(0), index(1)});
    scores = call.op("where", {allowed, scores, blocked});
  }
  if (call.has("attn_mask")) {
    ir::Value* mask = call.tensor("attn_mask");
    may_block_rows = true;
    scores = mask->type().dtype == DType::kBool ? call.op("where", {mask, scores, blocked})
                                                : call.op("add", {scores, call.cast(mask, dtype)});
  }
  return scores;
}

void import_attention(AtenImportCall& call) {
  ir::Value *q = call.tensor("query"), *k = call.tensor("key"), *v = call.tensor("value");
  const Shape shape = q->type().shape;
  if (shape.size() < 2) call.unsupported("a query with fewer than two dimensions");
  if (call.has("enable_gqa") && call.boolean("enable_gqa") && shape.size() >= 3) {
    const int64_t heads = shape[shape.size() - 3];
    k = with_repeated_heads(call, k, heads);
    v = with_repeated_heads(call, v, heads);
  }
  Shape batch = broadcast_shapes(broadcast_shapes(batch_of(q), batch_of(k)), batch_of(v));
  const double scale =
      call.has("scale") ? call.real("scale") : 1.0 / std::sqrt(static_cast<double>(shape.back()));
  q = call.op("mul", {q, call.builder().scalar(q->type().dtype, scale)});
  ir::Value* scores =
      call.op("matmul", {with_batch(call, q, batch), with_batch(call, k, batch)}, {{"trans_b", true}});
  bool may_block_rows = false;
  scores = masked(call, scores, may_block_rows);
  const auto last = static_cast<int64_t>(scores->type().shape.size()) - 1;
  ir::Value* dead = nullptr;
  ir::Value* zero = call.builder().scalar(scores->type().dtype, 0.0);
  if (may_block_rows) {
    ir::Value* largest =
        call.op("reduce_max", {call.op("detach", {scores})}, {{"dims", Shape{last}}, {"keep_dims", true}});
    dead = call.op("equal", {largest, call.builder().scalar(scores->type().dtype, kBlocked)});
    scores = call.op("where", {dead, zero, scores});
  }
  ir::Value* weights = call.op("softmax", {scores}, {{"dim", last}});
  if (dead != nullptr) weights = call.op("where", {dead, zero, weights});
  const double p = call.has("dropout_p") ? call.real("dropout_p") : 0.0;
  if (p != 0.0)
    weights = call.op("dropout", {weights, call.seed()}, {{"p", p}, {"stream_id", call.next_stream()}});
  call.set_result(0, call.op("matmul", {weights, with_batch(call, v, batch)}));
}

struct Registration {
  Registration() { register_aten_importer("scaled_dot_product_attention", import_attention); }
};
const Registration registration;

}  // namespace
}  // namespace ipu::ops
