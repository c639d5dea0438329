// Kernel "convert_layout": the same tensor in another layout. f32 and f16 matrices between plain and panels
// (with {transpose=true} also [N,K] plain ↔ [K,N] panels; with {conv_weight=true} [O,C,*kernel] plain ↔
// [taps*C, O] panels, rows in tap-major order), and 3-d or 4-d tensors of 4 or 2 bytes between plain and
// nhwc. Not here: strided copies within the plain layout (kernel "copy").
#include <algorithm>
#include <cstring>
#include <optional>

#include "kernels/footprint.h"
#include "kernels/kernel_table.h"
#include "kernels/lanes.h"
#include "kernels/matmul/operand_matrix.h"
#include "kernels/stop_meter.h"
#include "kernels/tile_gemm/half_rows.h"
#include "kernels/tile_gemm/panels.h"
#include "kernels/tile_gemm/vector_tiles.h"

namespace ipu::kernels {
namespace {

int lanes_for(int64_t elements, int64_t parts) {
  constexpr int64_t kElementsPerLane = 1 << 19;  // some 100 µs of copying
  return static_cast<int>(
      std::clamp<int64_t>(elements / kElementsPerLane, 1, std::clamp<int64_t>(parts, 1, 16)));
}

template <class T>
class PackMatrix : public PreparedKernel {
 public:
  explicit PackMatrix(const MatrixSource& source)
      : source_(source),
        panels_(panel_count(source.columns)),
        lanes_(lanes_for(source.rows * source.columns, panels_)) {}
  int lanes() const override { return lanes_; }
  void run(const KernelCall& call, int lane) const override {
    StopMeter meter(call);
    for (int64_t panel = panels_ * lane / lanes_; panel < panels_ * (lane + 1) / lanes_; ++panel) {
      pack_panels(source_, reinterpret_cast<const T*>(call.operands[0]),
                  reinterpret_cast<T*>(call.results[0]), panel, panel + 1);
      if (meter.stops(source_.rows * panel_width(source_.columns) / 2)) return;
    }
  }

 private:
  MatrixSource source_;
  int64_t panels_;
  int lanes_;
};

// Packed [rows, columns] → plain, its transpose if asked: both are block copies out of the packed form.
template <class T>
class UnpackMatrix : public PreparedKernel {
 public:
  UnpackMatrix(const MatrixSource& source, int64_t stride)
      : source_(source), stride_(stride), lanes_(lanes_for(source.rows * source.columns, source.rows)) {}
  int lanes() const override { return lanes_; }
  void run(const KernelCall& call, int lane) const override {
    constexpr int64_t kBlock = 64;
    const auto* from = reinterpret_cast<const T*>(call.operands[0]);
    auto* to = reinterpret_cast<T*>(call.results[0]);
    const int64_t first = source_.rows * lane / lanes_, last = source_.rows * (lane + 1) / lanes_;
    StopMeter meter(call);
    for (int64_t row = first; row < last; row += kBlock)
      for (int64_t column = 0; column < source_.columns; column += kBlock) {
        if (meter.stops(kBlock * kBlock / 2)) return;
        const int64_t rows = std::min(kBlock, last - row),
                      columns = std::min(kBlock, source_.columns - column);
        if (source_.form == MatrixSource::Form::kPanels) {
          const int64_t width = panel_width(source_.columns);
          for (int64_t c = column; c < column + columns; c += width)
            for (int64_t r = row; r < row + rows; ++r)
              std::memmove(to + r * stride_ + c, from + c * source_.rows + r * width,
                           static_cast<size_t>(std::min(width, column + columns - c)) * sizeof(T));
        } else {
          const int64_t width = panel_width(source_.rows);
          for (int64_t r = row; r < row + rows;) {
            const int64_t inside = r % width, count = std::min(width - inside, row + rows - r);
            copy_transposed(from + (r - inside) * source_.columns + column * width + inside, width,
                            to + r * stride_ + column, stride_, columns, count);
            r += count;
          }
        }
      }
  }

 private:
  MatrixSource source_;  // the plain result, read out of the packed operand
  int64_t stride_;
  int lanes_;
};

// A convolution's weight [O][C][taps] ↔ panels over O with rows (tap, channel).
template <class T>
class ConvWeight : public PreparedKernel {
 public:
  ConvWeight(int64_t out, int64_t in, int64_t taps, bool packs)
      : out_(out),
        in_(in),
        taps_(taps),
        packs_(packs),
        lanes_(lanes_for(out * in * taps, panel_count(out))) {}
  int lanes() const override { return lanes_; }
  void run(const KernelCall& call, int lane) const override {
    const int64_t width = panel_width(out_), panels = panel_count(out_), rows = in_ * taps_;
    auto* const from = reinterpret_cast<const T*>(call.operands[0]);
    auto* const to = reinterpret_cast<T*>(call.results[0]);
    T block[64 * 64];
    StopMeter meter(call);
    for (int64_t panel = panels * lane / lanes_; panel < panels * (lane + 1) / lanes_; ++panel) {
      const int64_t column = panel * width, count = std::min(width, out_ - column);
      const auto bytes = static_cast<size_t>(width) * sizeof(T);
      std::memset(block, 0, sizeof block);
      for (int64_t start = 0; start < rows; start += 64) {
        if (meter.stops(64 * width / 2)) return;
        const int64_t length = std::min<int64_t>(64, rows - start);
        if (packs_) copy_transposed(from + column * rows + start, rows, block, width, count, length);
        for (int64_t i = 0; i < length; ++i) {
          const int64_t row = (start + i) % taps_ * in_ + (start + i) / taps_;
          const int64_t at = column * rows + row * width;
          if (packs_)
            std::memcpy(to + at, block + i * width, bytes);
          else
            std::memcpy(block + i * width, from + at, bytes);
        }
        if (!packs_) copy_transposed(block, width, to + column * rows + start, rows, length, count);
      }
    }
  }

 private:
  int64_t out_, in_, taps_;
  bool packs_;
  int lanes_;
};

// Per image a [channels, pixels] matrix becomes its transpose, either way. Lanes take ranges of pixels.
template <class T>
class ChannelsLast : public PreparedKernel {
 public:
  ChannelsLast(int64_t images, int64_t channels, int64_t pixels, bool to_last)
      : images_(images),
        channels_(channels),
        pixels_(pixels),
        to_last_(to_last),
        blocks_((pixels + kBlock - 1) / kBlock),
        lanes_(static_cast<int>(std::clamp<int64_t>(lanes_for_elements(images * channels * pixels), 1,
                                                    std::max<int64_t>(images * blocks_, 1)))) {}
  int lanes() const override { return lanes_; }
  void run(const KernelCall& call, int lane) const override {
    const int64_t first = images_ * blocks_ * lane / lanes_, last = images_ * blocks_ * (lane + 1) / lanes_;
    const auto* from = reinterpret_cast<const T*>(call.operands[0]);
    auto* to = reinterpret_cast<T*>(call.results[0]);
    StopMeter meter(call);
    const int64_t most = std::max<int64_t>(1, StopMeter::kPiece / (kBlock * std::max<int64_t>(channels_, 1)));
    for (int64_t unit = first; unit < last;) {
      const int64_t block = unit % blocks_, count = std::min({most, last - unit, blocks_ - block});
      const int64_t image = unit / blocks_ * channels_ * pixels_;
      const int64_t pixel = block * kBlock, pixels = std::min(count * kBlock, pixels_ - pixel);
      if (meter.stops(pixels * channels_ + 1)) return;
      if (to_last_)
        copy_transposed(from + image + pixel, pixels_, to + image + pixel * channels_, channels_, channels_,
                        pixels);
      else
        copy_transposed(from + image + pixel * channels_, channels_, to + image + pixel, pixels_, pixels,
                        channels_);
      unit += count;
    }
  }

 private:
  static constexpr int64_t kBlock = 64;  // pixels: whole cache lines of each channel
  int64_t images_, channels_, pixels_;
  bool to_last_;
  int64_t blocks_;
  int lanes_;
};

// Kernels move bits: elements of four bytes are floats to them, of two halves.
template <template <class> class Kernel, class... Arguments>
std::unique_ptr<PreparedKernel> for_width(DType dtype, const Arguments&... arguments) {
  if (size_in_bytes(dtype) == 4) return std::make_unique<Kernel<float>>(arguments...);
  return std::make_unique<Kernel<Half>>(arguments...);
}

// What a request asks for, in the numbers of the classes above.
struct Plan {
  enum class Method : uint8_t { kPack, kUnpack, kPackConv, kUnpackConv, kChannels };
  Method method = Method::kPack;
  MatrixSource matrix;                       // kPack, kUnpack
  int64_t first = 0, second = 0, third = 0;  // out, in, taps of a weight; images, channels, pixels
  bool to_last = false;
};

int64_t product_from(const Shape& shape, size_t first) {
  int64_t product = 1;
  for (size_t d = first; d < shape.size(); ++d) product *= shape[d];
  return product;
}

// nullopt: the kernel cannot do this. Shapes must be bounded (require_sound).
std::optional<Plan> plan_of(const KernelRequest& request) {
  using Method = Plan::Method;
  if (request.operands.size() != 1 || request.results.size() != 1) return std::nullopt;
  const TensorSpec &from = request.operands[0], &to = request.results[0];
  if (from.dtype != to.dtype || (size_in_bytes(from.dtype) != 4 && size_in_bytes(from.dtype) != 2))
    return std::nullopt;
  if (boolean_of(request, "conv_weight", false)) {
    const bool packs = from.layout.is_plain() && to.layout.is_blocked();
    const TensorSpec &plain = packs ? from : to, &packed = packs ? to : from;
    if (!plain.is_contiguous() || !packed.layout.is_blocked() || plain.shape.size() < 3) return std::nullopt;
    const int64_t taps = product_from(plain.shape, 2);
    if (packed.shape != Shape{taps * plain.shape[1], plain.shape[0]}) return std::nullopt;
    return Plan{
        packs ? Method::kPackConv : Method::kUnpackConv, {}, plain.shape[0], plain.shape[1], taps, false};
  }
  const bool transpose = boolean_of(request, "transpose", false);
  if (from.layout.is_plain() && to.layout.is_blocked()) {
    const auto source = matrix_of(from, transpose);
    if (!source || from.shape.size() != 2 || to.shape != Shape{source->rows, source->columns})
      return std::nullopt;
    return Plan{Method::kPack, *source};
  }
  if (from.layout.is_blocked() && to.layout.is_plain()) {
    const auto source = matrix_of(from, transpose);
    if (!source || to.shape != Shape{source->rows, source->columns} || !to.is_contiguous())
      return std::nullopt;
    return Plan{Method::kUnpack, *source};
  }
  const bool to_nhwc = from.layout.is_plain() && to.layout.is_channels_last();
  const bool from_nhwc = from.layout.is_channels_last() && to.layout.is_plain();
  if ((!to_nhwc && !from_nhwc) || from.shape != to.shape || from.shape.size() < 3) return std::nullopt;
  if (to_nhwc ? !from.is_contiguous() : !to.is_contiguous()) return std::nullopt;
  return Plan{Method::kChannels, {}, from.shape[0], from.shape[1], product_from(from.shape, 2), to_nhwc};
}

std::unique_ptr<PreparedKernel> prepare_convert_layout(const KernelRequest& request) {
  const std::optional<Plan> plan = plan_of(request);
  if (!plan) return nullptr;
  const DType dtype = request.operands[0].dtype;
  switch (plan->method) {
    case Plan::Method::kPack:
      return for_width<PackMatrix>(dtype, plan->matrix);
    case Plan::Method::kUnpack:
      return for_width<UnpackMatrix>(dtype, plan->matrix, plan->matrix.columns);
    case Plan::Method::kPackConv:
    case Plan::Method::kUnpackConv:
      return for_width<ConvWeight>(dtype, plan->first, plan->second, plan->third,
                                   plan->method == Plan::Method::kPackConv);
    case Plan::Method::kChannels:
      return for_width<ChannelsLast>(dtype, plan->first, plan->second, plan->third, plan->to_last);
  }
  return nullptr;
}

Footprint footprint_of_convert_layout(const KernelRequest& request) {
  require_counts(request, 1, 1);
  require_sound(request);
  require(plan_of(request).has_value(), "converts between layouts, shapes or types that do not fit");
  return footprint_of_views(request);
}

IPU_REGISTER_KERNEL("convert_layout", prepare_convert_layout, footprint_of_convert_layout);

}  // namespace
}  // namespace ipu::kernels
