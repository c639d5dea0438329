// Kernel "identity_loss" (x) {reduction}: the sum, the mean or x itself. It is the reduction over all dimensions or a
// copy, and runs those kernels.
#include <numeric>
#include <string>

#include "kernels/kernel_table.h"
#include "kernels/loss/loss_reduction.h"

namespace ipu::kernels {
namespace {

std::unique_ptr<PreparedKernel> prepare_identity_loss(const KernelRequest& request) {
  const std::optional<LossReduction> reduction = loss_reduction(request.attributes.text("reduction", "mean"));
  if (!reduction) return nullptr;
  if (*reduction == LossReduction::kNone) return find_kernel("copy")->prepare({request.operands, request.results, {}});
  std::vector<int64_t> dims(request.operands[0].shape.size());
  std::iota(dims.begin(), dims.end(), 0);
  const Attributes attributes{{"dims", dims}, {"keep_dims", false}};
  const char* id = *reduction == LossReduction::kMean ? "reduce_mean" : "reduce_sum";
  return find_kernel(id)->prepare({request.operands, request.results, attributes});
}

IPU_REGISTER_KERNEL("identity_loss", prepare_identity_loss);

}  // namespace
}  // namespace ipu::kernels
