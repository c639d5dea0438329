// Kernel "host_call" (x...) {function, ...}: a function of the host in the middle of a program. Which function a
// name means is said by whoever runs the program (emulator/engine.h), so a program in a file can name functions
// but brings none. Always there is "identity": result i is operand i.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"

namespace ipu::kernels {

inline constexpr std::string_view kIdentityFunction = "identity";

// Elements in row-major order.
struct HostArray {
  const TensorSpec& spec;
  std::byte* data;
};

// Called once for each step and replica, by the thread that runs the program. Reads operands, fills results.
// What it throws ends the run with that error.
using HostFunction =
    std::function<void(int replica, std::span<const HostArray> operands, std::span<const HostArray> results)>;
using HostFunctions = std::map<std::string, HostFunction>;

class HostCallKernel final : public PreparedKernel {
 public:
  HostCallKernel(std::string function, std::vector<TensorSpec> operands, std::vector<TensorSpec> results)
      : function_(std::move(function)), operands_(std::move(operands)), results_(std::move(results)) {}

  const std::string& function() const { return function_; }
  bool is_identity() const { return function_ == kIdentityFunction; }
  void call(const HostFunction& function, int replica, const KernelCall& call) const;
  // The identity. Other functions are called by the engine; run() alone leaves results as they are.
  void run(const KernelCall& call, int lane) const override;

 private:
  std::string function_;
  std::vector<TensorSpec> operands_, results_;
};

}  // namespace ipu::kernels
