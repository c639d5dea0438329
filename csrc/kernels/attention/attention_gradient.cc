// Kernel "fused_attention_gradient": the gradients of query, key and value from the weights of an attention and the
// gradient of its result, f32, batches of heads. For a block of rows the gradient of the weights (d_y times the
// transposed value) and from it that of the scores are made in scratch; then the block's part of all three results.
// Rows are summed for key and value as the products would that this stands for: block after block in pieces of at
// most 512, whose sums are added. With `causal` columns that no row of a block sees are left out. Lanes cut the
// heads.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/attention/head_matrix.h"
#include "kernels/attention/score_row.h"
#include "kernels/footprint.h"
#include "kernels/kernel_table.h"
#include "kernels/lanes.h"
#include "kernels/softmax/row_softmax.h"
#include "kernels/tile_gemm/product.h"

namespace ipu::kernels {
namespace {

constexpr int64_t kBlockScores = 1 << 15;  // of a block of rows, twice: 256 KB
// Pieces of a sum over rows: those of product.cc, for equal bits.
constexpr int64_t kLongestPiece = 512, kPieceGrain = 16;
constexpr int64_t kTile = 64;
constexpr double kScoreMicroseconds = 1e-3;  // of the softmax's gradient of one score

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// C[columns, width] += A^T · B of a block of rows, A [rows, columns] and B [rows, width], by tiles of 64 by 64.
class GradientTiles {
 public:
  GradientTiles() = default;
  GradientTiles(int64_t rows, int64_t columns, int64_t width, int64_t lda, int64_t ldb, int64_t ldc)
      : columns_(columns), width_(width), ldc_(ldc) {
    if (rows == 0) return;
    for (int last_row : {0, 1})
      for (int last_column : {0, 1}) {
        TileShape t;
        t.rows = last_row ? columns % kTile : kTile;
        t.columns = last_column ? width % kTile : kTile;
        t.depth = rows;
        t.lda = lda;
        t.ldb = ldb;
        t.ldc = ldc;
        t.transposed_a = true;
        t.accumulate = true;
        if (t.rows > 0 && t.columns > 0) tiles_[last_row][last_column] = TileGemm(t);
      }
  }
  // Computes the first `columns` columns of A: a multiple of whole tiles, or all.
  void run(const float* a, const float* b, float* c, int64_t columns) const {
    for (int64_t i = 0; i < columns; i += kTile)
      for (int64_t j = 0; j < width_; j += kTile)
        tiles_[columns_ - i < kTile][width_ - j < kTile](a + i, b + j, c + i * ldc_ + j);
  }

 private:
  int64_t columns_ = 0, width_ = 0, ldc_ = 0;
  TileGemm tiles_[2][2];
};

struct Operand {
  static constexpr size_t kQuery = 0, kKey = 1, kValue = 2, kWeights = 3, kDy = 4, kMask = 5;
};

// What a request asks, checked.
struct Plan {
  Shape batch;
  HeadMatrix query, key, value, weights, d_y;  // the value transposed: [V, S]
  HeadMatrix d_query, d_key, d_value;
  std::optional<ScoreSpread> mask;
  float scale = 1.0f;
  bool causal = false, keeps = true;

  int64_t heads() const { return element_count(batch); }
  int64_t rows() const { return query.rows; }
  int64_t keys() const { return key.rows; }
  int64_t width() const { return query.columns; }
  int64_t value_width() const { return d_y.columns; }
  bool has_end() const { return scale != 1.0f || mask; }
};

class AttentionGradient final : public PreparedKernel {
 public:
  explicit AttentionGradient(Plan plan)
      : plan_(std::move(plan)),
        softmax_(row_softmax()),
        end_(score_row()),
        block_rows_(block_rows(kBlockScores, plan_.keys(), plan_.rows())),
        widths_(plan_.keys(), plan_.causal) {
    const int64_t rows = plan_.rows(), keys = plan_.keys();
    const int64_t pieces = std::max<int64_t>(1, (rows + kLongestPiece - 1) / kLongestPiece);
    piece_ = pieces == 1 ? std::max<int64_t>(1, rows) : round_up((rows + pieces - 1) / pieces, kPieceGrain);
    pitch_ = round_up(keys, 16) + 16;  // rows share no set of the first cache
    // Blocks have block_rows_ rows, but the last of a piece and that of the last piece.
    const int64_t last_piece = rows - (rows - 1) / piece_ * piece_;
    for (int64_t r : {block_rows_, piece_ % block_rows_, last_piece % block_rows_})
      if (r > 0 && r <= rows) prepare_rows(r);
    const double cost = 2 * (product_microseconds(rows, keys, plan_.width()) +
                             product_microseconds(rows, plan_.value_width(), keys)) +
                        kScoreMicroseconds * static_cast<double>(rows) * static_cast<double>(keys);
    lanes_ = lanes_for_cost(cost * static_cast<double>(plan_.heads()), plan_.heads());
  }

  int lanes() const override { return lanes_; }
  int64_t scratch_bytes() const override {
    return 4 * (value_floats() + key_floats() + 2 * score_floats() + sum_floats(key_pitch()) +
                sum_floats(value_pitch())) +
           product_scratch_;
  }

  void run(const KernelCall& call, int lane) const override {
    const Space space = space_of(call.scratch);
    StopMeter meter(call);
    for (int64_t head = plan_.heads() * lane / lanes_; head < plan_.heads() * (lane + 1) / lanes_; ++head)
      if (!run_head(call, head, space, meter)) return;
  }

 private:
  struct Space {  // scratch of a lane
    float *value, *key, *d_scores, *weights, *d_key, *d_value;
    std::byte* products;
  };
  // The products of blocks of `rows` rows, by the number of keys they see, and the sums over rows.
  struct Rows {
    int64_t rows = 0;
    std::vector<Product> d_weights, d_query;
    GradientTiles d_key, d_value;
  };

  void prepare_rows(int64_t rows) {
    for (const Rows& made : by_rows_)
      if (made.rows == rows) return;
    Rows& made = by_rows_.emplace_back();
    made.rows = rows;
    const int64_t keys = plan_.keys();
    for (size_t width = 0; width < widths_.count(); ++width) {
      ProductShape shape;
      shape.max_lanes = 1;
      shape.m = rows;
      shape.n = widths_.keys(width);
      shape.k = plan_.value_width();
      shape.lda = plan_.d_y.stride;
      shape.ldc = pitch_;
      shape.b = {MatrixSource::Form::kPanels, shape.k, shape.n, 0};
      made.d_weights.emplace_back(shape);
      shape.k = shape.n;
      shape.n = plan_.width();
      shape.lda = pitch_;
      shape.ldc = plan_.d_query.stride;
      shape.b = {MatrixSource::Form::kRows, shape.k, shape.n, key_pitch()};
      made.d_query.emplace_back(shape);
      product_scratch_ = std::max(
          {product_scratch_, made.d_weights.back().scratch_bytes(), made.d_query.back().scratch_bytes()});
    }
    made.d_key = GradientTiles(rows, keys, plan_.width(), pitch_, plan_.query.stride, key_pitch());
    made.d_value = GradientTiles(rows, keys, plan_.value_width(), pitch_, plan_.d_y.stride, value_pitch());
  }
  const Rows& of_rows(int64_t rows) const {
    return *std::find_if(by_rows_.begin(), by_rows_.end(),
                         [&](const Rows& made) { return made.rows == rows; });
  }

  Space space_of(std::byte* scratch) const {
    Space space{};
    auto* next = reinterpret_cast<float*>(scratch);
    const auto take = [&](int64_t floats) { return std::exchange(next, next + floats); };
    space.value = take(value_floats());
    space.key = take(key_floats());
    space.d_scores = take(score_floats());
    space.weights = take(score_floats());
    space.d_key = take(sum_floats(key_pitch()));
    space.d_value = take(sum_floats(value_pitch()));
    space.products = reinterpret_cast<std::byte*>(next);
    return space;
  }

  // False here and below: it was stopped.
  bool run_head(const KernelCall& call, int64_t head, const Space& space, StopMeter& meter) const;
  bool copy_head(const KernelCall& call, int64_t head, const Space& space, StopMeter& meter) const;
  bool run_block(const KernelCall& call, int64_t head, int64_t first, int64_t rows, const Space& space,
                 StopMeter& meter) const;
  void scores_of_row(const KernelCall& call, int64_t head, int64_t row, float* d_scores, float* weights,
                     int64_t keys) const;
  static void add_sums(const float* sums, int64_t pitch, float* to, const MatrixSource& result, bool first);

  const float* operand(const KernelCall& call, size_t i, const HeadMatrix& matrix, int64_t head) const {
    return reinterpret_cast<const float*>(call.operands[i]) + head_offset(plan_.batch, matrix.batch, head);
  }
  float* result(const KernelCall& call, size_t i, const HeadMatrix& matrix, int64_t head) const {
    return reinterpret_cast<float*>(call.results[i]) + head_offset(plan_.batch, matrix.batch, head);
  }

  int64_t key_pitch() const { return round_up(plan_.width(), 16); }
  int64_t value_pitch() const { return round_up(plan_.value_width(), 16); }
  int64_t value_floats() const { return panel_floats(plan_.value); }
  int64_t key_floats() const { return plan_.keys() * key_pitch(); }
  int64_t score_floats() const { return block_rows_ * pitch_; }
  int64_t sum_floats(int64_t pitch) const { return plan_.keys() * pitch; }

  Plan plan_;
  const RowSoftmax& softmax_;
  ScoreRow end_;
  int64_t piece_ = 1, block_rows_, pitch_ = 0;
  KeyWidths widths_;
  std::vector<Rows> by_rows_;
  int64_t product_scratch_ = 0;
  int lanes_ = 1;
};

bool AttentionGradient::copy_head(const KernelCall& call, int64_t head, const Space& space,
                                  StopMeter& meter) const {
  const float* value = operand(call, Operand::kValue, plan_.value, head);
  const float* key = operand(call, Operand::kKey, plan_.key, head);
  return copy_to_panels(plan_.value, value, space.value, meter) &&
         copy_to_rows(plan_.key, key, space.key, key_pitch(), meter);
}

bool AttentionGradient::run_head(const KernelCall& call, int64_t head, const Space& space,
                                 StopMeter& meter) const {
  if (!copy_head(call, head, space, meter)) return false;
  float* d_key = result(call, 1, plan_.d_key, head);
  float* d_value = result(call, 2, plan_.d_value, head);
  int64_t piece = 0;
  do {  // no rows at all give zeros
    const int64_t end = std::min(plan_.rows(), piece + piece_);
    if (meter.stops(sum_floats(key_pitch() + value_pitch()))) return false;
    std::fill_n(space.d_key, sum_floats(key_pitch()), 0.0f);
    std::fill_n(space.d_value, sum_floats(value_pitch()), 0.0f);
    for (int64_t row = piece; row < end; row += block_rows_)
      if (!run_block(call, head, row, std::min(block_rows_, end - row), space, meter)) return false;
    if (meter.stops(sum_floats(key_pitch() + value_pitch()))) return false;
    add_sums(space.d_key, key_pitch(), d_key, plan_.d_key, piece == 0);
    add_sums(space.d_value, value_pitch(), d_value, plan_.d_value, piece == 0);
    piece = end;
  } while (piece < plan_.rows());
  return true;
}

bool AttentionGradient::run_block(const KernelCall& call, int64_t head, int64_t first, int64_t rows,
                                  const Space& space, StopMeter& meter) const {
  const Rows& of = of_rows(rows);
  const size_t width = widths_.of_block(first + rows);
  const int64_t keys = widths_.keys(width);
  const float* d_y = operand(call, Operand::kDy, plan_.d_y, head) + first * plan_.d_y.stride;
  const float* weights = operand(call, Operand::kWeights, plan_.weights, head) + first * plan_.weights.stride;
  of.d_weights[width].run(d_y, space.value, nullptr, space.d_scores, space.products, 0, meter);
  for (int64_t r = 0; r < rows; ++r) {
    float* copy = space.weights + r * pitch_;
    std::copy_n(weights + r * plan_.weights.stride, keys, copy);
    scores_of_row(call, head, first + r, space.d_scores + r * pitch_, copy, keys);
    if (meter.stops(4 * keys)) return false;
  }
  float* d_query = result(call, 0, plan_.d_query, head) + first * plan_.d_query.stride;
  of.d_query[width].run(space.d_scores, space.key, nullptr, d_query, space.products, 0, meter);
  if (meter.stops_products(rows * keys * (plan_.width() + plan_.value_width()))) return false;
  const float* query = operand(call, Operand::kQuery, plan_.query, head) + first * plan_.query.stride;
  of.d_key.run(space.d_scores, query, space.d_key, keys);
  of.d_value.run(space.weights, d_y, space.d_value, keys);
  return !meter.stops(10);
}

// The gradient of a row of scores in the place of that of its weights; zeros for those of `keys` that it does not see.
void AttentionGradient::scores_of_row(const KernelCall& call, int64_t head, int64_t row, float* d_scores,
                                      float* weights, int64_t keys) const {
  const auto longest = static_cast<int64_t>(kLongestShortRow);
  const int64_t seen = widths_.seen(row, keys);
  float sum = 0.0f;
  for (int64_t i = 0; i < seen; i += longest)
    sum += softmax_.products(weights + i, d_scores + i, static_cast<size_t>(std::min(longest, seen - i)));
  const auto count = static_cast<size_t>(seen);
  softmax_.gradient(weights, d_scores, count, sum, d_scores);
  if (plan_.has_end()) {
    ScoreEnd end{.scale = plan_.scale, .keeps = plan_.keeps};  // blocked scores have the gradient 0
    if (plan_.mask)
      end.mask = reinterpret_cast<const uint8_t*>(call.operands[Operand::kMask]) +
                 head_offset(plan_.batch, plan_.mask->batch, head) + row * plan_.mask->row;
    end_(d_scores, count, end);
  }
  std::fill(d_scores + seen, d_scores + keys, 0.0f);
  std::fill(weights + seen, weights + keys, 0.0f);
}

void AttentionGradient::add_sums(const float* sums, int64_t pitch, float* to, const MatrixSource& result,
                                 bool first) {
  for (int64_t row = 0; row < result.rows; ++row) {
    const float* from = sums + row * pitch;
    float* out = to + row * result.stride;
    if (first)
      std::copy_n(from, result.columns, out);
    else
      std::transform(out, out + result.columns, from, out, [](float a, float b) { return a + b; });
  }
}

// nullopt: the kernel cannot do this. Sizes must be bounded (require_sound).
std::optional<Plan> plan_of(const KernelRequest& request) {
  const auto& operands = request.operands;
  if (operands.size() < 5 || operands.size() > 6 || request.results.size() != 3) return std::nullopt;
  const Shape& shape = operands[Operand::kWeights].shape;
  if (shape.size() < 2) return std::nullopt;
  Plan plan;
  plan.batch.assign(shape.begin(), shape.end() - 2);
  const auto rows = [&](const TensorSpec& spec, HeadMatrix& to) {
    const auto found = head_rows(spec, plan.batch, DType::kF32);
    if (found) to = *found;
    return found.has_value();
  };
  const auto any = [&](const TensorSpec& spec, bool transposed, HeadMatrix& to) {
    const auto found = head_matrix(spec, plan.batch, DType::kF32, transposed);
    if (found) to = *found;
    return found.has_value();
  };
  if (!rows(operands[Operand::kQuery], plan.query) || !any(operands[Operand::kKey], false, plan.key) ||
      !any(operands[Operand::kValue], true, plan.value) || !rows(operands[Operand::kWeights], plan.weights) ||
      !rows(operands[Operand::kDy], plan.d_y) || !rows(request.results[0], plan.d_query) ||
      !rows(request.results[1], plan.d_key) || !rows(request.results[2], plan.d_value))
    return std::nullopt;
  const auto is = [](const MatrixSource& matrix, int64_t r, int64_t c) {
    return matrix.rows == r && matrix.columns == c;
  };
  const int64_t keys = plan.keys(), width = plan.width(), out = plan.value_width();
  if (!is(plan.key, keys, width) || !is(plan.value, out, keys) || !is(plan.weights, plan.rows(), keys) ||
      plan.d_y.rows != plan.rows() || !is(plan.d_query, plan.rows(), width) || !is(plan.d_key, keys, width) ||
      !is(plan.d_value, keys, out))
    return std::nullopt;
  if (operands.size() > Operand::kMask && !request.is_absent(Operand::kMask) &&
      !(plan.mask = score_spread(operands[Operand::kMask], shape, DType::kBool)))
    return std::nullopt;
  plan.scale = static_cast<float>(real_of(request, "scale", 1.0));
  plan.causal = boolean_of(request, "causal", false);
  plan.keeps = boolean_of(request, "keeps", true);
  return plan;
}

std::unique_ptr<PreparedKernel> prepare_gradient(const KernelRequest& request) {
  std::optional<Plan> plan = plan_of(request);
  return plan ? std::make_unique<AttentionGradient>(std::move(*plan)) : nullptr;
}

Footprint footprint_of_gradient(const KernelRequest& request) {
  require_counts(request, 5, 6, 3);
  require_sound(request);
  require(plan_of(request).has_value(),
          "has no shapes, strides, types or attributes of an attention's gradient");
  for (const TensorSpec& result : request.results) require_disjoint(result);
  return footprint_of_views(request);
}

IPU_REGISTER_KERNEL("fused_attention_gradient", prepare_gradient, footprint_of_gradient);

}  // namespace
}  // namespace ipu::kernels
