// Kernel "conv_weight_gradient": dw[O,C/groups,*kernel] of x and dy, f32 or f16, activations plain or nhwc in
// any mix; without groups dw also as the panels of [taps*C, O] that "conv" reads. Per group it is dyᵀ[O,P] · G[P,taps*C], P all output pixels of the batch and G the input pixels
// each tap meets. Blocks of columns of G (a tap and up to 64 channels, or several taps of few channels) are
// gathered for a chunk of pixels and multiplied while they are hot. Of very few channels G is gathered column by column,
// in long runs of pixels. Of these, and of panels, what is computed is Gᵀ · dy: the same chains of multiply-adds; f32
// panels hold the sums from the start. Sums run over chunks of at most 512
// pixels whose results are added in order: the chunks depend on shapes only. Lanes cut the columns of G,
// never the sum. Depthwise convolutions have their own (depthwise_gradient.h).
#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/convolution/depthwise_gradient.h"
#include "kernels/convolution/geometry.h"
#include "kernels/convolution/image_rows.h"
#include "kernels/footprint.h"
#include "kernels/kernel_table.h"
#include "kernels/tile_gemm/half_rows.h"
#include "kernels/tile_gemm/panels.h"
#include "kernels/tile_gemm/tile_gemm.h"
#include "kernels/tile_gemm/vector_tiles.h"

namespace ipu::kernels {
namespace {

constexpr int64_t kLongestChunk = 512;  // pixels: changes bits
constexpr int64_t kTile = 64;           // rows and columns of a tile of dw
constexpr int64_t kFewChannels = 32;    // below, one block holds several taps
constexpr int64_t kVeryFew = 3;         // channels; up to here pixels are gathered in runs
constexpr int64_t kFewBlocks = 16;      // below, blocks are cut finer, for the lanes
constexpr int64_t kLaneBlocks = 4;      // of a lane, which reads all of x and dy for them
constexpr int64_t kFewestLanes = 4;

class ConvWeightGradient : public PreparedKernel {
 public:
  ConvWeightGradient(const ConvGeometry& g, bool x_last, bool dy_last, bool is_half, bool is_packed)
      : g_(g),
        is_packed_(is_packed),
        output_step_(is_packed ? panel_width(g.out_channels) : kTile),
        x_{g.in_channels, g.in_height, g.in_width, x_last, is_half},
        dy_{g.out_channels, g.out_height, g.out_width, dy_last, is_half} {
    const int64_t pixels = g.out_height * g.out_width;
    // A chunk is several whole images, or rows of one image.
    images_per_chunk_ =
        std::clamp<int64_t>(pixels == 0 ? 1 : kLongestChunk / pixels, 1, std::max<int64_t>(1, g.batch));
    if (pixels > kLongestChunk)
      rows_per_chunk_ = std::max<int64_t>(1, kLongestChunk / g.out_width);
    else
      rows_per_chunk_ = std::max<int64_t>(1, g.out_height);
    chunk_pixels_ = images_per_chunk_ * rows_per_chunk_ * g.out_width;

    is_by_column_ = g.in_group() <= kVeryFew && g.out_group() >= 4;
    const bool merges = g.in_group() < kFewChannels;
    const int64_t width = !merges && x_.is_direct() && dy_.is_direct() &&
                                  g.groups * g.taps() * divide_up(g.in_group(), kTile) < kFewBlocks
                              ? kTile / 2
                              : kTile;
    int64_t tap_blocks = merges ? divide_up(g.taps(), kTile / std::max<int64_t>(1, g.in_group())) : g.taps();
    // Every lane brings all of x and dy to channels-last rows, where they have other ones: few lanes then.
    if (is_by_column_ && g.groups == 1) tap_blocks = std::max<int64_t>(tap_blocks, dy_.is_direct() ? 4 : 2);
    tap_blocks = std::min(tap_blocks, g.taps());
    for (int64_t group = 0; group < g.groups; ++group)
      for (int64_t i = 0; i < tap_blocks; ++i)
        for (int64_t c = 0; c < g.in_group(); c += width) {
          const int64_t tap = g.taps() * i / tap_blocks, next = g.taps() * (i + 1) / tap_blocks;
          Block block{group, tap, next - tap, c, std::min(width, g.in_group() - c), 0};
          block.columns = block.taps * block.channels;
          blocks_.push_back(block);
        }
    const double microseconds = g.flops() / 80e3;
    const auto blocks = static_cast<int64_t>(blocks_.size());
    lanes_ = lanes_for_cost(microseconds, std::min(blocks, std::max(kFewestLanes, blocks / kLaneBlocks)));
    for (int lane = 0; lane < lanes_; ++lane) {
      int64_t floats = 0;
      for (size_t b = block_of(lane); b < block_of(lane + 1); ++b) floats += sum_of(blocks_[b]);
      sum_floats_ = std::max(sum_floats_, floats);
    }
    for (const Block& block : blocks_) make_tiles(block.columns);

    gather_floats_ = kTile * round_up(chunk_pixels_, 16);
    dy_floats_ = dy_.is_direct() ? 0 : round_up(chunk_pixels_ * g.out_channels, 16);
    // Plain x is brought to channels-last rows first, as many as a chunk reads.
    const int64_t in_rows =
        std::min(g.in_height, (rows_per_chunk_ - 1) * g.stride_y + (g.kernel_height - 1) * g.dilation_y + 1);
    x_floats_ = x_.is_direct() ? 0 : round_up(images_per_chunk_ * in_rows * g.in_width * g.in_channels, 16);
    partial_floats_ =
        kTile * (is_by_column_ && !is_packed ? std::max(kTile, round_up(g.out_group(), 16)) : kTile);
    if (is_packed && !is_half) sum_floats_ = 0;
    scratch_floats_ = gather_floats_ + dy_floats_ + x_floats_ + round_up(sum_floats_, 16) + partial_floats_;
  }

  int lanes() const override { return lanes_; }
  int64_t scratch_bytes() const override { return scratch_floats_ * static_cast<int64_t>(sizeof(float)); }

  void run(const KernelCall& call, int lane) const override {
    const auto* x = reinterpret_cast<const float*>(call.operands[0]);
    float* const gathered = reinterpret_cast<float*>(call.scratch);
    float* const dy_rows = gathered + gather_floats_;
    float* const x_rows = dy_rows + dy_floats_;
    float* const partial = x_rows + x_floats_;
    float* const sums = partial + partial_floats_;
    const size_t first = block_of(lane), last = block_of(lane + 1);
    if (first == last) return;
    const bool empty = g_.batch == 0 || chunk_pixels_ == 0;
    auto* const panels = is_packed_ && !x_.is_half ? reinterpret_cast<float*>(call.results[0]) : nullptr;
    if (panels != nullptr) clear_panels(first, last, empty, panels);
    if (empty) std::memset(sums, 0, static_cast<size_t>(sum_floats_) * sizeof(float));
    bool is_first = true;
    StopMeter meter(call);
    for (int64_t image = 0; !empty && image < g_.batch; image += images_per_chunk_)
      for (int64_t row = 0; row < g_.out_height; row += rows_per_chunk_) {
        Chunk chunk{image, std::min(images_per_chunk_, g_.batch - image), row,
                    std::min(rows_per_chunk_, g_.out_height - row)};
        const float* dy_chunk = load_dy(call.operands[1], chunk, dy_rows);
        int64_t in_first = 0;
        const float* x_chunk = x_.is_direct() ? x : load_x(x, chunk, x_rows, in_first);
        float* sum = sums;
        for (size_t b = first; b < last; ++b) {
          const Block& block = blocks_[b];
          if (is_by_column_)
            gather_columns(x_chunk, chunk, in_first, block, gathered);
          else
            gather(x_chunk, chunk, in_first, block, gathered);
          if (panels != nullptr) {
            multiply(dy_chunk, chunk.pixels(g_.out_width), block, gathered,
                     panels + panel_row(block) * output_step_, g_.taps() * g_.in_channels * output_step_,
                     partial, is_first);
          } else {
            multiply(dy_chunk, chunk.pixels(g_.out_width), block, gathered, sum, sum_stride(block), partial,
                     is_first);
            sum += sum_of(block);
          }
          const int64_t pixels = chunk.pixels(g_.out_width);
          if (meter.stops(pixels * block.columns / 4 * (1 + g_.out_group() / 8))) return;
        }
        is_first = false;
      }
    if (panels != nullptr) return;
    if (is_packed_)
      store_half_panels(sums, first, last, reinterpret_cast<Half*>(call.results[0]));
    else if (x_.is_half)
      store_halves(sums, first, last, reinterpret_cast<Half*>(call.results[0]));
    else
      store(sums, first, last, reinterpret_cast<float*>(call.results[0]));
  }

 private:
  struct Block {
    int64_t group, first_tap, taps, first_channel, channels, columns;
  };
  struct Chunk {
    int64_t image, images, row, rows;
    int64_t pixels(int64_t width) const { return images * rows * width; }
  };
  // The sums of a block are [O][columns], by column [columns][O], or panels of [columns][output_step_].
  bool has_column_rows() const { return is_by_column_ || is_packed_; }
  int64_t pitch_of(const Block& block) const {
    if (is_packed_) return output_step_;
    return round_up(is_by_column_ ? g_.out_group() : block.columns, 16);
  }
  int64_t sum_of(const Block& block) const {
    if (is_packed_) return divide_up(g_.out_channels, output_step_) * block.columns * output_step_;
    return (is_by_column_ ? block.columns : g_.out_group()) * pitch_of(block);
  }
  // From one group of outputs to the next.
  int64_t sum_stride(const Block& block) const {
    if (is_packed_) return block.columns * output_step_;
    return is_by_column_ ? kTile : kTile * pitch_of(block);
  }
  // Returns the row of the result's panels where `block` begins. Blocks of several taps have all channels.
  int64_t panel_row(const Block& block) const {
    return block.first_tap * g_.in_channels + block.first_channel;
  }

  // The columns beyond O of the rows of these blocks become zero, all columns of sums over nothing.
  void clear_panels(size_t first, size_t last, bool all, float* panels) const {
    const int64_t count = divide_up(g_.out_channels, output_step_), rows = g_.taps() * g_.in_channels;
    for (int64_t panel = all ? 0 : count - 1; panel < count; ++panel) {
      const int64_t from = all ? 0 : g_.out_channels - panel * output_step_;
      if (from == output_step_) continue;
      for (size_t b = first; b < last; ++b)
        for (int64_t i = 0; i < blocks_[b].columns; ++i)
          std::memset(panels + (panel * rows + panel_row(blocks_[b]) + i) * output_step_ + from, 0,
                      static_cast<size_t>(output_step_ - from) * sizeof(float));
    }
  }

  // Tiles for one width of a block: [full or last rows of O][whole, last-images or last-rows chunk][sum or
  // partial].
  struct Tiles {
    int64_t columns;
    TileGemm tile[2][3][2];
  };

  size_t block_of(int lane) const {
    return static_cast<size_t>(static_cast<int64_t>(blocks_.size()) * lane / lanes_);
  }

  // Kinds of chunk by length: whole, the last group of images, the last rows of an image.
  int64_t chunk_length(int kind) const {
    if (kind == 0) return chunk_pixels_;
    if (kind == 1) return g_.batch % images_per_chunk_ * rows_per_chunk_ * g_.out_width;
    return g_.out_height % rows_per_chunk_ * g_.out_width;
  }

  void make_tiles(int64_t columns) {
    for (const Tiles& tiles : tiles_)
      if (tiles.columns == columns) return;
    Tiles& tiles = tiles_.emplace_back();
    tiles.columns = columns;
    for (int last : {0, 1})
      for (int kind : {0, 1, 2})
        for (int partial : {0, 1}) {
          if (!last && g_.out_group() < output_step_) continue;
          const int64_t outputs = last ? g_.out_group() % output_step_ : output_step_;
          TileShape t;
          t.depth = chunk_length(kind);
          if (outputs == 0 || t.depth == 0 || columns == 0) continue;
          if (is_by_column_) {
            t.rows = columns;
            t.columns = outputs;
            t.lda = round_up(chunk_pixels_, 16);
            t.ldb = g_.out_channels;
            t.ldc = is_packed_ ? output_step_ : round_up(g_.out_group(), 16);
          } else if (is_packed_) {
            t.rows = columns;
            t.columns = outputs;
            t.lda = round_up(columns, 16);
            t.ldb = g_.out_channels;
            t.ldc = output_step_;
            t.transposed_a = true;
          } else {
            t.rows = outputs;
            t.columns = columns;
            t.lda = g_.out_channels;
            t.ldb = t.ldc = round_up(columns, 16);
            t.transposed_a = true;
          }
          tiles.tile[last][kind][partial] = TileGemm(t);
        }
  }

  const float* load_dy(const void* dy, const Chunk& chunk, float* to) const {
    const int64_t image_pixels = g_.out_height * g_.out_width;
    if (dy_.is_direct())
      return static_cast<const float*>(dy) +
             (chunk.image * image_pixels + chunk.row * g_.out_width) * g_.out_channels;
    for (int64_t i = 0; i < chunk.images; ++i)
      load_rows(dy_, dy_.image(dy, chunk.image + i), chunk.row, chunk.row + chunk.rows, 0, 0,
                to + i * chunk.rows * g_.out_width * g_.out_channels);
    return to;
  }

  // Rows of x that the chunk reads; `first` becomes the first of them. Row `first` of image i of the chunk is
  // at i * (number of rows) rows.
  const float* load_x(const void* x, const Chunk& chunk, float* to, int64_t& first) const {
    const auto [low, high] = rows_read(chunk);
    first = low;
    for (int64_t i = 0; i < chunk.images; ++i)
      load_rows(x_, x_.image(x, chunk.image + i), low, high, 0, 0,
                to + i * (high - low) * g_.in_width * g_.in_channels);
    return to;
  }
  std::pair<int64_t, int64_t> rows_read(const Chunk& chunk) const {
    const int64_t low = std::clamp<int64_t>(chunk.row * g_.stride_y - g_.padding_top, 0, g_.in_height);
    const int64_t high = std::clamp<int64_t>((chunk.row + chunk.rows - 1) * g_.stride_y - g_.padding_top +
                                                 (g_.kernel_height - 1) * g_.dilation_y + 1,
                                             low, g_.in_height);
    return {low, high};
  }

  // The part of an output row that a tap reads inside the image, and where that is.
  struct TapRow {
    int64_t from, until;  // output columns
    const float* pixels;  // of output column 0 (which may lie outside); nullptr: the row lies outside
  };

  template <typename Visit>
  void for_each_row(const float* x, const Chunk& chunk, int64_t in_first, const Block& block, int64_t tap,
                    Visit visit) const {
    const auto [low, high] = rows_read(chunk);
    const int64_t image_rows = x_.is_direct() ? g_.in_height : high - low;
    const int64_t image_base = x_.is_direct() ? chunk.image : 0;
    const int64_t offset = block.group * g_.in_group() + block.first_channel;
    const int64_t ky = tap / g_.kernel_width * g_.dilation_y - g_.padding_top;
    const int64_t kx = tap % g_.kernel_width * g_.dilation_x - g_.padding_left;
    TapRow found{};
    found.from = std::clamp<int64_t>(divide_up(std::max<int64_t>(0, -kx), g_.stride_x), 0, g_.out_width);
    found.until = std::clamp<int64_t>(g_.in_width - 1 - kx < 0 ? 0 : (g_.in_width - 1 - kx) / g_.stride_x + 1,
                                      found.from, g_.out_width);
    for (int64_t i = 0; i < chunk.images; ++i)
      for (int64_t row = chunk.row; row < chunk.row + chunk.rows; ++row) {
        const int64_t in_row = row * g_.stride_y + ky;
        found.pixels = nullptr;
        if (in_row >= 0 && in_row < g_.in_height)
          found.pixels =
              x + (((image_base + i) * image_rows + in_row - in_first) * g_.in_width + kx) * g_.in_channels +
              offset;
        visit(found);
      }
  }

  // [pixel][column]
  void gather(const float* x, const Chunk& chunk, int64_t in_first, const Block& block, float* to) const {
    const int64_t pitch = round_up(block.columns, 16), step = g_.stride_x * g_.in_channels;
    for (int64_t t = 0; t < block.taps; ++t) {
      float* at = to + t * block.channels;
      for_each_row(x, chunk, in_first, block, block.first_tap + t, [&](const TapRow& row) {
        if (row.pixels == nullptr) {
          clear(at, pitch, g_.out_width, block.channels);
        } else {
          clear(at, pitch, row.from, block.channels);
          clear(at + row.until * pitch, pitch, g_.out_width - row.until, block.channels);
          copy(row.pixels + row.from * step, step, at + row.from * pitch, pitch, row.until - row.from,
               block.channels);
        }
        at += g_.out_width * pitch;
      });
    }
  }

  // [column][pixel]
  void gather_columns(const float* x, const Chunk& chunk, int64_t in_first, const Block& block,
                      float* to) const {
    const int64_t pitch = round_up(chunk_pixels_, 16), step = g_.stride_x * g_.in_channels;
    for (int64_t t = 0; t < block.taps; ++t) {
      float* at = to + t * block.channels * pitch;
      for_each_row(x, chunk, in_first, block, block.first_tap + t, [&](const TapRow& row) {
        for (int64_t c = 0; c < block.channels; ++c) {
          float* const line = at + c * pitch;
          const bool is_outside = row.pixels == nullptr;
          std::fill(line, line + (is_outside ? g_.out_width : row.from), 0.0f);
          if (is_outside) continue;
          const float* const from = row.pixels + c;
          if (step == 1)
            std::copy(from + row.from, from + row.until, line + row.from);
          else
            for (int64_t p = row.from; p < row.until; ++p) line[p] = from[p * step];
          std::fill(line + row.until, line + g_.out_width, 0.0f);
        }
        at += g_.out_width;
      });
    }
  }

  static void clear(float* to, int64_t pitch, int64_t pixels, int64_t channels) {
    for (int64_t p = 0; p < pixels; ++p, to += pitch)
      for (int64_t c = 0; c < channels; ++c) to[c] = 0.0f;
  }
  static void copy(const float* from, int64_t step, float* to, int64_t pitch, int64_t pixels,
                   int64_t channels) {
    if (channels == kTile) {
      for (int64_t p = 0; p < pixels; ++p, from += step, to += pitch)
        std::memcpy(to, from, kTile * sizeof(float));
    } else if (channels == 1) {
      for (int64_t p = 0; p < pixels; ++p, from += step, to += pitch) *to = *from;
    } else {
      for (int64_t p = 0; p < pixels; ++p, from += step, to += pitch)
        for (int64_t c = 0; c < channels; ++c) to[c] = from[c];
    }
  }

  // `stride`: from one group of outputs to the next in the sums.
  void multiply(const float* dy, int64_t pixels, const Block& block, const float* gathered, float* sum,
                int64_t stride, float* partial, bool is_first) const {
    const int64_t pitch = pitch_of(block);
    const int kind = pixels == chunk_length(0) ? 0 : pixels == chunk_length(1) ? 1 : 2;
    const Tiles* tiles = tiles_.data();
    while (tiles->columns != block.columns) ++tiles;
    const float* a = dy + block.group * g_.out_group();
    float* c = sum;
    for (int64_t first = 0; first < g_.out_group(); first += output_step_, c += stride) {
      const int64_t outputs = std::min(output_step_, g_.out_group() - first);
      const TileGemm& tile = tiles->tile[outputs < output_step_][kind][!is_first];
      float* const result = is_first ? c : partial;
      if (has_column_rows())
        tile(gathered, a + first, result);
      else
        tile(a + first, gathered, result);
      if (!is_first)
        add_tile(c, pitch, partial, pitch, has_column_rows() ? block.columns : outputs,
                 has_column_rows() ? outputs : block.columns);
    }
  }

  void store_half_panels(const float* sums, size_t first, size_t last, Half* panels) const {
    const int64_t count = divide_up(g_.out_channels, output_step_), rows = g_.taps() * g_.in_channels;
    for (size_t b = first; b < last; ++b)
      for (int64_t panel = 0; panel < count; ++panel) {
        const int64_t width = std::min(output_step_, g_.out_channels - panel * output_step_);
        Half* const to = panels + (panel * rows + panel_row(blocks_[b])) * output_step_;
        if (width < output_step_)
          std::memset(to, 0, static_cast<size_t>(blocks_[b].columns * output_step_) * sizeof(Half));
        narrow_rows(sums, output_step_, to, output_step_, blocks_[b].columns, width);
        sums += blocks_[b].columns * output_step_;
      }
  }

  // Rounds the sums where they are: an f16 lies before the sums still to be read.
  void store_halves(float* sums, size_t first, size_t last, Half* dw) const {
    auto* const halves = reinterpret_cast<Half*>(sums);
    int64_t count = 0;
    for (size_t b = first; b < last; ++b) count += sum_of(blocks_[b]);
    constexpr int64_t kBatch = 256;
    float values[kBatch];
    for (int64_t at = 0; at < count; at += kBatch) {
      const int64_t size = std::min(kBatch, count - at);
      std::memcpy(values, sums + at, static_cast<size_t>(size) * sizeof(float));
      narrow_rows(values, size, halves + at, size, 1, size);
    }
    store(halves, first, last, dw);
  }

  // Sums are [O][tap, channel], or [tap, channel][O]; the result is [O][channel][tap].
  template <class T>
  void store(const T* sums, size_t first, size_t last, T* dw) const {
    const int64_t taps = g_.taps(), row_length = g_.in_group() * taps;
    for (size_t b = first; b < last; ++b) {
      const Block& block = blocks_[b];
      const int64_t pitch = pitch_of(block);
      const int64_t to_output = is_by_column_ ? 1 : pitch, to_column = is_by_column_ ? pitch : 1;
      T* to = dw + block.group * g_.out_group() * row_length;
      for (int64_t o = 0; o < g_.out_group(); ++o, to += row_length)
        for (int64_t t = 0; t < block.taps; ++t)
          for (int64_t c = 0; c < block.channels; ++c)
            to[(block.first_channel + c) * taps + block.first_tap + t] =
                sums[o * to_output + (t * block.channels + c) * to_column];
      sums += sum_of(block);
    }
  }

  ConvGeometry g_;
  bool is_packed_;
  int64_t output_step_;  // outputs of a tile
  ImageShape x_, dy_;
  int64_t images_per_chunk_ = 1, rows_per_chunk_ = 1, chunk_pixels_ = 0;
  std::vector<Block> blocks_;
  std::vector<Tiles> tiles_;
  int lanes_ = 1;
  bool is_by_column_ = false;
  int64_t gather_floats_ = 0, dy_floats_ = 0, x_floats_ = 0, sum_floats_ = 0, partial_floats_ = 0,
          scratch_floats_ = 0;
};

// nullopt: the kernel cannot do this. Shapes must be bounded (require_sound).
std::optional<ConvGeometry> plan_of(const KernelRequest& request) {
  if (request.operands.size() != 2 || request.results.size() != 1) return std::nullopt;
  const TensorSpec &x = request.operands[0], &dy = request.operands[1], &dw = request.results[0];
  if (!is_image(x) || !is_image(dy) || dy.dtype != x.dtype || dw.dtype != x.dtype) return std::nullopt;
  if (!dw.layout.is_blocked()) {
    if (!dw.is_contiguous()) return std::nullopt;
    return conv_geometry(x.shape, dw.shape, dy.shape, request);
  }
  if (!request.attributes.has("kernel_shape")) return std::nullopt;
  const auto g = conv_geometry(x.shape, integers_of(request, "kernel_shape"), dy.shape, request);
  return g && g->is_packed_in(dw.shape) ? g : std::nullopt;
}

std::unique_ptr<PreparedKernel> prepare_conv_weight_gradient(const KernelRequest& request) {
  const auto g = plan_of(request);
  if (!g) return nullptr;
  const TensorSpec &x = request.operands[0], &dy = request.operands[1];
  const bool x_last = x.layout.is_channels_last(), dy_last = dy.layout.is_channels_last();
  const bool is_half = x.dtype == DType::kF16;
  if (is_depthwise(*g)) return make_depthwise_weight_gradient(*g, x_last, dy_last, is_half);
  return std::make_unique<ConvWeightGradient>(*g, x_last, dy_last, is_half,
                                              request.results[0].layout.is_blocked());
}

Footprint footprint_of_weight_gradient(const KernelRequest& request) {
  require_counts(request, 2, 1);
  require_sound(request);
  require(plan_of(request).has_value(), "has no convolution's shapes, strides, types or attributes");
  return footprint_of_views(request);
}

IPU_REGISTER_KERNEL("conv_weight_gradient", prepare_conv_weight_gradient, footprint_of_weight_gradient);

}  // namespace
}  // namespace ipu::kernels
