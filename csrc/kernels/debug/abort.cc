// abort: copies its operand, and ends the run when an element of it is not zero. The only kernel that throws: a wrong
// value is what it is there to report, in one lane that no other waits for.
#include "kernels/debug/abort.h"

#include <fmt/core.h>

#include <cstring>

#include "kernels/footprint.h"
#include "kernels/kernel_table.h"
#include "support/error.h"

namespace ipu::kernels {

void raise_abort(int64_t element) {
  throw Error(
      ErrorCode::kExecution,
      fmt::format("program aborted: an abort of the model was reached, and element {} of its operand is not "
                  "zero.",
                  element),
      kRuntimeError);
}

namespace {

class Abort final : public PreparedKernel {
 public:
  explicit Abort(TensorSpec spec) : spec_(std::move(spec)) {}

  void run(const KernelCall& call, int) const override {
    const int64_t size = size_in_bytes(spec_.dtype), count = element_count(spec_.shape);
    for (int64_t i = 0; i < count; ++i)
      if (!is_zero(call.operands[0] + i * size)) raise_abort(i);
    if (call.results[0] != call.operands[0])
      std::memmove(call.results[0], call.operands[0], static_cast<size_t>(spec_.stored_bytes()));
  }

 private:
  // -0.0 is zero: of a float the sign does not count.
  bool is_zero(const std::byte* at) const {
    const int64_t size = size_in_bytes(spec_.dtype);
    for (int64_t b = 0; b < size; ++b) {
      std::byte value = at[b];
      if (b == size - 1 && is_floating_point(spec_.dtype)) value &= std::byte{0x7f};
      if (value != std::byte{0}) return false;
    }
    return true;
  }

  TensorSpec spec_;
};

bool is_plain_copy(const KernelRequest& request) {
  if (request.operands.size() != 1 || request.results.size() != 1) return false;
  const TensorSpec &x = request.operands[0], &y = request.results[0];
  return x.is_contiguous() && y.is_contiguous() && x.dtype == y.dtype && x.shape == y.shape;
}

std::unique_ptr<PreparedKernel> prepare_abort(const KernelRequest& request) {
  if (!is_plain_copy(request)) return nullptr;
  return std::make_unique<Abort>(request.operands[0]);
}

Footprint footprint_of_abort(const KernelRequest& request) {
  require_counts(request, 1, 1);
  require_sound(request);
  require(is_plain_copy(request), "does not give what it takes, in order");
  return footprint_of_views(request);
}

IPU_REGISTER_KERNEL("abort", prepare_abort, footprint_of_abort);

}  // namespace
}  // namespace ipu::kernels
