// Kernels "max_pool", "max_pool_gradient", "avg_pool" and "avg_pool_gradient", 1-d and 2-d, f32 or f16, plain
// or nhwc in any mix. The loops work on channels-last rows (vectors run over channels); plain operands pass
// through scratch. Lanes cut rows of the result. Divisors of avg_pool are torch's: the window clipped to the
// declared padding (without ceil_padding), or clipped to the image, or `divisor`.
#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/convolution/geometry.h"
#include "kernels/convolution/image_rows.h"
#include "kernels/footprint.h"
#include "kernels/kernel_table.h"
#include "kernels/pooling/pool_loops.h"

namespace ipu::kernels {
namespace {

struct PoolGeometry {
  int64_t batch = 0, channels = 0;
  int64_t in_height = 1, in_width = 1, out_height = 1, out_width = 1;
  int64_t kernel_height = 1, kernel_width = 1, stride_y = 1, stride_x = 1, dilation_y = 1, dilation_x = 1;
  int64_t top = 0, left = 0, bottom = 0, right = 0;  // padding that counts
  bool count_include_pad = true;
  int64_t divisor = 0;

  // Output rows whose windows touch input rows [first, last).
  std::pair<int64_t, int64_t> windows_touching(int64_t first, int64_t last) const {
    const int64_t low = first + top - (kernel_height - 1) * dilation_y;
    const int64_t from = std::min(out_height, low <= 0 ? 0 : (low + stride_y - 1) / stride_y);
    return {from, std::clamp((last - 1 + top) / stride_y + 1, from, out_height)};
  }
  // Input rows that the windows of output rows [first, last) read.
  std::pair<int64_t, int64_t> rows_read(int64_t first, int64_t last) const {
    const int64_t low = std::clamp<int64_t>(first * stride_y - top, 0, in_height);
    const int64_t high = (last - 1) * stride_y - top + (kernel_height - 1) * dilation_y + 1;
    return {low, std::clamp(high, low, in_height)};
  }
  // Every input element lies in exactly one window.
  bool is_partition() const {
    return kernel_height == stride_y && kernel_width == stride_x && dilation_y == 1 && dilation_x == 1 &&
           top == 0 && left == 0 && out_height * stride_y == in_height && out_width * stride_x == in_width;
  }
  float divisor_of(int64_t row, int64_t column) const {
    if (divisor != 0) return static_cast<float>(divisor);
    auto extent = [this](int64_t start, int64_t kernel, int64_t size, int64_t high) {
      const int64_t end = std::min(start + kernel, size + high);
      return count_include_pad ? end - start : std::min(end, size) - std::max<int64_t>(start, 0);
    };
    return static_cast<float>(extent(row * stride_y - top, kernel_height, in_height, bottom)) *
           static_cast<float>(extent(column * stride_x - left, kernel_width, in_width, right));
  }
  // Estimates the time for `windows` windows that have `taps` taps each inside the image.
  int64_t nanoseconds(int64_t windows, int64_t taps) const {
    return windows * channels * (taps + 1) / 4 + kernel_height * kernel_width;
  }
  ImageShape in(const TensorSpec& spec) const { return image(in_height, in_width, spec); }
  ImageShape out(const TensorSpec& spec) const { return image(out_height, out_width, spec); }
  ImageShape image(int64_t height, int64_t width, const TensorSpec& spec) const {
    return {channels, height, width, spec.layout.is_channels_last(), spec.dtype == DType::kF16};
  }
};

// nullopt when shapes and attributes do not fit, or are so large that sizes would overflow: more than 2^26
// taps, strides, dilations or padding above 2^31. The shapes must be bounded (require_sound).
std::optional<PoolGeometry> pool_geometry(const Shape& in, const Shape& out, const KernelRequest& request) {
  const size_t rank = in.size();
  if ((rank != 3 && rank != 4) || out.size() != rank || in[0] != out[0] || in[1] != out[1])
    return std::nullopt;
  const size_t spatial = rank - 2;
  if (!request.attributes.has("kernel")) return std::nullopt;
  const auto& kernel = integers_of(request, "kernel");
  const auto strides = integers_of(request, "strides", kernel);
  const std::vector<int64_t> zeros(spatial, 0);
  const auto low = integers_of(request, "padding_low", zeros),
             high = integers_of(request, "padding_high", zeros);
  const auto given = integers_of(request, "ceil_padding", zeros);
  const auto ceil = given.empty() ? zeros : given;
  const auto dilations = integers_of(request, "dilations", std::vector<int64_t>(spatial, 1));
  constexpr int64_t kMostTaps = int64_t{1} << 26, kMostPadding = int64_t{1} << 31;
  for (const auto* list : {&kernel, &strides, &low, &high, &ceil, &dilations})
    if (list->size() != spatial) return std::nullopt;
  for (const auto* list : {&low, &high, &ceil})
    for (int64_t padding : *list)
      if (padding < 0 || padding > kMostPadding) return std::nullopt;
  for (int64_t extent : kernel)
    if (extent < 1 || extent > kMostTaps) return std::nullopt;
  PoolGeometry g;
  g.batch = in[0];
  g.channels = in[1];
  g.in_width = in.back();
  g.out_width = out.back();
  g.kernel_width = kernel.back();
  g.stride_x = strides.back();
  g.dilation_x = dilations.back();
  g.left = low.back();
  g.right = high.back() - ceil.back();
  if (spatial == 2) {
    g.in_height = in[2];
    g.out_height = out[2];
    g.kernel_height = kernel[0];
    g.stride_y = strides[0];
    g.dilation_y = dilations[0];
    g.top = low[0];
    g.bottom = high[0] - ceil[0];
  }
  g.count_include_pad = boolean_of(request, "count_include_pad", true);
  g.divisor = integer_of(request, "divisor", 0);
  if (g.kernel_height * g.kernel_width > kMostTaps ||
      !is_bounded_window(g.in_width, g.out_width, g.kernel_width, g.stride_x, g.dilation_x, g.left) ||
      !is_bounded_window(g.in_height, g.out_height, g.kernel_height, g.stride_y, g.dilation_y, g.top))
    return std::nullopt;
  return g;
}

int64_t round_up(int64_t floats) { return (floats + 15) / 16 * 16; }

// One image operand: rows in place when it is stored channels last, else loaded into `space`.
struct Rows {
  const float* data;
  int64_t first, pitch;
  const float* pixel(int64_t row, int64_t column, int64_t channels) const {
    return data + (row - first) * pitch + column * channels;
  }
};
// False: the lane is to return.
bool rows_of_image(const ImageShape& shape, const void* images, int64_t image, int64_t first, int64_t last,
                   float* space, StopMeter& meter, Rows& rows) {
  const void* const at = shape.image(images, image);
  const int64_t pitch = shape.width * shape.channels;
  if (shape.is_direct()) {
    rows = {static_cast<const float*>(at), 0, pitch};
    return true;
  }
  rows = {space, first, pitch};
  return load_rows(shape, at, first, last, 0, 0, space, meter);
}

enum class Pool : uint8_t { kMax, kMean };

// Calls body(image, first row, last row) for the parts of images that lane `lane` owns, until it gives false.
template <typename Body>
void for_rows_of_lane(int64_t batch, int64_t height, int lane, int lanes, Body body) {
  const int64_t total = batch * height;
  const int64_t last = total * (lane + 1) / lanes;
  for (int64_t at = total * lane / lanes; at < last;) {
    const int64_t image = at / height, first = at % height, end = std::min(height, first + last - at);
    if (!body(image, first, end)) return;
    at += end - first;
  }
}

int pool_lanes(const PoolGeometry& g, int64_t rows) {
  const double reads = static_cast<double>(g.batch * g.out_height * g.out_width * g.channels) *
                       static_cast<double>(g.kernel_height * g.kernel_width);
  return lanes_for_cost((reads + static_cast<double>(g.batch * g.channels * g.in_height * g.in_width)) / 5e3,
                        rows);
}

// Calls body(first column, count) for runs of windows of an output row that hold the same columns of taps:
// windows inside the image by thousands, those at an edge one by one. False as soon as body gives it.
template <typename Body>
bool for_runs_of_columns(const PoolGeometry& g, Body body) {
  constexpr int64_t kMostWindows = 4096;
  const int64_t reach = (g.kernel_width - 1) * g.dilation_x;
  const int64_t inside = std::min(g.out_width, (g.left + g.stride_x - 1) / g.stride_x);
  const int64_t room = g.in_width - 1 - reach + g.left;
  const int64_t outside = std::clamp<int64_t>(room < 0 ? 0 : room / g.stride_x + 1, inside, g.out_width);
  for (int64_t column = 0; column < inside; ++column)
    if (!body(column, int64_t{1})) return false;
  for (int64_t column = inside; column < outside; column += kMostWindows)
    if (!body(column, std::min(kMostWindows, outside - column))) return false;
  for (int64_t column = outside; column < g.out_width; ++column)
    if (!body(column, int64_t{1})) return false;
  return true;
}

// Calls body(input row, input column) for the taps of a window that lie in the image, in row-major order.
template <typename Body>
void for_each_tap(const PoolGeometry& g, int64_t row, int64_t column, Body body) {
  for (int64_t ky = 0; ky < g.kernel_height; ++ky) {
    const int64_t in_row = row * g.stride_y - g.top + ky * g.dilation_y;
    if (in_row < 0 || in_row >= g.in_height) continue;
    for (int64_t kx = 0; kx < g.kernel_width; ++kx) {
      const int64_t in_column = column * g.stride_x - g.left + kx * g.dilation_x;
      if (in_column >= 0 && in_column < g.in_width) body(in_row, in_column);
    }
  }
}

class PoolForward : public PreparedKernel {
 public:
  PoolForward(const PoolGeometry& g, Pool pool, const TensorSpec& x, const TensorSpec& y)
      : g_(g), pool_(pool), x_(g.in(x)), y_(g.out(y)), lanes_(pool_lanes(g, g.batch * g.out_height)) {
    taps_floats_ = round_up(2 * g.kernel_height * g.kernel_width);
    x_floats_ = x_.is_direct() ? 0 : round_up(x_.elements());
    y_floats_ = y_.is_direct() ? 0 : round_up(y_.elements());
  }
  int lanes() const override { return lanes_; }
  int64_t scratch_bytes() const override { return 4 * (taps_floats_ + x_floats_ + y_floats_); }
  void run(const KernelCall& call, int lane) const override {
    auto* const space = reinterpret_cast<float*>(call.scratch);
    auto** const taps = reinterpret_cast<const float**>(space);
    float* const x_space = space + taps_floats_;
    float* const y_space = x_space + x_floats_;
    StopMeter meter(call);
    for_rows_of_lane(g_.batch, g_.out_height, lane, lanes_, [&](int64_t image, int64_t first, int64_t last) {
      const auto [low, high] = g_.rows_read(first, last);
      Rows rows{};
      if (!rows_of_image(x_, call.operands[0], image, low, high, x_space, meter, rows)) return false;
      void* const y = y_.image(call.results[0], image);
      float* out = y_.is_direct() ? static_cast<float*>(y) + first * g_.out_width * g_.channels : y_space;
      for (int64_t row = first; row < last; ++row) {
        const bool goes_on = for_runs_of_columns(g_, [&](int64_t column, int64_t windows) {
          WindowRow run{windows, g_.channels, g_.stride_x * g_.channels, taps, nullptr, 0};
          for_each_tap(g_, row, column, [&](int64_t in_row, int64_t in_column) {
            taps[run.count++] = rows.pixel(in_row, in_column, g_.channels);
          });
          if (pool_ == Pool::kMax)
            max_of_windows(run, out);
          else
            mean_of_windows(run, g_.divisor_of(row, column), out);
          out += windows * g_.channels;
          return !meter.stops(g_.nanoseconds(windows, run.count));
        });
        if (!goes_on) return false;
      }
      return y_.is_direct() || store_rows(y_, y_space, g_.channels, first, last, 0, g_.channels, y, meter);
    });
  }

 private:
  PoolGeometry g_;
  Pool pool_;
  ImageShape x_, y_;
  int lanes_;
  int64_t taps_floats_, x_floats_, y_floats_;
};

// Operands x, y, dy (max) or dy (mean). A lane owns rows of dx and visits every window that touches them, in
// order.
class PoolGradient : public PreparedKernel {
 public:
  // x and y are not read by a mean.
  PoolGradient(const PoolGeometry& g, Pool pool, const TensorSpec& x, const TensorSpec& y,
               const TensorSpec& dy, const TensorSpec& dx)
      : g_(g),
        pool_(pool),
        x_(g.in(x)),
        y_(g.out(y)),
        dy_(g.out(dy)),
        dx_(g.in(dx)),
        assigns_(g.is_partition()),
        lanes_(pool_lanes(g, g.batch * g.in_height)) {
    taps_floats_ = round_up(4 * g.kernel_height * g.kernel_width);
    const bool is_max = pool == Pool::kMax;
    x_floats_ = is_max && !x_.is_direct() ? round_up(x_.elements()) : 0;
    y_floats_ = is_max && !y_.is_direct() ? round_up(y_.elements()) : 0;
    dy_floats_ = dy_.is_direct() ? 0 : round_up(dy_.elements());
    dx_floats_ = dx_.is_direct() ? 0 : round_up(dx_.elements());
  }
  int lanes() const override { return lanes_; }
  int64_t scratch_bytes() const override {
    return 4 * (taps_floats_ + x_floats_ + y_floats_ + dy_floats_ + dx_floats_);
  }
  void run(const KernelCall& call, int lane) const override {
    auto* const space = reinterpret_cast<float*>(call.scratch);
    const int64_t window = g_.kernel_height * g_.kernel_width;
    auto** const taps = reinterpret_cast<const float**>(space);
    auto** const gradients = reinterpret_cast<float**>(space) + window;
    float* const x_space = space + taps_floats_;
    float* const y_space = x_space + x_floats_;
    float* const dy_space = y_space + y_floats_;
    float* const dx_space = dy_space + dy_floats_;
    const bool is_max = pool_ == Pool::kMax;
    auto operand = [&](int i) { return call.operands[i]; };
    StopMeter meter(call);
    for_rows_of_lane(g_.batch, g_.in_height, lane, lanes_, [&](int64_t image, int64_t first, int64_t last) {
      const auto [from, until] = g_.windows_touching(first, last);
      const int64_t pitch = g_.in_width * g_.channels;
      void* const dx = dx_.image(call.results[0], image);
      float* const own = dx_.is_direct() ? static_cast<float*>(dx) + first * pitch : dx_space;
      if (!assigns_) std::memset(own, 0, static_cast<size_t>((last - first) * pitch) * sizeof(float));
      Rows x_rows{}, y_rows{}, dy_rows{};
      if (is_max) {
        const auto [low, high] = g_.rows_read(from, until);
        if (!rows_of_image(x_, operand(0), image, low, high, x_space, meter, x_rows) ||
            !rows_of_image(y_, operand(1), image, from, until, y_space, meter, y_rows))
          return false;
      }
      if (!rows_of_image(dy_, operand(is_max ? 2 : 0), image, from, until, dy_space, meter, dy_rows))
        return false;
      for (int64_t row = from; row < until; ++row) {
        const bool goes_on = for_runs_of_columns(g_, [&](int64_t column, int64_t windows) {
          WindowRow run{windows, g_.channels, g_.stride_x * g_.channels, taps, gradients, 0};
          for_each_tap(g_, row, column, [&](int64_t in_row, int64_t in_column) {
            if (is_max) taps[run.count] = x_rows.pixel(in_row, in_column, g_.channels);
            const bool is_own = in_row >= first && in_row < last;
            gradients[run.count++] =
                is_own ? own + (in_row - first) * pitch + in_column * g_.channels : nullptr;
          });
          const float* const upstream = dy_rows.pixel(row, column, g_.channels);
          if (is_max)
            scatter_to_maxima(run, y_rows.pixel(row, column, g_.channels), upstream, assigns_);
          else
            spread_to_windows(run, upstream, g_.divisor_of(row, column), assigns_);
          return !meter.stops(g_.nanoseconds(windows, run.count));
        });
        if (!goes_on) return false;
      }
      return dx_.is_direct() ||
             store_rows(dx_, dx_space, g_.channels, first, last, 0, g_.channels, dx, meter);
    });
  }

 private:
  PoolGeometry g_;
  Pool pool_;
  ImageShape x_, y_, dy_, dx_;
  bool assigns_;
  int lanes_;
  int64_t taps_floats_, x_floats_, y_floats_, dy_floats_, dx_floats_;
};

bool are_images(std::initializer_list<const TensorSpec*> specs) {
  for (const TensorSpec* spec : specs)
    if (!is_image(*spec) || spec->dtype != (*specs.begin())->dtype) return false;
  return true;
}

// What a request asks for; nullopt: the kernel cannot do this. Shapes must be bounded (require_sound).
template <Pool kPool>
std::optional<PoolGeometry> plan_forward(const KernelRequest& request) {
  if (request.operands.size() != 1 || request.results.size() != 1) return std::nullopt;
  const TensorSpec &x = request.operands[0], &y = request.results[0];
  if (!are_images({&x, &y})) return std::nullopt;
  return pool_geometry(x.shape, y.shape, request);
}

template <Pool kPool>
std::optional<PoolGeometry> plan_gradient(const KernelRequest& request) {
  constexpr bool kMax = kPool == Pool::kMax;
  if (request.operands.size() != (kMax ? 3 : 1) || request.results.size() != 1) return std::nullopt;
  const TensorSpec &dx = request.results[0], &dy = request.operands[kMax ? 2 : 0];
  const TensorSpec &x = kMax ? request.operands[0] : dx, &y = kMax ? request.operands[1] : dy;
  if (!are_images({&x, &y, &dy, &dx}) || x.shape != dx.shape || y.shape != dy.shape) return std::nullopt;
  return pool_geometry(dx.shape, dy.shape, request);
}

template <Pool kPool>
std::unique_ptr<PreparedKernel> prepare_forward(const KernelRequest& request) {
  const auto g = plan_forward<kPool>(request);
  if (!g) return nullptr;
  return std::make_unique<PoolForward>(*g, kPool, request.operands[0], request.results[0]);
}

template <Pool kPool>
std::unique_ptr<PreparedKernel> prepare_gradient(const KernelRequest& request) {
  const auto g = plan_gradient<kPool>(request);
  if (!g) return nullptr;
  const TensorSpec& dx = request.results[0];
  if constexpr (kPool == Pool::kMean)
    return std::make_unique<PoolGradient>(*g, kPool, dx, request.operands[0], request.operands[0], dx);
  else
    return std::make_unique<PoolGradient>(*g, kPool, request.operands[0], request.operands[1],
                                          request.operands[2], dx);
}

template <std::optional<PoolGeometry> (*kPlan)(const KernelRequest&)>
Footprint footprint_of_pool(const KernelRequest& request) {
  require_counts(request, 1, 3, 1);
  require_sound(request);
  require(kPlan(request).has_value(), "has no pooling's shapes, strides, types or attributes");
  return footprint_of_views(request);
}

IPU_REGISTER_KERNEL("max_pool", prepare_forward<Pool::kMax>, footprint_of_pool<plan_forward<Pool::kMax>>);
IPU_REGISTER_KERNEL("max_pool_gradient", prepare_gradient<Pool::kMax>,
                    footprint_of_pool<plan_gradient<Pool::kMax>>);
IPU_REGISTER_KERNEL("avg_pool", prepare_forward<Pool::kMean>, footprint_of_pool<plan_forward<Pool::kMean>>);
IPU_REGISTER_KERNEL("avg_pool_gradient", prepare_gradient<Pool::kMean>,
                    footprint_of_pool<plan_gradient<Pool::kMean>>);

}  // namespace
}  // namespace ipu::kernels
