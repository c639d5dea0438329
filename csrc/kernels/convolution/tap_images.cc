// TapProduct on blocks of images: the rows of a tile are one pixel of each image of a block, so a tile meets
// the taps that lie inside the image and no padding. Piece by piece of the sum, all pixels of some rows: the
// weights of a piece stay in the cache meanwhile. See tap_product.h.
#include <algorithm>
#include <cstring>

#include "kernels/convolution/geometry.h"
#include "kernels/convolution/tap_product.h"

namespace ipu::kernels {
namespace {

constexpr int64_t kImagesOfBlock = 8;  // at least, where the batch has as many
constexpr int64_t kFewestImages = 4;
constexpr int64_t kWidestImage = 32;                 // above, padding is too small a part of the work
constexpr int64_t kBlockFloats = 128 * 1024;         // of the input rows of a block at a time
constexpr int64_t kLongestPitch = int64_t{1} << 21;  // what generated tiles can step over

}  // namespace

// Rows of output positions of all images of a block.
struct TapProduct::ImageBlock {
  int64_t images;
  int64_t first, last;  // output rows
  int64_t in_first;     // the input row at `in`
  const float* in;
  float* out;  // of output row `first`
};

bool TapProduct::suits_images() const {
  if (shape_.batch < kFewestImages || shape_.out.width > kWidestImage || shape_.in.width > kWidestImage)
    return false;
  if (shape_.in.elements() > kLongestPitch || shape_.out.elements() > kLongestPitch) return false;
  bool pads = false;
  for (const Phase& phase : phases_) {
    if (phase.merges_taps) return false;
    pads = pads || phase.columns < kImagesOfBlock;
  }
  return pads || pad_left_ > 0 || pad_right_ > 0;
}

void TapProduct::plan_images() {
  image_blocks_ = std::max<int64_t>(1, shape_.batch / kImagesOfBlock);
  most_images_ = divide_up(shape_.batch, image_blocks_);
  const int64_t row_floats = shape_.in.width * shape_.in.channels;
  int64_t reach = 0, row_step = 1;
  for (const Phase& phase : phases_) {
    if (phase.segments.empty()) continue;
    reach = std::max(reach, phase.segments.back().row - phase.segments.front().row + 1);
    row_step = std::max(row_step, phase.row_step);
  }
  reach += static_cast<int64_t>(phases_.size()) > 1 ? 1 : 0;  // phases read different rows
  most_image_rows_ = shape_.out.height;
  if (shape_.in.is_direct()) {
    in_pitch_ = shape_.in.elements();
  } else {
    const int64_t in_rows = kBlockFloats / std::max<int64_t>(1, most_images_ * row_floats) - reach;
    most_image_rows_ = std::clamp<int64_t>(in_rows / shape_.in_row_step * row_step,
                                           std::min(row_step, shape_.out.height), shape_.out.height);
    int64_t most_in_rows = 0, low = 0, high = 0;
    for (int64_t first = 0; first < shape_.out.height; ++first) {
      input_rows(first, std::min(shape_.out.height, first + most_image_rows_), low, high);
      most_in_rows = std::max(most_in_rows, high - low);
    }
    in_pitch_ = round_up(most_in_rows * row_floats, 16) + 16;  // neighbours in different sets of the cache
    rows_floats_ = most_images_ * in_pitch_;
  }
  if (shape_.out.is_direct()) {
    out_pitch_ = shape_.out.elements();
  } else {
    out_pitch_ = round_up(most_image_rows_ * shape_.out.width * shape_.out.channels, 16) + 16;
    out_floats_ = most_images_ * out_pitch_;
  }
  partial_floats_ = most_images_ * panel_width_;
  written_floats_ = round_up(divide_up(most_image_rows_ * shape_.out.width, 4), 16);
}

bool TapProduct::run_images(Work& work, const void* input, void* output, int64_t first, int64_t last,
                            StopMeter& meter) const {
  const int64_t height = shape_.out.height, row_floats = shape_.out.width * shape_.out.channels;
  const int64_t channel =
      work.first_panel / panels_per_group_ * out_group_ + work.first_panel % panels_per_group_ * panel_width_;
  const int64_t channel_end =
      work.last_panel / panels_per_group_ * out_group_ + work.last_panel % panels_per_group_ * panel_width_;
  for (int64_t row = first; row < last;) {
    const int64_t image = first_image(row / height), images = first_image(row / height + 1) - image;
    ImageBlock block{images, row % height, 0, 0, nullptr, nullptr};
    block.last = std::min({height, block.first + last - row, block.first + most_image_rows_});
    if (shape_.in.is_direct()) {
      block.in = static_cast<const float*>(shape_.in.image(input, image));
    } else {
      int64_t in_last = 0;
      input_rows(block.first, block.last, block.in_first, in_last);
      for (int64_t i = 0; i < images; ++i)
        if (!load_rows(shape_.in, shape_.in.image(input, image + i), block.in_first, in_last, 0, 0,
                       work.rows + i * in_pitch_, meter))
          return false;
      block.in = work.rows;
    }
    block.out = shape_.out.is_direct()
                    ? static_cast<float*>(shape_.out.image(output, image)) + block.first * row_floats
                    : work.out;
    for (int64_t panel = work.first_panel; panel < work.last_panel; ++panel)
      for (const Phase& phase : phases_)
        if (!run_image_rows(work, block, phase, panel, meter)) return false;
    if (!shape_.out.is_direct())
      for (int64_t i = 0; i < images; ++i)
        if (!store_rows(shape_.out, work.out + i * out_pitch_, shape_.out.channels, block.first, block.last,
                        channel, channel_end - channel, shape_.out.image(output, image + i), meter))
          return false;
    row += block.last - block.first;
  }
  return true;
}

bool TapProduct::run_image_rows(const Work& work, const ImageBlock& block, const Phase& phase, int64_t panel,
                                StopMeter& meter) const {
  const int64_t from = std::max<int64_t>(0, divide_up(block.first - phase.first_row, phase.row_step));
  const int64_t to = std::min(phase.rows, divide_up(block.last - phase.first_row, phase.row_step));
  if (from >= to || phase.columns == 0) return true;
  const int64_t group = panel / panels_per_group_, in_panel = panel % panels_per_group_;
  const int64_t channel = group * out_group_ + in_panel * panel_width_;
  const int64_t width = std::min(panel_width_, out_group_ - in_panel * panel_width_);
  const float* const packed =
      copies_weights_ ? work.packed + (panel - work.first_panel) * packed_floats_ + phase.packed_at
                      : work.packed + panel * phase.weight_rows * panel_width_;
  const auto& tiles = phase.tiles[block.images == most_images_][in_panel == panels_per_group_ - 1];
  const int64_t segments = static_cast<int64_t>(phase.segments.size());
  const float* const base = block.in + group * in_group_;
  auto out_at = [&](int64_t index, int64_t column) {
    const int64_t row = phase.first_row + index * phase.row_step - block.first;
    return block.out +
           (row * shape_.out.width + phase.first_column + column * phase.column_step) * shape_.out.channels +
           channel;
  };
  // The end of a row of each image, after its last piece: in the order of memory, where the tiles of a position lie
  // far apart.
  auto end_row = [&](int64_t index, const uint8_t* written) {
    for (int64_t column = 0; column < phase.columns; ++column)
      for (int64_t i = 0; i < block.images && written[column] == 0; ++i)
        std::memset(out_at(index, column) + i * out_pitch_, 0, static_cast<size_t>(width) * sizeof(float));
    for (int64_t i = 0; i < block.images && !work.end.is_nothing(); ++i) {
      float* const c = out_at(index, 0) + i * out_pitch_;
      end_tile(c, phase.column_step * shape_.out.channels, phase.columns, width, work.end_of(channel, c));
    }
  };
  std::memset(work.written, 0, static_cast<size_t>((to - from) * phase.columns));
  for (int64_t piece = 0; piece < segments; piece += phase.segments_per_piece) {
    uint8_t* written = work.written;
    for (int64_t index = from; index < to; ++index) {
      for (int64_t column = 0; column < phase.columns; ++column, ++written) {
        int64_t count = 0;
        for (int64_t s = piece; s < std::min(segments, piece + phase.segments_per_piece); ++s) {
          const Segment& segment = phase.segments[static_cast<size_t>(s)];
          const int64_t row = index * shape_.in_row_step + segment.row;
          const int64_t in_column = column * shape_.in_column_step + segment.column;
          if (row < 0 || row >= shape_.in.height || in_column < 0 || in_column >= shape_.in.width) continue;
          work.a_offsets[count] =
              static_cast<uint64_t>(((row - block.in_first) * shape_.in.width + in_column) *
                                        shape_.in.channels +
                                    segment.channel) *
              sizeof(float);
          work.b_offsets[count++] = static_cast<uint64_t>(segment.weight_row * panel_width_) * sizeof(float);
        }
        if (count == 0) continue;
        float* const c = out_at(index, column);
        if (piece + phase.segments_per_piece >= segments)
          bring_addend(work.end_of(channel, c), out_pitch_, block.images, width);
        if (*written == 0) {
          tiles[0](base, packed, c, work.a_offsets, work.b_offsets, count);
        } else {
          tiles[1](base, packed, work.partial, work.a_offsets, work.b_offsets, count);
          add_tile(c, out_pitch_, work.partial, panel_width_, block.images, width);
        }
        *written = 1;
        if (meter.stops_products(block.images * width * count * phase.depth)) return false;
      }
      if (piece + phase.segments_per_piece >= segments) end_row(index, written - phase.columns);
    }
  }
  if (segments == 0)
    for (int64_t index = from; index < to; ++index) end_row(index, work.written);
  return !meter.stops(block.images * (to - from) * phase.columns * width / 4);
}

}  // namespace ipu::kernels
