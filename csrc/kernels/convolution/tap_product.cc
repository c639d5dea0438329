// See tap_product.h.
#include "kernels/convolution/tap_product.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "kernels/convolution/geometry.h"
#include "kernels/isa.h"
#include "kernels/tile_gemm/panels.h"

namespace ipu::kernels {
namespace {

constexpr int64_t kLongestPiece = 640;   // terms of a sum before its partial result is added: changes bits
constexpr int kPixelLanes = 8;           // where pixels share the weights they read
constexpr int64_t kMergedChannels = 32;  // up to here neighbouring taps become one segment

}  // namespace

TapProduct::TapProduct(TapProductShape shape) : shape_(std::move(shape)) {
  active_isa();  // the level in force, for loops that Highway compiled
  in_group_ = shape_.in.channels / shape_.groups;
  out_group_ = shape_.out.channels / shape_.groups;
  panel_width_ = panel_width(out_group_);
  panels_per_group_ = panel_count(out_group_);
  panels_ = panels_per_group_ * shape_.groups;
  for (const TapPhase& from : shape_.phases) {
    Phase& phase = phases_.emplace_back();
    build_phase(from, phase);
    for (const Tap& tap : from.taps) {
      pad_left_ = std::max(pad_left_, -tap.column);
      pad_right_ = std::max(pad_right_,
                            (phase.columns - 1) * shape_.in_column_step + tap.column - (shape_.in.width - 1));
    }
    phase.packed_at = packed_floats_;
    packed_floats_ += round_up(phase.weight_rows * panel_width_, 16);
    most_segments_ = std::max(most_segments_, static_cast<int64_t>(phase.segments.size()));
  }
  copies_rows_ = pad_left_ > 0 || pad_right_ > 0 || !shape_.in.is_direct();
  copies_weights_ = !shape_.weight_is_packed || shape_.is_half || shape_.swaps_channels;
  if (suits_pixels())
    plan_pixels();
  else if (suits_images())
    plan_images();
  for (Phase& phase : phases_) make_tiles(phase);
  plan_lanes();
}

void TapProduct::plan_lanes() {
  const int64_t rows = (image_blocks_ > 0 ? image_blocks_ : shape_.batch) * shape_.out.height;
  // Weights larger than the images: every lane has its own output channels, first of all.
  const bool cuts_channels =
      panels_ > 1 && packed_floats_ * panels_ > shape_.batch * (shape_.in.elements() + shape_.out.elements());
  const int wanted = lanes_for_cost(shape_.cost, rows * panels_);
  if (cuts_channels) panel_lanes_ = static_cast<int>(std::min<int64_t>(wanted, panels_));
  // A lane packs all weights of its channels: with weights to pack, few lanes share them.
  const int of_rows = copies_weights_ ? std::min(wanted, std::max(2, wanted / 4)) : wanted;
  row_lanes_ = static_cast<int>(std::clamp<int64_t>(of_rows / panel_lanes_, 1, std::max<int64_t>(rows, 1)));
  if (!cuts_channels && !copies_weights_ && row_lanes_ < wanted)
    panel_lanes_ = static_cast<int>(std::min<int64_t>(wanted / row_lanes_, panels_));

  if (is_by_pixel_) {
    // Lanes that share a panel read it from memory, or pack it, once each: few of them.
    panel_lanes_ = static_cast<int>(std::min<int64_t>(wanted, panels_));
    const int of_panel = copies_weights_ ? 1 : std::min(wanted, kPixelLanes) / panel_lanes_;
    row_lanes_ = static_cast<int>(std::clamp<int64_t>(of_panel, 1, std::max<int64_t>(rows, 1)));
  }
  bias_floats_ = shape_.is_half ? round_up(shape_.out.channels, 16) : 0;
  const int64_t lane_panels = divide_up(panels_, panel_lanes_);
  if (image_blocks_ == 0 && !is_by_pixel_) {
    int64_t most_rows = std::min(shape_.out.height, divide_up(rows, row_lanes_)), low = 0, high = 0;
    int64_t most_in_rows = 0;
    if (copies_rows_)
      for (int64_t first = 0; first < shape_.out.height; ++first) {
        input_rows(first, std::min(shape_.out.height, first + most_rows), low, high);
        most_in_rows = std::max(most_in_rows, high - low);
      }
    rows_floats_ =
        round_up(most_in_rows * (pad_left_ + shape_.in.width + pad_right_) * shape_.in.channels, 16);
    out_floats_ =
        shape_.out.is_direct() ? 0 : round_up(most_rows * shape_.out.width * shape_.out.channels, 16);
    finishes_rows_ = panel_lanes_ == 1 && shape_.out.channels % 16 != 0;
    end_row_floats_ = finishes_rows_ ? round_up(shape_.out.width * shape_.out.channels, 16) : 0;
    partial_floats_ = column_step_ * panel_width_;
  }
  scratch_floats_ = 2 * end_row_floats_ +
                    (copies_weights_ || widens_pieces_ ? kBlockRows * panel_width_ : 0) +
                    (copies_weights_ ? packed_floats_ * lane_panels : 0) + bias_floats_ + rows_floats_ +
                    out_floats_ + partial_floats_ + written_floats_ + 4 * round_up(most_segments_, 16);
}

void TapProduct::build_phase(const TapPhase& from, Phase& phase) const {
  phase.first_row = from.first_row;
  phase.row_step = from.row_step;
  phase.rows = std::max<int64_t>(0, divide_up(shape_.out.height - from.first_row, from.row_step));
  phase.first_column = from.first_column;
  phase.column_step = from.column_step;
  phase.columns = std::max<int64_t>(0, divide_up(shape_.out.width - from.first_column, from.column_step));
  for (const Tap& tap : from.taps) phase.weight_taps.push_back(tap.weight);
  phase.weight_rows = static_cast<int64_t>(from.taps.size()) * in_group_;

  // Runs of neighbouring taps must all have one length, because a phase has one depth.
  int64_t run = 1;
  if (shape_.groups == 1 && in_group_ <= kMergedChannels && !from.taps.empty()) {
    while (run < static_cast<int64_t>(from.taps.size()) &&
           from.taps[static_cast<size_t>(run)].row == from.taps[0].row &&
           from.taps[static_cast<size_t>(run)].column == from.taps[0].column + run)
      ++run;
    for (size_t i = 0; i < from.taps.size(); ++i) {
      const Tap& start = from.taps[i - i % static_cast<size_t>(run)];
      const int64_t inside = static_cast<int64_t>(i) % run;
      if (from.taps[i].row != start.row || from.taps[i].column != start.column + inside) run = 1;
    }
    if (static_cast<int64_t>(from.taps.size()) % run != 0) run = 1;
  }
  phase.merges_taps = run > 1;
  // Long channels are cut into equal parts.
  int64_t parts = 1;
  if (run == 1 && in_group_ > 512) {
    int64_t depth = 512;
    while (in_group_ % depth != 0) --depth;
    parts = in_group_ / depth;
  }
  phase.depth = in_group_ * run / parts;
  if (phase.depth < 64 && parts > 1) {  // no good divisor: one long chain
    parts = 1;
    phase.depth = in_group_;
  }
  int64_t weight_row = 0;
  for (size_t i = 0; i < from.taps.size() && phase.depth > 0; i += static_cast<size_t>(run))
    for (int64_t part = 0; part < parts; ++part, weight_row += phase.depth)
      phase.segments.push_back({from.taps[i].row, from.taps[i].column, part * phase.depth, weight_row});
  const int64_t count = static_cast<int64_t>(phase.segments.size());
  const int64_t pieces = std::max<int64_t>(1, divide_up(count * phase.depth, kLongestPiece));
  phase.segments_per_piece = std::max<int64_t>(1, divide_up(count, pieces));
}

void TapProduct::make_tiles(Phase& phase) const {
  if (phase.segments.empty() || phase.columns == 0 || phase.depth == 0 || out_group_ == 0 || is_by_pixel_)
    return;
  if (image_blocks_ > 0) {
    make_tile(phase, 1, most_images_, in_pitch_, out_pitch_);
    if (shape_.batch % image_blocks_ != 0) make_tile(phase, 0, most_images_ - 1, in_pitch_, out_pitch_);
    return;
  }
  const int64_t lda = shape_.in_column_step * shape_.in.channels;
  const int64_t ldc = phase.column_step * shape_.out.channels, rest = phase.columns % column_step_;
  if (phase.columns >= column_step_) make_tile(phase, 1, column_step_, lda, ldc);
  if (rest > 0) make_tile(phase, 0, rest, lda, ldc);
}

void TapProduct::make_tile(Phase& phase, int kind, int64_t rows, int64_t lda, int64_t ldc) const {
  for (int last : {0, 1}) {
    if (!last && panels_per_group_ == 1) continue;
    for (int partial : {0, 1}) {
      TileShape t;
      t.rows = rows;
      t.columns = last ? out_group_ - (panels_per_group_ - 1) * panel_width_ : panel_width_;
      t.depth = phase.depth;
      t.lda = lda;
      t.ldb = panel_width_;
      t.ldc = partial ? panel_width_ : ldc;
      phase.tiles[kind][last][partial] = BatchTileGemm(t);
    }
  }
}

// Input rows [low, high) that output rows [first, last) read.
void TapProduct::input_rows(int64_t first, int64_t last, int64_t& low, int64_t& high) const {
  low = std::numeric_limits<int64_t>::max();
  high = 0;
  for (const Phase& phase : phases_) {
    if (phase.segments.empty()) continue;
    const int64_t from = std::max<int64_t>(0, divide_up(first - phase.first_row, phase.row_step));
    const int64_t to = std::min(phase.rows, divide_up(last - phase.first_row, phase.row_step));
    if (from >= to) continue;
    low = std::min(low, from * shape_.in_row_step + phase.segments.front().row);
    high = std::max(high, (to - 1) * shape_.in_row_step + phase.segments.back().row + 1);
  }
  low = std::clamp<int64_t>(low, 0, shape_.in.height);
  high = std::clamp<int64_t>(high, low, shape_.in.height);
}

void TapProduct::run(const void* input, const void* weight, const EndOperands& end, void* output,
                     std::byte* scratch, int lane, StopMeter& meter) const {
  Work work;
  work.first_panel = panels_ * (lane % panel_lanes_) / panel_lanes_;
  work.last_panel = panels_ * (lane % panel_lanes_ + 1) / panel_lanes_;
  float* at = reinterpret_cast<float*>(scratch);
  auto take = [&](int64_t floats) { return std::exchange(at, at + floats); };
  const int64_t total_rows = (image_blocks_ > 0 ? image_blocks_ : shape_.batch) * shape_.out.height;
  const int64_t first = total_rows * (lane / panel_lanes_) / row_lanes_;
  const int64_t last = total_rows * (lane / panel_lanes_ + 1) / row_lanes_;
  if (first == last || work.first_panel == work.last_panel) return;
  work.partial = take(partial_floats_);
  work.written = reinterpret_cast<uint8_t*>(take(written_floats_));
  work.a_offsets = reinterpret_cast<uint64_t*>(take(2 * round_up(most_segments_, 16)));
  work.b_offsets = reinterpret_cast<uint64_t*>(take(2 * round_up(most_segments_, 16)));
  work.rows = take(rows_floats_);
  work.out = take(out_floats_);
  work.output = static_cast<const float*>(output);
  work.end = {end.scale, static_cast<const float*>(end.bias), end.addend, shape_.activation};
  if (end.bias != nullptr && shape_.is_half) {
    float* wide = take(bias_floats_);
    copy_row(static_cast<const Half*>(end.bias), wide, shape_.out.channels);
    work.end.bias = wide;
  }
  const int64_t row_floats = shape_.out.width * shape_.out.channels;
  if (finishes_rows_)
    for (const float** of_channels : {&work.end.scale, &work.end.bias}) {
      if (*of_channels == nullptr) continue;
      float* repeated = take(end_row_floats_);
      for (int64_t pixel = 0; pixel < shape_.out.width; ++pixel)
        copy_row(*of_channels, repeated + pixel * shape_.out.channels, shape_.out.channels);
      *of_channels = repeated;
    }
  work.block = copies_weights_ || widens_pieces_ ? take(kBlockRows * panel_width_) : nullptr;
  work.halves = widens_pieces_ ? static_cast<const Half*>(weight) : nullptr;
  if (!copies_weights_) {
    work.packed = widens_pieces_ ? nullptr : static_cast<const float*>(weight);
  } else {
    float* packed = take(packed_floats_ * (work.last_panel - work.first_panel));
    if (!pack_weights(weight, work.first_panel, work.last_panel, packed, work.block, meter)) return;
    work.packed = packed;
  }
  if (image_blocks_ > 0) {
    run_images(work, input, output, first, last, meter);
    return;
  }
  for (int64_t row = first; row < last;) {
    const int64_t image = row / shape_.out.height, start = row % shape_.out.height;
    const int64_t until = std::min(shape_.out.height, start + last - row);
    const void* const image_in = shape_.in.image(input, image);
    void* const image_out = shape_.out.image(output, image);
    const auto* in = static_cast<const float*>(image_in);
    int64_t in_first = 0, in_last = 0;
    if (is_by_pixel_ && !shape_.in.is_direct()) {
      if (!load_rows(shape_.in, image_in, 0, shape_.in.height, 0, 0, work.rows, meter)) return;
      in = work.rows;
    } else if (copies_rows_ && !is_by_pixel_) {
      input_rows(start, until, in_first, in_last);
      if (!load_rows(shape_.in, image_in, in_first, in_last, pad_left_, pad_right_, work.rows, meter)) return;
      in = work.rows;
    }
    float* const out =
        shape_.out.is_direct() ? static_cast<float*>(image_out) + start * row_floats : work.out;
    const bool goes_on = is_by_pixel_ ? run_pixel_rows(work, in, out, start, until, meter)
                                      : run_rows(work, in, in_first, out, start, start, until, meter);
    if (!goes_on) return;
    if (finishes_rows_) end_tile(out, row_floats, until - start, row_floats, work.end_of(0, out));
    if (!shape_.out.is_direct()) {
      const int64_t channel = work.first_panel / panels_per_group_ * out_group_ +
                              work.first_panel % panels_per_group_ * panel_width_;
      const int64_t channel_end = work.last_panel / panels_per_group_ * out_group_ +
                                  work.last_panel % panels_per_group_ * panel_width_;
      if (!store_rows(shape_.out, work.out, shape_.out.channels, start, until, channel, channel_end - channel,
                      image_out, meter))
        return;
    }
    row += until - start;
  }
}

bool TapProduct::run_rows(const Work& work, const float* image, int64_t image_first_row, float* out,
                          int64_t out_first_row, int64_t first, int64_t last, StopMeter& meter) const {
  for (int64_t panel = work.first_panel; panel < work.last_panel; ++panel)
    for (const Phase& phase : phases_) {
      const int64_t from = std::max<int64_t>(0, divide_up(first - phase.first_row, phase.row_step));
      const int64_t to = std::min(phase.rows, divide_up(last - phase.first_row, phase.row_step));
      for (int64_t index = from; index < to; ++index) {
        const int64_t row = phase.first_row + index * phase.row_step - out_first_row;
        if (!run_tile_row(phase, index, work, panel, image, image_first_row,
                          out + (row * shape_.out.width + phase.first_column) * shape_.out.channels, meter))
          return false;
      }
    }
  return true;
}

bool TapProduct::run_tile_row(const Phase& phase, int64_t index, const Work& work, int64_t panel,
                              const float* image, int64_t image_first_row, float* out_row,
                              StopMeter& meter) const {
  const int64_t group = panel / panels_per_group_, in_panel = panel % panels_per_group_;
  const int64_t channel = group * out_group_ + in_panel * panel_width_;
  const int64_t width = std::min(panel_width_, out_group_ - in_panel * panel_width_);
  const int64_t ldc = phase.column_step * shape_.out.channels;
  const float* packed = copies_weights_
                            ? work.packed + (panel - work.first_panel) * packed_floats_ + phase.packed_at
                            : work.packed + panel * phase.weight_rows * panel_width_;
  const int64_t in_pitch = (pad_left_ + shape_.in.width + pad_right_) * shape_.in.channels;
  const bool last_panel = in_panel == panels_per_group_ - 1;
  const int64_t segments = static_cast<int64_t>(phase.segments.size());
  const bool ends = !finishes_rows_ && !work.end.is_nothing();
  const int64_t column_products = segments * phase.depth * width + width;
  for (int64_t column = 0; column < phase.columns; column += column_step_) {
    const int64_t pixels = std::min(column_step_, phase.columns - column);
    float* const c = out_row + column * ldc + channel;
    const float* const base = image + column * shape_.in_column_step * shape_.in.channels + group * in_group_;
    const auto& tiles = phase.tiles[pixels == column_step_][last_panel];
    bool written = false, ended = false;
    for (int64_t piece = 0; piece < segments; piece += phase.segments_per_piece) {
      int64_t count = 0;
      for (int64_t s = piece; s < std::min(segments, piece + phase.segments_per_piece); ++s) {
        const Segment& segment = phase.segments[static_cast<size_t>(s)];
        const int64_t row = index * shape_.in_row_step + segment.row;
        if (row < 0 || row >= shape_.in.height) continue;
        work.a_offsets[count] =
            static_cast<uint64_t>((row - image_first_row) * in_pitch +
                                  (segment.column + pad_left_) * shape_.in.channels + segment.channel) *
            sizeof(float);
        work.b_offsets[count++] = static_cast<uint64_t>(segment.weight_row * panel_width_) * sizeof(float);
      }
      if (count == 0) continue;
      ended = ends && written && piece + phase.segments_per_piece >= segments;
      if (!written) {
        tiles[0](base, packed, c, work.a_offsets, work.b_offsets, count);
      } else {
        tiles[1](base, packed, work.partial, work.a_offsets, work.b_offsets, count);
        if (ended)
          end_tile(c, ldc, pixels, width, work.end_of(channel, c), {work.partial, panel_width_});
        else
          add_tile(c, ldc, work.partial, panel_width_, pixels, width);
      }
      written = true;
    }
    if (!written)
      for (int64_t p = 0; p < pixels; ++p)
        std::memset(c + p * ldc, 0, static_cast<size_t>(width) * sizeof(float));
    if (ends && !ended) end_tile(c, ldc, pixels, width, work.end_of(channel, c));
    if (meter.stops_products(pixels * column_products)) return false;
  }
  return true;
}

}  // namespace ipu::kernels
