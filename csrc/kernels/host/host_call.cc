#include "kernels/host/host_call.h"

#include <algorithm>
#include <cstring>

#include "kernels/footprint.h"

namespace ipu::kernels {

void HostCallKernel::call(const HostFunction& function, int replica, const KernelCall& call) const {
  std::vector<HostArray> operands, results;
  for (size_t i = 0; i < operands_.size(); ++i) operands.push_back({operands_[i], call.operands[i]});
  for (size_t i = 0; i < results_.size(); ++i) results.push_back({results_[i], call.results[i]});
  function(replica, operands, results);
}

void HostCallKernel::run(const KernelCall& call, int) const {
  if (!is_identity()) return;  // the engine calls it
  for (size_t i = 0; i < results_.size(); ++i)
    if (const int64_t bytes = results_[i].stored_bytes(); bytes > 0)
      std::memmove(call.results[i], call.operands[i], static_cast<size_t>(bytes));
}

namespace {

bool is_row_major(const TensorSpec& spec) { return spec.layout == Layout::kPlain && spec.is_contiguous(); }

// Empty, or why there is no such step.
std::string problem_of(const KernelRequest& request) {
  const auto all_row_major = [](const auto& specs) {
    return std::all_of(specs.begin(), specs.end(), [](const auto& spec) { return is_row_major(spec); });
  };
  if (!all_row_major(request.operands) || !all_row_major(request.results))
    return "has operands that are not in order";
  if (text_of(request, "function", "") != kIdentityFunction) return {};
  if (request.operands.size() != request.results.size())
    return "gives another number of values than it takes";
  for (size_t i = 0; i < request.operands.size(); ++i)
    if (request.operands[i].dtype != request.results[i].dtype ||
        request.operands[i].shape != request.results[i].shape)
      return "gives values of another type than it takes";
  return {};
}

std::unique_ptr<PreparedKernel> prepare_host_call(const KernelRequest& request) {
  if (!problem_of(request).empty()) return nullptr;
  return std::make_unique<HostCallKernel>(
      text_of(request, "function", ""),
      std::vector<TensorSpec>(request.operands.begin(), request.operands.end()),
      std::vector<TensorSpec>(request.results.begin(), request.results.end()));
}

Footprint footprint_of_host_call(const KernelRequest& request) {
  require_sound(request);
  if (const std::string problem = problem_of(request); !problem.empty()) refuse(problem);
  return footprint_of_views(request);
}

IPU_REGISTER_KERNEL("host_call", prepare_host_call, footprint_of_host_call);

}  // namespace
}  // namespace ipu::kernels
