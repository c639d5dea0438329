// Kernels "fused_attention" and "fused_attention_with_weights": softmax of scores times a value, f32 or f16, batches
// of heads. The scores of a block of rows are made in scratch, where they stay in the second cache: query times
// panels of the transposed key, their end (score_row.h), the softmax of each row, weights times the copied value.
// Key and value are copied once for each head and lane. Every element is summed as the products and the softmax it
// stands for would; with `causal` columns that no row of a block sees are left out. The second kernel, of f32 alone,
// makes the weights where its second result lies. f16 is widened where it is copied: scores and weights are f32, and
// the result is rounded once.
#include <algorithm>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/attention/head_matrix.h"
#include "kernels/attention/score_row.h"
#include "kernels/footprint.h"
#include "kernels/kernel_table.h"
#include "kernels/lanes.h"
#include "kernels/softmax/row_softmax.h"
#include "kernels/tile_gemm/half_rows.h"
#include "kernels/tile_gemm/product.h"

namespace ipu::kernels {
namespace {

constexpr int64_t kBlockScores = 1 << 16;    // of a block of rows: 256 KB
constexpr int64_t kLaneRows = 256;           // of a head, that are worth copies of key and value
constexpr double kScoreMicroseconds = 1e-3;  // of the softmax of one score

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

struct Operand {
  static constexpr size_t kQuery = 0, kKey = 1, kValue = 2, kMask = 3, kAddend = 4;
};

// What a request asks, checked.
struct Plan {
  Shape batch;
  HeadMatrix query, key, value, result;  // the key transposed: [E, S]
  std::optional<HeadMatrix> weights;     // a second result: the softmax
  std::optional<ScoreSpread> mask, addend;
  float scale = 1.0f, blocked = 0.0f;
  bool causal = false, keeps = true, zero_blocked = false;

  int64_t heads() const { return element_count(batch); }
  int64_t rows() const { return query.rows; }
  int64_t keys() const { return key.columns; }
  bool has_end() const { return scale != 1.0f || mask || addend; }  // of scores, before the softmax
  int64_t offset_of(const Strides& strides, int64_t head) const { return head_offset(batch, strides, head); }
};

template <class T>
class Attention final : public PreparedKernel {
 public:
  explicit Attention(Plan plan)
      : plan_(std::move(plan)),
        softmax_(row_softmax()),
        end_(score_row()),
        block_rows_(block_rows(kBlockScores, plan_.keys(), plan_.rows())),
        blocks_((plan_.rows() + block_rows_ - 1) / block_rows_),
        widths_(plan_.keys(), plan_.causal) {
    const int64_t keys = plan_.keys();
    pitch_ = plan_.weights ? plan_.weights->stride : round_up(keys, 16);
    for (size_t width = 0; width < widths_.count(); ++width)
      products_.push_back(products_of(widths_.keys(width)));
    const double cost = product_microseconds(plan_.rows(), keys, plan_.query.columns) +
                        product_microseconds(plan_.rows(), plan_.value.columns, keys) +
                        kScoreMicroseconds * static_cast<double>(plan_.rows()) * static_cast<double>(keys);
    // A lane copies key and value of the heads it works on, which is a fifth of its work for 256 rows.
    const int64_t parts = std::max(plan_.heads() * std::max<int64_t>(1, plan_.rows() / kLaneRows),
                                   std::min<int64_t>(2, plan_.heads() * blocks_));
    lanes_ = lanes_for_cost(cost * static_cast<double>(plan_.heads()), parts);
  }

  int lanes() const override { return lanes_; }
  int64_t scratch_bytes() const override {
    return 4 * (key_floats() + value_floats() + score_floats() + query_floats() + result_floats() +
                addend_floats()) +
           product_scratch_;
  }

  void run(const KernelCall& call, int lane) const override {
    const Space space = space_of(call.scratch);
    const int64_t units = plan_.heads() * blocks_;
    StopMeter meter(call);
    int64_t copied = -1;
    for (int64_t unit = units * lane / lanes_; unit < units * (lane + 1) / lanes_; ++unit) {
      const int64_t head = unit / blocks_, first = unit % blocks_ * block_rows_;
      if (head != copied && !copy_head(call, head, space, meter)) return;
      copied = head;
      if (!run_block(call, head, first, std::min(block_rows_, plan_.rows() - first), space, meter)) return;
    }
  }

 private:
  static constexpr bool kHalf = std::is_same_v<T, Half>;

  // Scratch of a lane. What only f16 needs is empty in f32.
  struct Space {
    float *key, *value, *scores, *query, *result, *addend;
    std::byte* products;
  };
  // The products of blocks that see `keys` keys. The last block of a head may have fewer rows.
  struct Products {
    int64_t keys = 0;
    std::optional<Product> scores, values, last_scores, last_values;
  };

  static const T* at(const KernelCall& call, size_t operand, int64_t offset) {
    return reinterpret_cast<const T*>(call.operands[operand]) + offset;
  }

  Products products_of(int64_t keys) {
    Products made;
    made.keys = keys;
    const auto prepare = [&](int64_t rows, std::optional<Product>& scores, std::optional<Product>& values) {
      if (rows == 0) return;
      ProductShape shape;
      shape.max_lanes = 1;
      shape.m = rows;
      shape.n = keys;
      shape.k = plan_.query.columns;
      shape.lda = kHalf ? query_pitch() : plan_.query.stride;
      shape.ldc = pitch_;
      shape.b = {MatrixSource::Form::kPanels, shape.k, keys, 0};
      scores.emplace(shape);
      shape.n = plan_.value.columns;
      shape.k = keys;
      shape.lda = pitch_;
      shape.ldc = kHalf ? value_pitch() : plan_.result.stride;
      shape.b = {MatrixSource::Form::kRows, keys, shape.n, value_pitch()};
      values.emplace(shape);
      product_scratch_ = std::max({product_scratch_, scores->scratch_bytes(), values->scratch_bytes()});
    };
    prepare(block_rows_, made.scores, made.values);
    prepare(plan_.rows() % block_rows_, made.last_scores, made.last_values);
    return made;
  }

  Space space_of(std::byte* scratch) const {
    Space space{};
    auto* next = reinterpret_cast<float*>(scratch);
    const auto take = [&](int64_t floats) { return std::exchange(next, next + floats); };
    space.key = take(key_floats());
    space.value = take(value_floats());
    space.scores = take(score_floats());
    space.query = take(query_floats());
    space.result = take(result_floats());
    space.addend = take(addend_floats());
    space.products = reinterpret_cast<std::byte*>(next);
    return space;
  }

  // False here and below: it was stopped.
  bool copy_head(const KernelCall& call, int64_t head, const Space& space, StopMeter& meter) const {
    const T* key = at(call, Operand::kKey, plan_.offset_of(plan_.key.batch, head));
    const T* value = at(call, Operand::kValue, plan_.offset_of(plan_.value.batch, head));
    return copy_to_panels(plan_.key, key, space.key, meter) &&
           copy_to_rows(plan_.value, value, space.value, value_pitch(), meter);
  }

  bool run_block(const KernelCall& call, int64_t head, int64_t first, int64_t rows, const Space& space,
                 StopMeter& meter) const {
    const Products& products = products_[widths_.of_block(first + rows)];
    const bool full = rows == block_rows_;
    const T* query =
        at(call, Operand::kQuery, plan_.offset_of(plan_.query.batch, head) + first * plan_.query.stride);
    T* result = reinterpret_cast<T*>(call.results[0]) + plan_.offset_of(plan_.result.batch, head) +
                first * plan_.result.stride;
    const float* a = space.query;
    float* c = space.result;
    if constexpr (kHalf) {
      widen_rows(query, plan_.query.stride, space.query, query_pitch(), rows, plan_.query.columns);
    } else {
      a = query;
      c = result;
    }
    float* scores = space.scores;
    if (plan_.weights)
      scores = reinterpret_cast<float*>(call.results[1]) + plan_.offset_of(plan_.weights->batch, head) +
               first * pitch_;
    (full ? products.scores : products.last_scores)
        ->run(a, space.key, nullptr, scores, space.products, 0, meter);
    const int64_t written = plan_.weights ? plan_.keys() : products.keys;
    for (int64_t r = 0; r < rows; ++r) {
      softmax_of(call, head, first + r, space, scores + r * pitch_, written);
      if (meter.stops(4 * written)) return false;
    }
    (full ? products.values : products.last_values)
        ->run(scores, space.value, nullptr, c, space.products, 0, meter);
    if constexpr (kHalf)
      narrow_rows(c, value_pitch(), result, plan_.result.stride, rows, plan_.value.columns);
    return !meter.stops(10);
  }

  // Weights in the place of the scores of a row, zeros for those of `keys` that it does not see.
  void softmax_of(const KernelCall& call, int64_t head, int64_t row, const Space& space, float* scores,
                  int64_t keys) const {
    const auto longest = static_cast<int64_t>(kLongestShortRow);
    const int64_t seen = widths_.seen(row, keys);
    const auto count = static_cast<size_t>(seen);
    if (plan_.has_end()) end_(scores, count, end_of(call, head, row, seen, space));
    if (seen <= longest) {
      (plan_.zero_blocked ? softmax_.softmax_or_zero : softmax_.softmax)(scores, count, scores);
    } else {
      float shift = softmax_.largest(scores, count), sum = 0.0f;
      if (plan_.zero_blocked && shift == -std::numeric_limits<float>::infinity()) shift = 0.0f;
      for (int64_t i = 0; i < seen; i += longest)
        sum += softmax_.exponentials(scores + i, static_cast<size_t>(std::min(longest, seen - i)), shift,
                                     scores + i);
      softmax_.divide(scores, count, plan_.zero_blocked && sum == 0.0f ? 1.0f : sum);
    }
    std::fill(scores + seen, scores + keys, 0.0f);
  }

  ScoreEnd end_of(const KernelCall& call, int64_t head, int64_t row, int64_t seen, const Space& space) const {
    ScoreEnd end{.scale = plan_.scale, .keeps = plan_.keeps, .blocked = plan_.blocked};
    const auto start = [&](const ScoreSpread& spread) {
      return plan_.offset_of(spread.batch, head) + row * spread.row;
    };
    if (plan_.mask)
      end.mask = reinterpret_cast<const uint8_t*>(call.operands[Operand::kMask]) + start(*plan_.mask);
    if (!plan_.addend) return end;
    const T* addend = at(call, Operand::kAddend, start(*plan_.addend));
    if constexpr (kHalf) {
      widen_rows(addend, seen, space.addend, seen, 1, seen);
      end.addend = space.addend;
    } else {
      end.addend = addend;
    }
    return end;
  }

  int64_t query_pitch() const { return round_up(plan_.query.columns, 16); }
  int64_t value_pitch() const { return round_up(plan_.value.columns, 16); }
  int64_t key_floats() const { return panel_floats(plan_.key); }
  int64_t value_floats() const { return plan_.keys() * value_pitch(); }
  int64_t score_floats() const { return plan_.weights ? 0 : block_rows_ * pitch_; }
  int64_t query_floats() const { return kHalf ? block_rows_ * query_pitch() : 0; }
  int64_t result_floats() const { return kHalf ? block_rows_ * value_pitch() : 0; }
  int64_t addend_floats() const { return kHalf && plan_.addend ? round_up(plan_.keys(), 16) : 0; }

  Plan plan_;
  const RowSoftmax& softmax_;
  ScoreRow end_;
  int64_t block_rows_, blocks_, pitch_ = 0;
  KeyWidths widths_;
  std::vector<Products> products_;  // by width
  int64_t product_scratch_ = 0;
  int lanes_ = 1;
};

// nullopt: the kernel cannot do this. Sizes must be bounded (require_sound).
std::optional<Plan> plan_of(const KernelRequest& request, size_t results) {
  const auto& operands = request.operands;
  if (operands.size() < 3 || operands.size() > 5 || request.results.size() != results) return std::nullopt;
  const DType dtype = operands[Operand::kQuery].dtype;
  const size_t rank = operands[Operand::kQuery].shape.size();
  if (rank < 2 || (dtype != DType::kF32 && dtype != DType::kF16)) return std::nullopt;
  Plan plan;
  plan.batch.assign(operands[Operand::kQuery].shape.begin(), operands[Operand::kQuery].shape.end() - 2);
  const auto query = head_rows(operands[Operand::kQuery], plan.batch, dtype),
             key = head_matrix(operands[Operand::kKey], plan.batch, dtype, true),
             value = head_matrix(operands[Operand::kValue], plan.batch, dtype),
             result = head_rows(request.results[0], plan.batch, dtype);
  if (!query || !key || !value || !result || key->rows != query->columns || value->rows != key->columns ||
      result->rows != query->rows || result->columns != value->columns)
    return std::nullopt;
  plan.query = *query;
  plan.key = *key;
  plan.value = *value;
  plan.result = *result;
  Shape scores = plan.batch;
  scores.insert(scores.end(), {plan.rows(), plan.keys()});
  if (results == 2) {
    plan.weights = head_rows(request.results[1], plan.batch, DType::kF32);
    if (dtype != DType::kF32 || !plan.weights || request.results[1].shape != scores) return std::nullopt;
  }
  const auto has = [&](size_t i) { return operands.size() > i && !request.is_absent(i); };
  if (has(Operand::kMask) && !(plan.mask = score_spread(operands[Operand::kMask], scores, DType::kBool)))
    return std::nullopt;
  if (has(Operand::kAddend) && !(plan.addend = score_spread(operands[Operand::kAddend], scores, dtype)))
    return std::nullopt;
  plan.scale = static_cast<float>(real_of(request, "scale", 1.0));
  plan.blocked = static_cast<float>(real_of(request, "blocked", -std::numeric_limits<double>::infinity()));
  plan.causal = boolean_of(request, "causal", false);
  plan.keeps = boolean_of(request, "keeps", true);
  plan.zero_blocked = boolean_of(request, "zero_blocked", false);
  return plan;
}

template <size_t kResults>
std::unique_ptr<PreparedKernel> prepare_attention(const KernelRequest& request) {
  std::optional<Plan> plan = plan_of(request, kResults);
  if (!plan) return nullptr;
  if (request.results[0].dtype == DType::kF16) return std::make_unique<Attention<Half>>(std::move(*plan));
  return std::make_unique<Attention<float>>(std::move(*plan));
}

template <size_t kResults>
Footprint footprint_of_attention(const KernelRequest& request) {
  require_counts(request, 3, 5, kResults);
  require_sound(request);
  require(plan_of(request, kResults).has_value(), "has no attention's shapes, strides, types or attributes");
  for (const TensorSpec& result : request.results) require_disjoint(result);
  return footprint_of_views(request);
}

IPU_REGISTER_KERNEL("fused_attention", prepare_attention<1>, footprint_of_attention<1>);
IPU_REGISTER_KERNEL("fused_attention_with_weights", prepare_attention<2>, footprint_of_attention<2>);

}  // namespace
}  // namespace ipu::kernels
