// Kernels of the random ops: lanes cut the result at fixed elements, and the position of an element is all
// its value depends on (random_fill.h). f16 results are made in f32 and rounded block by block.
#include <algorithm>
#include <cstring>

#include "kernels/footprint.h"
#include "kernels/kernel_table.h"
#include "kernels/pointwise/block_ops.h"
#include "kernels/pointwise/iteration.h"
#include "kernels/random/random_fill.h"
#include "kernels/stop_meter.h"

namespace ipu::kernels {
namespace {

constexpr int64_t kBlock = 2048;  // elements: what is in flight stays in the first cache
constexpr int64_t kCost = 4;      // of an element, for the stop meter
static_assert(StopMeter::kPiece / kCost % 4 == 0, "pieces begin at whole counters");

// Elements [first, last) of a lane; cuts are at multiples of a block.
struct Range {
  int64_t first, last;
};
Range range_of(int64_t count, int lane, int lanes) {
  const int64_t blocks = (count + kBlock - 1) / kBlock;
  return {blocks * lane / lanes * kBlock, std::min(blocks * (lane + 1) / lanes * kBlock, count)};
}

int lanes_for(int64_t count) {
  return static_cast<int>(
      std::max<int64_t>(1, std::min<int64_t>(lanes_for_elements(count), (count + kBlock - 1) / kBlock)));
}

bool is_half(DType dtype) { return dtype == DType::kF16; }
void convert(BlockFunction function, int64_t count, void* to, const void* from) {
  BlockCall call;
  call.count = static_cast<size_t>(count);
  call.result = to;
  call.a = from;
  function(call);
}
void narrow(const float* from, int64_t count, std::byte* to) {
  convert(block_ops().narrow[static_cast<size_t>(DType::kF16)], count, to, from);
}
void widen(const std::byte* from, int64_t count, float* to) {
  convert(block_ops().widen[static_cast<size_t>(DType::kF16)], count, to, from);
}

// One that makes elements of a given shape out of a seed.
class FillKernel : public PreparedKernel {
 public:
  FillKernel(const KernelRequest& request)
      : count_(element_count(request.results[0].shape)),
        is_half_(is_half(request.results[0].dtype)),
        stream_(request.attributes.integer("stream_id", 0)),
        lanes_(lanes_for(count_)) {}
  int lanes() const override { return lanes_; }
  int64_t scratch_bytes() const override { return is_half_ ? kBlock * 4 : 0; }

 protected:
  template <typename Fill>
  void fill_floats(const KernelCall& call, int lane, Fill fill) const {
    const RandomStream stream = random_stream(call.operands[0], stream_);
    const Range range = range_of(count_, lane, lanes_);
    StopMeter meter(call);
    for (int64_t i = range.first; i < range.last; i += kBlock) {
      const int64_t n = std::min(kBlock, range.last - i);
      if (meter.stops(n * kCost)) return;
      float* block =
          is_half_ ? reinterpret_cast<float*>(call.scratch) : reinterpret_cast<float*>(call.results[0]) + i;
      fill(stream, i, n, block);
      if (is_half_) narrow(block, n, call.results[0] + i * 2);
    }
  }

  int64_t count_;
  bool is_half_;
  int64_t stream_;
  int lanes_;
};

class Bits final : public FillKernel {
 public:
  using FillKernel::FillKernel;
  void run(const KernelCall& call, int lane) const override {
    const Range range = range_of(count_, lane, lanes_);
    const RandomStream stream = random_stream(call.operands[0], stream_);
    StopMeter meter(call);
    in_pieces(meter, range.last - range.first, kCost, [&](int64_t at, int64_t n) {
      random_fill().bits(stream, range.first + at, n,
                         reinterpret_cast<uint32_t*>(call.results[0]) + range.first + at);
    });
  }
};

class Uniform final : public FillKernel {
 public:
  explicit Uniform(const KernelRequest& request)
      : FillKernel(request),
        low_(static_cast<float>(request.attributes.real("low", 0.0))),
        high_(static_cast<float>(request.attributes.real("high", 1.0))) {}
  void run(const KernelCall& call, int lane) const override {
    fill_floats(call, lane, [&](const RandomStream& stream, int64_t first, int64_t n, float* out) {
      random_fill().uniform(stream, first, n, low_, high_, is_half_ ? 11 : 24, out);
    });
  }

 private:
  float low_, high_;
};

class Normal final : public FillKernel {
 public:
  explicit Normal(const KernelRequest& request)
      : FillKernel(request),
        mean_(static_cast<float>(request.attributes.real("mean", 0.0))),
        std_(static_cast<float>(request.attributes.real("std", 1.0))) {}
  void run(const KernelCall& call, int lane) const override {
    fill_floats(call, lane, [&](const RandomStream& stream, int64_t first, int64_t n, float* out) {
      random_fill().normal(stream, first, n, mean_, std_, out);
    });
  }

 private:
  float mean_, std_;
};

class Dropout final : public PreparedKernel {
 public:
  explicit Dropout(const KernelRequest& request)
      : count_(element_count(request.results[0].shape)),
        is_half_(is_half(request.results[0].dtype)),
        p_(request.attributes.real("p")),
        stream_(request.attributes.integer("stream_id", 0)),
        lanes_(lanes_for(count_)) {}
  int lanes() const override { return lanes_; }
  int64_t scratch_bytes() const override { return is_half_ ? kBlock * 4 : 0; }
  void run(const KernelCall& call, int lane) const override {
    const RandomStream stream = random_stream(call.operands[1], stream_);
    const Range range = range_of(count_, lane, lanes_);
    StopMeter meter(call);
    for (int64_t i = range.first; i < range.last; i += kBlock) {
      const int64_t n = std::min(kBlock, range.last - i);
      if (meter.stops(n * kCost)) return;
      if (!is_half_) {
        random_fill().dropout(stream, i, n, p_, reinterpret_cast<const float*>(call.operands[0]) + i,
                              reinterpret_cast<float*>(call.results[0]) + i);
        continue;
      }
      auto* block = reinterpret_cast<float*>(call.scratch);
      widen(call.operands[0] + i * 2, n, block);
      random_fill().dropout(stream, i, n, p_, block, block);
      narrow(block, n, call.results[0] + i * 2);
    }
  }

 private:
  int64_t count_;
  bool is_half_;
  double p_;
  int64_t stream_;
  int lanes_;
};

class Permutation final : public PreparedKernel {
 public:
  explicit Permutation(const KernelRequest& request)
      : count_(element_count(request.results[0].shape)),
        stream_(request.attributes.integer("stream_id", 0)) {}
  void run(const KernelCall& call, int) const override {
    const RandomStream stream = random_stream(call.operands[0], stream_);
    StopMeter meter(call);
    in_pieces(meter, count_, kCost, [&](int64_t at, int64_t n) {
      extend_permutation(stream, at, at + n, reinterpret_cast<int32_t*>(call.results[0]));
    });
  }

 private:
  int64_t count_, stream_;
};

bool is_seed(const TensorSpec& spec) {
  return spec.dtype == DType::kU32 && spec.shape == Shape{2} && spec.is_contiguous();
}

bool is_filled_with_floats(const TensorSpec& y) {
  return y.is_contiguous() && (y.dtype == DType::kF32 || is_half(y.dtype));
}

template <typename Kernel>
std::unique_ptr<PreparedKernel> prepare_floats(const KernelRequest& request) {
  if (!is_seed(request.operands[0]) || !is_filled_with_floats(request.results[0])) return nullptr;
  return std::make_unique<Kernel>(request);
}

void require_seed(const TensorSpec& spec) { require(is_seed(spec), "has a seed that is not two words"); }

Footprint footprint_of_floats(const KernelRequest& request) {
  require_counts(request, 1, 1);
  require_sound(request);
  require_seed(request.operands[0]);
  require(is_filled_with_floats(request.results[0]), "fills a type or layout it cannot");
  integer_of(request, "stream_id", 0);
  for (const char* name : {"low", "high", "mean", "std"}) real_of(request, name, 0.0);
  return footprint_of_views(request);
}

template <DType kType>
Footprint footprint_of_integers(const KernelRequest& request) {
  require_counts(request, 1, 1);
  require_sound(request);
  require_seed(request.operands[0]);
  const TensorSpec& y = request.results[0];
  require(y.is_contiguous() && y.dtype == kType, "fills a type or layout it cannot");
  require(kType != DType::kI32 || element_count(y.shape) <= INT32_MAX, "orders too many elements");
  integer_of(request, "stream_id", 0);
  return footprint_of_views(request);
}

template <typename Kernel, DType kType>
std::unique_ptr<PreparedKernel> prepare_integers(const KernelRequest& request) {
  const TensorSpec& y = request.results[0];
  if (!is_seed(request.operands[0]) || !y.is_contiguous() || y.dtype != kType) return nullptr;
  return std::make_unique<Kernel>(request);
}

bool can_drop(const TensorSpec& x, const TensorSpec& y) {
  return x.is_contiguous() && is_filled_with_floats(y) && x.dtype == y.dtype;
}

std::unique_ptr<PreparedKernel> prepare_dropout(const KernelRequest& request) {
  if (!is_seed(request.operands[1]) || !can_drop(request.operands[0], request.results[0])) return nullptr;
  return std::make_unique<Dropout>(request);
}

Footprint footprint_of_dropout(const KernelRequest& request) {
  require_counts(request, 2, 1);
  require_sound(request);
  const TensorSpec &x = request.operands[0], &y = request.results[0];
  require_seed(request.operands[1]);
  require(can_drop(x, y), "drops elements of types or layouts that do not fit");
  require(element_count(x.shape) == element_count(y.shape), "has a result of another size than its operand");
  require(request.attributes.has("p"), "has no attribute 'p'");
  const double p = real_of(request, "p", 0.0);
  require(p >= 0.0 && p <= 1.0, "drops with a probability outside [0, 1]");
  integer_of(request, "stream_id", 0);
  return footprint_of_views(request);
}

class Seed final : public PreparedKernel {
 public:
  void run(const KernelCall& call, int) const override {
    int32_t counter;
    std::memcpy(&counter, call.operands[1], sizeof counter);
    const PhiloxKey seed = derive_seed(random_stream(call.operands[0], 0).seed, counter);
    std::memcpy(call.results[0], seed.data(), sizeof seed);
  }
};

std::unique_ptr<PreparedKernel> prepare_seed(const KernelRequest& request) {
  const TensorSpec& counter = request.operands[1];
  if (!is_seed(request.operands[0]) || counter.dtype != DType::kI32 || element_count(counter.shape) != 1)
    return nullptr;
  return std::make_unique<Seed>();
}

Footprint footprint_of_seed(const KernelRequest& request) {
  require_counts(request, 2, 1);
  require_sound(request);
  const TensorSpec& counter = request.operands[1];
  require_seed(request.operands[0]);
  require_seed(request.results[0]);
  require(counter.dtype == DType::kI32 && counter.layout.is_plain() && element_count(counter.shape) == 1,
          "has a counter that is not one number");
  return footprint_of_views(request);
}

constexpr auto prepare_bits = prepare_integers<Bits, DType::kU32>;
constexpr auto prepare_permutation = prepare_integers<Permutation, DType::kI32>;
IPU_REGISTER_KERNEL("random_bits", prepare_bits, footprint_of_integers<DType::kU32>);
IPU_REGISTER_KERNEL("random_uniform", prepare_floats<Uniform>, footprint_of_floats);
IPU_REGISTER_KERNEL("random_normal", prepare_floats<Normal>, footprint_of_floats);
IPU_REGISTER_KERNEL("random_permutation", prepare_permutation, footprint_of_integers<DType::kI32>);
IPU_REGISTER_KERNEL("random_seed", prepare_seed, footprint_of_seed);
IPU_REGISTER_KERNEL("dropout", prepare_dropout, footprint_of_dropout);

}  // namespace
}  // namespace ipu::kernels
