// Kernels of the random ops: lanes cut the result at fixed elements, and the position of an element is all
// its value depends on (random_fill.h). f16 results are made in f32 and rounded block by block.
#include <algorithm>
#include <cstring>

#include "kernels/kernel_table.h"
#include "kernels/pointwise/block_ops.h"
#include "kernels/pointwise/iteration.h"
#include "kernels/random/random_fill.h"

namespace ipu::kernels {
namespace {

constexpr int64_t kBlock = 2048;  // elements: what is in flight stays in the first cache

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
    for (int64_t i = range.first; i < range.last; i += kBlock) {
      const int64_t n = std::min(kBlock, range.last - i);
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
    if (range.first < range.last)
      random_fill().bits(random_stream(call.operands[0], stream_), range.first, range.last - range.first,
                         reinterpret_cast<uint32_t*>(call.results[0]) + range.first);
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
    for (int64_t i = range.first; i < range.last; i += kBlock) {
      const int64_t n = std::min(kBlock, range.last - i);
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
    fill_permutation(random_stream(call.operands[0], stream_), count_,
                     reinterpret_cast<int32_t*>(call.results[0]));
  }

 private:
  int64_t count_, stream_;
};

bool is_seed(const TensorSpec& spec) {
  return spec.dtype == DType::kU32 && spec.shape == Shape{2} && spec.is_contiguous();
}

template <typename Kernel>
std::unique_ptr<PreparedKernel> prepare_floats(const KernelRequest& request) {
  const TensorSpec& y = request.results[0];
  if (!is_seed(request.operands[0]) || !y.is_contiguous() || (y.dtype != DType::kF32 && !is_half(y.dtype)))
    return nullptr;
  return std::make_unique<Kernel>(request);
}

template <typename Kernel, DType kType>
std::unique_ptr<PreparedKernel> prepare_integers(const KernelRequest& request) {
  const TensorSpec& y = request.results[0];
  if (!is_seed(request.operands[0]) || !y.is_contiguous() || y.dtype != kType) return nullptr;
  return std::make_unique<Kernel>(request);
}

std::unique_ptr<PreparedKernel> prepare_dropout(const KernelRequest& request) {
  const TensorSpec &x = request.operands[0], &y = request.results[0];
  if (!is_seed(request.operands[1]) || !x.is_contiguous() || !y.is_contiguous() || x.dtype != y.dtype ||
      (y.dtype != DType::kF32 && !is_half(y.dtype)))
    return nullptr;
  return std::make_unique<Dropout>(request);
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

constexpr auto prepare_bits = prepare_integers<Bits, DType::kU32>;
constexpr auto prepare_permutation = prepare_integers<Permutation, DType::kI32>;
IPU_REGISTER_KERNEL("random_bits", prepare_bits);
IPU_REGISTER_KERNEL("random_uniform", prepare_floats<Uniform>);
IPU_REGISTER_KERNEL("random_normal", prepare_floats<Normal>);
IPU_REGISTER_KERNEL("random_permutation", prepare_permutation);
IPU_REGISTER_KERNEL("random_seed", prepare_seed);
IPU_REGISTER_KERNEL("dropout", prepare_dropout);

}  // namespace
}  // namespace ipu::kernels
