// Kernel "square_sum": squares of blocks of contiguous memory, folded and added as a tree (pairwise_stack.h).
// Any contiguous layout is one run; of panels the last panel is read row by row without its padding.
#include <algorithm>
#include <cstring>

#include "kernels/footprint.h"
#include "kernels/kernel_table.h"
#include "kernels/pointwise/block_ops.h"
#include "kernels/reduction/pairwise_stack.h"
#include "kernels/stop_meter.h"

namespace ipu::kernels {
namespace {

class SquareSum final : public PreparedKernel {
 public:
  FoldOps fold;
  BlockFunction widen = nullptr, multiply = nullptr;
  int64_t bytes = 4;                             // of an element
  int64_t run_elements = 0;                      // contiguous from the start
  int64_t rows = 0, columns = 0, row_width = 0;  // behind them: rows of which only `columns` count

  int64_t scratch_bytes() const override { return 2 * static_cast<int64_t>(kFoldBlock) * 4; }

  void run(const KernelCall& call, int) const override {
    PairwiseStack tree(fold);
    StopMeter meter(call);
    auto* registers = reinterpret_cast<uint32_t*>(call.scratch);
    const std::byte* from = call.operands[0];
    for (int64_t at = 0; at < run_elements; at += kFoldBlock) {
      if (meter.stops(kFoldBlock)) return;
      tree.push(squares(from + at * bytes, std::min<int64_t>(kFoldBlock, run_elements - at), registers));
    }
    from += run_elements * bytes;
    for (int64_t row = 0; row < rows; ++row, from += row_width * bytes) {
      if (meter.stops(row_width)) return;
      tree.push(squares(from, columns, registers));
    }
    const uint32_t sum = tree.finish();
    std::memcpy(call.results[0], &sum, 4);
  }

 private:
  uint32_t squares(const std::byte* from, int64_t count, uint32_t* registers) const {
    BlockCall call;
    call.count = static_cast<size_t>(count);
    call.a = from;
    if (bytes != 4) {
      call.result = registers + kFoldBlock;
      widen(call);
      call.a = call.result;
    }
    call.b = call.a;
    call.result = registers;
    multiply(call);
    return fold.row(registers, static_cast<size_t>(count));
  }
};

bool can_sum_squares(const TensorSpec& x, const TensorSpec& y) {
  return (x.dtype == DType::kF32 || x.dtype == DType::kF16) && y.dtype == DType::kF32 &&
         (!x.layout.is_plain() || x.is_contiguous());
}

std::unique_ptr<PreparedKernel> prepare_square_sum(const KernelRequest& request) {
  const TensorSpec &x = request.operands[0], &y = request.results[0];
  if (!can_sum_squares(x, y)) return nullptr;
  auto kernel = std::make_unique<SquareSum>();
  kernel->fold = fold_ops(FoldKind::kSumF);
  kernel->widen = block_ops().widen[static_cast<size_t>(x.dtype)];
  kernel->multiply = block_ops().compute[static_cast<size_t>(OpCode::kMulF)];
  kernel->bytes = size_in_bytes(x.dtype);
  kernel->run_elements = element_count(x.shape);
  if (x.layout.is_blocked()) {
    kernel->row_width = x.shape[1] < 64 ? 16 : 64;
    kernel->columns = x.shape[1] % kernel->row_width;
    kernel->rows = kernel->columns > 0 ? x.shape[0] : 0;
    kernel->run_elements -= kernel->rows * kernel->columns;
  }
  return kernel;
}

Footprint footprint_of_square_sum(const KernelRequest& request) {
  require_counts(request, 1, 1);
  require_sound(request);
  const TensorSpec &x = request.operands[0], &y = request.results[0];
  require(can_sum_squares(x, y), "sums squares of types or layouts it cannot");
  require(!y.layout.is_blocked() && element_count(y.shape) == 1, "has a result that is not one number");
  return footprint_of_views(request);
}

IPU_REGISTER_KERNEL("square_sum", prepare_square_sum, footprint_of_square_sum);

}  // namespace
}  // namespace ipu::kernels
