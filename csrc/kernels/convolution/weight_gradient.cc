// Kernel "conv_weight_gradient": dw[O,C/groups,*kernel] of x and dy, f32 or f16, activations plain or nhwc in
// any mix. Per group it is dyᵀ[O,P] · G[P,taps*C], P all output pixels of the batch and G the input pixels
// each tap meets. Blocks of columns of G (a tap and up to 64 channels, or several taps of few channels) are
// gathered for a chunk of pixels and multiplied while they are hot. Sums run over chunks of at most 512
// pixels whose results are added in order: the chunks depend on shapes only. Lanes cut the columns of G,
// never the sum.
#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/convolution/geometry.h"
#include "kernels/convolution/image_rows.h"
#include "kernels/footprint.h"
#include "kernels/kernel_table.h"
#include "kernels/tile_gemm/half_rows.h"
#include "kernels/tile_gemm/tile_gemm.h"
#include "kernels/tile_gemm/vector_tiles.h"

namespace ipu::kernels {
namespace {

constexpr int64_t kLongestChunk = 512;  // pixels: changes bits
constexpr int64_t kTile = 64;           // rows and columns of a tile of dw
constexpr int64_t kFewChannels = 32;    // below, one block holds several taps

int64_t divide_up(int64_t value, int64_t step) { return (value + step - 1) / step; }
int64_t round_up(int64_t value, int64_t step) { return divide_up(value, step) * step; }

class ConvWeightGradient : public PreparedKernel {
 public:
  ConvWeightGradient(const ConvGeometry& g, bool x_last, bool dy_last, bool is_half)
      : g_(g),
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

    const bool merges = g.in_group() < kFewChannels;
    const int64_t taps_per_block =
        merges ? std::max<int64_t>(1, kTile / std::max<int64_t>(1, g.in_group())) : 1;
    for (int64_t group = 0; group < g.groups; ++group)
      for (int64_t tap = 0; tap < g.taps(); tap += taps_per_block)
        for (int64_t c = 0; c < g.in_group(); c += kTile) {
          Block block{
              group, tap, std::min(taps_per_block, g.taps() - tap), c, std::min(kTile, g.in_group() - c), 0};
          block.columns = block.taps * block.channels;
          blocks_.push_back(block);
        }
    const double microseconds = g.flops() / 80e3;
    lanes_ = lanes_for_cost(microseconds, static_cast<int64_t>(blocks_.size()));
    for (int lane = 0; lane < lanes_; ++lane) {
      int64_t columns = 0;
      for (size_t b = block_of(lane); b < block_of(lane + 1); ++b)
        columns += round_up(blocks_[b].columns, 16);
      most_columns_ = std::max(most_columns_, columns);
    }
    for (const Block& block : blocks_) make_tiles(block.columns);

    gather_floats_ = round_up(chunk_pixels_ * kTile, 16);
    dy_floats_ = dy_.is_direct() ? 0 : round_up(chunk_pixels_ * g.out_channels, 16);
    // Plain x is brought to channels-last rows first, as many as a chunk reads.
    const int64_t in_rows =
        std::min(g.in_height, (rows_per_chunk_ - 1) * g.stride_y + (g.kernel_height - 1) * g.dilation_y + 1);
    x_floats_ = x_.is_direct() ? 0 : round_up(images_per_chunk_ * in_rows * g.in_width * g.in_channels, 16);
    sum_floats_ = g.out_group() * most_columns_;
    scratch_floats_ = gather_floats_ + dy_floats_ + x_floats_ + round_up(sum_floats_, 16) + kTile * kTile;
  }

  int lanes() const override { return lanes_; }
  int64_t scratch_bytes() const override { return scratch_floats_ * static_cast<int64_t>(sizeof(float)); }

  void run(const KernelCall& call, int lane) const override {
    const auto* x = reinterpret_cast<const float*>(call.operands[0]);
    float* const gathered = reinterpret_cast<float*>(call.scratch);
    float* const dy_rows = gathered + gather_floats_;
    float* const x_rows = dy_rows + dy_floats_;
    float* const partial = x_rows + x_floats_;
    float* const sums = partial + kTile * kTile;
    const size_t first = block_of(lane), last = block_of(lane + 1);
    if (first == last) return;
    const bool empty = g_.batch == 0 || chunk_pixels_ == 0;
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
          gather(x_chunk, chunk, in_first, block, gathered);
          multiply(dy_chunk, chunk.pixels(g_.out_width), block, gathered, sum, partial, is_first);
          sum += g_.out_group() * round_up(block.columns, 16);
          const int64_t pixels = chunk.pixels(g_.out_width);
          if (meter.stops(pixels * block.columns / 4 * (1 + g_.out_group() / 8))) return;
        }
        is_first = false;
      }
    if (x_.is_half)
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
    const int64_t pitch = round_up(columns, 16);
    for (int last : {0, 1})
      for (int kind : {0, 1, 2})
        for (int partial : {0, 1}) {
          TileShape t;
          t.rows = last ? g_.out_group() % kTile : kTile;
          if (!last && g_.out_group() < kTile) continue;
          t.columns = columns;
          t.depth = chunk_length(kind);
          if (t.rows == 0 || t.depth == 0 || columns == 0) continue;
          t.lda = g_.out_channels;
          t.ldb = t.ldc = pitch;
          t.transposed_a = true;
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

  void gather(const float* x, const Chunk& chunk, int64_t in_first, const Block& block, float* to) const {
    const int64_t pitch = round_up(block.columns, 16), channels = g_.in_channels;
    const auto [low, high] = rows_read(chunk);
    const int64_t image_rows = x_.is_direct() ? g_.in_height : high - low;
    const int64_t image_base = x_.is_direct() ? chunk.image : 0;
    const int64_t offset = block.group * g_.in_group() + block.first_channel;
    for (int64_t t = 0; t < block.taps; ++t) {
      const int64_t tap = block.first_tap + t;
      const int64_t ky = tap / g_.kernel_width * g_.dilation_y - g_.padding_top;
      const int64_t kx = tap % g_.kernel_width * g_.dilation_x - g_.padding_left;
      // Output columns whose pixel lies inside the image.
      const int64_t from =
          std::clamp<int64_t>(divide_up(std::max<int64_t>(0, -kx), g_.stride_x), 0, g_.out_width);
      const int64_t until = std::clamp<int64_t>(
          g_.in_width - 1 - kx < 0 ? 0 : (g_.in_width - 1 - kx) / g_.stride_x + 1, from, g_.out_width);
      float* at = to + t * block.channels;
      for (int64_t i = 0; i < chunk.images; ++i)
        for (int64_t row = chunk.row; row < chunk.row + chunk.rows; ++row, at += g_.out_width * pitch) {
          const int64_t in_row = row * g_.stride_y + ky;
          if (in_row < 0 || in_row >= g_.in_height) {
            clear(at, pitch, g_.out_width, block.channels);
            continue;
          }
          clear(at, pitch, from, block.channels);
          clear(at + until * pitch, pitch, g_.out_width - until, block.channels);
          const float* pixels =
              x + (((image_base + i) * image_rows + in_row - in_first) * g_.in_width + kx) * channels +
              offset;
          copy(pixels + from * g_.stride_x * channels, g_.stride_x * channels, at + from * pitch, pitch,
               until - from, block.channels);
        }
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

  void multiply(const float* dy, int64_t pixels, const Block& block, const float* gathered, float* sum,
                float* partial, bool is_first) const {
    const int64_t pitch = round_up(block.columns, 16);
    const int kind = pixels == chunk_length(0) ? 0 : pixels == chunk_length(1) ? 1 : 2;
    const Tiles* tiles = tiles_.data();
    while (tiles->columns != block.columns) ++tiles;
    const float* a = dy + block.group * g_.out_group();
    for (int64_t row = 0; row < g_.out_group(); row += kTile) {
      const int64_t rows = std::min(kTile, g_.out_group() - row);
      const TileGemm& tile = tiles->tile[rows < kTile][kind][!is_first];
      if (is_first) {
        tile(a + row, gathered, sum + row * pitch);
      } else {
        tile(a + row, gathered, partial);
        add_tile(sum + row * pitch, pitch, partial, pitch, rows, block.columns);
      }
    }
  }

  // Rounds the sums where they are: an f16 lies before the sums still to be read.
  void store_halves(float* sums, size_t first, size_t last, Half* dw) const {
    auto* const halves = reinterpret_cast<Half*>(sums);
    int64_t count = 0;
    for (size_t b = first; b < last; ++b) count += g_.out_group() * round_up(blocks_[b].columns, 16);
    constexpr int64_t kBatch = 256;
    float values[kBatch];
    for (int64_t at = 0; at < count; at += kBatch) {
      const int64_t size = std::min(kBatch, count - at);
      std::memcpy(values, sums + at, static_cast<size_t>(size) * sizeof(float));
      narrow_rows(values, size, halves + at, size, 1, size);
    }
    store(halves, first, last, dw);
  }

  // Sums are [O][tap, channel]; the result is [O][channel][tap].
  template <class T>
  void store(const T* sums, size_t first, size_t last, T* dw) const {
    const int64_t taps = g_.taps(), row_length = g_.in_group() * taps;
    for (size_t b = first; b < last; ++b) {
      const Block& block = blocks_[b];
      const int64_t pitch = round_up(block.columns, 16);
      T* to = dw + block.group * g_.out_group() * row_length;
      for (int64_t o = 0; o < g_.out_group(); ++o, to += row_length, sums += pitch)
        for (int64_t t = 0; t < block.taps; ++t)
          for (int64_t c = 0; c < block.channels; ++c)
            to[(block.first_channel + c) * taps + block.first_tap + t] = sums[t * block.channels + c];
    }
  }

  ConvGeometry g_;
  ImageShape x_, dy_;
  int64_t images_per_chunk_ = 1, rows_per_chunk_ = 1, chunk_pixels_ = 0;
  std::vector<Block> blocks_;
  std::vector<Tiles> tiles_;
  int lanes_ = 1;
  int64_t most_columns_ = 0, gather_floats_ = 0, dy_floats_ = 0, x_floats_ = 0, sum_floats_ = 0,
          scratch_floats_ = 0;
};

// nullopt: the kernel cannot do this. Shapes must be bounded (require_sound).
std::optional<ConvGeometry> plan_of(const KernelRequest& request) {
  if (request.operands.size() != 2 || request.results.size() != 1) return std::nullopt;
  const TensorSpec &x = request.operands[0], &dy = request.operands[1], &dw = request.results[0];
  if (!is_image(x) || !is_image(dy) || !dw.is_contiguous()) return std::nullopt;
  if (dy.dtype != x.dtype || dw.dtype != x.dtype) return std::nullopt;
  return conv_geometry(x.shape, dw.shape, dy.shape, request);
}

std::unique_ptr<PreparedKernel> prepare_conv_weight_gradient(const KernelRequest& request) {
  const auto g = plan_of(request);
  if (!g) return nullptr;
  const TensorSpec &x = request.operands[0], &dy = request.operands[1];
  return std::make_unique<ConvWeightGradient>(*g, x.layout.is_channels_last(), dy.layout.is_channels_last(),
                                              x.dtype == DType::kF16);
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
