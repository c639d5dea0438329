// Kernel "fused_attention": softmax of scores times a value, f32, batches of heads. The scores of a block of rows are made
// in scratch, where they stay in the second cache: query times panels of the transposed key, their end (score_row.h), the
// softmax of each row, weights times the copied value. Key and value are copied once for each head and lane. Every element is
// summed as the products and the softmax it stands for would; with `causal` columns that no row of a block sees are left out.
#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "kernels/attention/score_row.h"
#include "kernels/footprint.h"
#include "kernels/kernel_table.h"
#include "kernels/lanes.h"
#include "kernels/matmul/operand_matrix.h"
#include "kernels/softmax/row_softmax.h"
#include "kernels/tile_gemm/product.h"

namespace ipu::kernels {
namespace {

enum Operand : size_t { kQuery, kKey, kValue, kMask, kAddend };

constexpr int64_t kBlockScores = 1 << 16;  // of a block of rows: 256 KB
constexpr int64_t kFewestRows = 16, kMostRows = 64;
constexpr int64_t kCausalSteps = 8;          // widths that blocks of causal rows may have
constexpr double kScoreMicroseconds = 1e-3;  // of the softmax of one score

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// How an operand that broadcasts to the scores is walked.
struct Spread {
  Strides batch;
  int64_t row = 0;
};

struct Plan {
  Shape batch;
  Strides query_batch, key_batch, value_batch, result_batch;
  MatrixSource query, key, value, result;  // the key transposed: [E, S]
  std::optional<Spread> mask, addend;
  float scale = 1.0f, blocked = 0.0f;
  bool causal = false, keeps = true, zero_blocked = false;

  int64_t heads() const { return element_count(batch); }
  int64_t rows() const { return query.rows; }
  int64_t keys() const { return key.columns; }
};

int64_t offset_of(const Plan& plan, const Strides& strides, int64_t head) {
  int64_t offset = 0;
  for (size_t d = plan.batch.size(); d-- > 0;) {
    offset += head % plan.batch[d] * strides[d];
    head /= plan.batch[d];
  }
  return offset;
}

class Attention final : public PreparedKernel {
 public:
  explicit Attention(Plan plan) : plan_(std::move(plan)), softmax_(row_softmax()), end_(score_row()) {
    const int64_t keys = plan_.keys();
    has_end_ = plan_.scale != 1.0f || plan_.mask || plan_.addend;
    block_rows_ = std::clamp(kBlockScores / std::max<int64_t>(1, keys), kFewestRows, kMostRows);
    block_rows_ = std::max<int64_t>(1, std::min(block_rows_, plan_.rows()));
    blocks_ = (plan_.rows() + block_rows_ - 1) / block_rows_;
    pitch_ = round_up(keys, 16);
    step_ =
        plan_.causal ? std::max<int64_t>(64, round_up((keys + kCausalSteps - 1) / kCausalSteps, 64)) : keys;
    for (int64_t last = step_;; last += step_) {
      widths_.push_back(products_of(std::min(last, keys)));
      if (last >= keys) break;
    }
    const double cost = product_microseconds(plan_.rows(), keys, plan_.query.columns) +
                        product_microseconds(plan_.rows(), plan_.value.columns, keys) +
                        kScoreMicroseconds * static_cast<double>(plan_.rows()) * static_cast<double>(keys);
    // A lane copies key and value of the heads it works on: two blocks of each at least.
    const int64_t parts = plan_.heads() * std::max<int64_t>(1, blocks_ / 2);
    lanes_ = lanes_for_cost(cost * static_cast<double>(plan_.heads()), parts);
  }

  int lanes() const override { return lanes_; }
  int64_t scratch_bytes() const override {
    return 4 * (key_floats() + value_floats() + score_floats()) + product_scratch_;
  }

  void run(const KernelCall& call, int lane) const override {
    auto* const key = reinterpret_cast<float*>(call.scratch);
    float* const value = key + key_floats();
    float* const scores = value + value_floats();
    std::byte* const scratch = reinterpret_cast<std::byte*>(scores + score_floats());
    const int64_t units = plan_.heads() * blocks_;
    StopMeter meter(call);
    int64_t copied = -1;
    for (int64_t unit = units * lane / lanes_; unit < units * (lane + 1) / lanes_; ++unit) {
      const int64_t head = unit / blocks_, first = unit % blocks_ * block_rows_;
      if (head != copied && !copy_head(call, head, key, value, meter)) return;
      copied = head;
      const int64_t rows = std::min(block_rows_, plan_.rows() - first);
      const Products& products = products_for(first + rows);
      const bool full = rows == block_rows_;
      const auto* query = reinterpret_cast<const float*>(call.operands[kQuery]) +
                          offset_of(plan_, plan_.query_batch, head) + first * plan_.query.stride;
      (full ? products.scores : products.last_scores)->run(query, key, nullptr, scores, scratch, 0, meter);
      for (int64_t r = 0; r < rows; ++r) {
        softmax_of(call, head, first + r, scores + r * pitch_, products.keys);
        if (meter.stops(4 * products.keys)) return;
      }
      float* result = reinterpret_cast<float*>(call.results[0]) + offset_of(plan_, plan_.result_batch, head) +
                      first * plan_.result.stride;
      (full ? products.values : products.last_values)->run(scores, value, nullptr, result, scratch, 0, meter);
      if (meter.stops(10)) return;
    }
  }

 private:
  // Of blocks that see so many keys; the last block of a head may have fewer rows.
  struct Products {
    int64_t keys = 0;
    std::optional<Product> scores, values, last_scores, last_values;
  };

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
      shape.lda = plan_.query.stride;
      shape.ldc = pitch_;
      shape.b = {MatrixSource::Form::kPanels, shape.k, keys, 0};
      scores.emplace(shape);
      shape.n = plan_.value.columns;
      shape.k = keys;
      shape.lda = pitch_;
      shape.ldc = plan_.result.stride;
      shape.b = {MatrixSource::Form::kRows, keys, shape.n, value_pitch()};
      values.emplace(shape);
      product_scratch_ = std::max({product_scratch_, scores->scratch_bytes(), values->scratch_bytes()});
    };
    prepare(block_rows_, made.scores, made.values);
    prepare(plan_.rows() % block_rows_, made.last_scores, made.last_values);
    return made;
  }

  // For a block whose rows end before row `end`.
  const Products& products_for(int64_t end) const {
    const int64_t seen = plan_.causal ? std::min(end, plan_.keys()) : plan_.keys();
    return widths_[static_cast<size_t>(seen == 0 ? 0 : (seen - 1) / step_)];
  }

  bool copy_head(const KernelCall& call, int64_t head, float* key, float* value, StopMeter& meter) const {
    constexpr int64_t kRows = 64;
    const auto* k =
        reinterpret_cast<const float*>(call.operands[kKey]) + offset_of(plan_, plan_.key_batch, head);
    const auto* v =
        reinterpret_cast<const float*>(call.operands[kValue]) + offset_of(plan_, plan_.value_batch, head);
    const int64_t panels = panel_count(plan_.keys());
    for (int64_t panel = 0; panel < panels; ++panel) {
      if (meter.stops(plan_.key.rows * panel_width(plan_.keys()))) return false;
      pack_panels(plan_.key, k, key, panel, panel + 1);
    }
    for (int64_t row = 0; row < plan_.keys(); row += kRows) {
      const int64_t rows = std::min(kRows, plan_.keys() - row);
      if (meter.stops(rows * value_pitch())) return false;
      pack_block(plan_.value, v, row, rows, 0, plan_.value.columns, value + row * value_pitch(),
                 value_pitch());
    }
    return true;
  }

  // Weights in the place of the scores of a row, zeros for those of `keys` that it does not see.
  void softmax_of(const KernelCall& call, int64_t head, int64_t row, float* scores, int64_t keys) const {
    const auto longest = static_cast<int64_t>(kLongestShortRow);
    const int64_t seen = plan_.causal ? std::min(keys, row + 1) : keys;
    const auto count = static_cast<size_t>(seen);
    if (has_end_) end_(scores, count, end_of(call, head, row));
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

  ScoreEnd end_of(const KernelCall& call, int64_t head, int64_t row) const {
    ScoreEnd end{.scale = plan_.scale, .keeps = plan_.keeps, .blocked = plan_.blocked};
    const auto at = [&](const Spread& spread) {
      return offset_of(plan_, spread.batch, head) + row * spread.row;
    };
    if (plan_.mask) end.mask = reinterpret_cast<const uint8_t*>(call.operands[kMask]) + at(*plan_.mask);
    if (plan_.addend) end.addend = reinterpret_cast<const float*>(call.operands[kAddend]) + at(*plan_.addend);
    return end;
  }

  int64_t value_pitch() const { return round_up(plan_.value.columns, 16); }
  int64_t key_floats() const {
    return panel_count(plan_.keys()) * panel_width(plan_.keys()) * round_up(plan_.key.rows, 16);
  }
  int64_t value_floats() const { return plan_.keys() * value_pitch(); }
  int64_t score_floats() const { return block_rows_ * pitch_; }

  Plan plan_;
  const RowSoftmax& softmax_;
  ScoreRow end_;
  bool has_end_ = false;  // something is done to scores before the softmax
  int64_t block_rows_ = 1, blocks_ = 0, pitch_ = 0;
  int64_t step_ = 1;  // keys of the first width; each is as many more
  std::vector<Products> widths_;
  int64_t product_scratch_ = 0;
  int lanes_ = 1;
};

// nullopt: rows of it are not dense, or it does not broadcast to the scores.
std::optional<Spread> spread_of(const TensorSpec& spec, const Shape& scores) {
  if (!spec.layout.is_plain() || spec.shape.empty() || spec.shape.size() > scores.size() ||
      spec.shape.back() != scores.back() || (spec.strides.back() != 1 && scores.back() > 1))
    return std::nullopt;
  const size_t lead = scores.size() - spec.shape.size();
  Strides all(scores.size(), 0);
  for (size_t d = 0; d < spec.shape.size(); ++d) {
    if (spec.shape[d] != scores[lead + d] && spec.shape[d] != 1) return std::nullopt;
    if (spec.shape[d] != 1) all[lead + d] = spec.strides[d];
  }
  return Spread{Strides(all.begin(), all.end() - 2), all[all.size() - 2]};
}

// nullopt: the kernel cannot do this. Sizes must be bounded (require_sound).
std::optional<Plan> plan_of(const KernelRequest& request) {
  if (request.operands.size() < 3 || request.operands.size() > 5 || request.results.size() != 1)
    return std::nullopt;
  const TensorSpec &q = request.operands[kQuery], &k = request.operands[kKey], &v = request.operands[kValue],
                   &y = request.results[0];
  const size_t rank = q.shape.size();
  if (rank < 2) return std::nullopt;
  Plan plan;
  plan.batch.assign(q.shape.begin(), q.shape.end() - 2);
  for (const auto& [spec, strides] : {std::pair{&q, &plan.query_batch},
                                      {&k, &plan.key_batch},
                                      {&v, &plan.value_batch},
                                      {&y, &plan.result_batch}}) {
    if (spec->dtype != DType::kF32 || !spec->layout.is_plain() || spec->shape.size() != rank ||
        !std::equal(plan.batch.begin(), plan.batch.end(), spec->shape.begin()))
      return std::nullopt;
    strides->assign(spec->strides.begin(), spec->strides.end() - 2);
  }
  const auto query = matrix_of(q, false), key = matrix_of(k, true), value = matrix_of(v, false),
             out = matrix_of(y, false);
  if (!query || !key || !value || !out || query->form != MatrixSource::Form::kRows ||
      out->form != MatrixSource::Form::kRows)
    return std::nullopt;
  if (key->rows != query->columns || value->rows != key->columns || out->rows != query->rows ||
      out->columns != value->columns)
    return std::nullopt;
  plan.query = *query;
  plan.key = *key;
  plan.value = *value;
  plan.result = *out;
  Shape scores = plan.batch;
  scores.insert(scores.end(), {plan.rows(), plan.keys()});
  const auto has = [&](size_t i) { return request.operands.size() > i && !request.is_absent(i); };
  if (has(kMask)) {
    plan.mask = spread_of(request.operands[kMask], scores);
    if (request.operands[kMask].dtype != DType::kBool || !plan.mask) return std::nullopt;
  }
  if (has(kAddend)) {
    plan.addend = spread_of(request.operands[kAddend], scores);
    if (request.operands[kAddend].dtype != DType::kF32 || !plan.addend) return std::nullopt;
  }
  plan.scale = static_cast<float>(real_of(request, "scale", 1.0));
  plan.blocked = static_cast<float>(real_of(request, "blocked", -std::numeric_limits<double>::infinity()));
  plan.causal = boolean_of(request, "causal", false);
  plan.keeps = boolean_of(request, "keeps", true);
  plan.zero_blocked = boolean_of(request, "zero_blocked", false);
  return plan;
}

std::unique_ptr<PreparedKernel> prepare_attention(const KernelRequest& request) {
  std::optional<Plan> plan = plan_of(request);
  return plan ? std::make_unique<Attention>(std::move(*plan)) : nullptr;
}

Footprint footprint_of_attention(const KernelRequest& request) {
  require_counts(request, 3, 5, 1);
  require_sound(request);
  require(plan_of(request).has_value(), "has no attention's shapes, strides, types or attributes");
  require_disjoint(request.results[0]);
  return footprint_of_views(request);
}

IPU_REGISTER_KERNEL("fused_attention", prepare_attention, footprint_of_attention);

}  // namespace
}  // namespace ipu::kernels
