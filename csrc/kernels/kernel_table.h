// The table of kernels: plain numeric functions on typed strided views, found by id.
// A kernel is *prepared* once per step (attributes and shapes known) and then *run* any number of times; run never
// allocates, never throws and touches only the memory it is given. Kernels register themselves in static objects.
// Not here: which op uses which kernel (ops), where the memory comes from (lowering), who calls it (emulator).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "support/attributes.h"
#include "support/dtype.h"
#include "support/layout.h"
#include "support/tensor_spec.h"
#include "support/shape.h"

namespace ipu::kernels {

struct KernelRequest {
  std::span<const TensorSpec> operands;
  std::span<const TensorSpec> results;
  const Attributes& attributes;
};

struct KernelCall {
  std::byte* const* operands;  // one pointer per operand
  std::byte* const* results;   // one pointer per result
  std::byte* scratch;          // scratch_bytes() bytes, 64-byte aligned, private to this lane
};

// A kernel bound to shapes and attributes. Immutable: any number of threads may run lanes of it at once.
// The lanes cut the *results* into disjoint parts that depend on shapes only, so bits never depend on threads.
class PreparedKernel {
 public:
  virtual ~PreparedKernel() = default;
  virtual int lanes() const { return 1; }
  virtual int64_t scratch_bytes() const { return 0; }  // per lane
  virtual void run(const KernelCall& call, int lane) const = 0;
};

struct KernelDef {
  std::string_view id;  // "matmul", "pointwise", "conv2d.weight_gradient"; named by op definitions
  // nullptr: this kernel cannot do these dtypes, strides or layouts (the caller tries the next id or materialises).
  std::unique_ptr<PreparedKernel> (*prepare)(const KernelRequest& request);
};

void register_kernel(const KernelDef& def);       // called by static registrations; a second one of the same id is a bug
const KernelDef* find_kernel(std::string_view id);  // nullptr when unknown
std::vector<std::string_view> kernel_ids();         // sorted

struct KernelRegistration {
  explicit KernelRegistration(const KernelDef& def) { register_kernel(def); }
};

}  // namespace ipu::kernels

#define IPU_KERNEL_CONCAT_(a, b) a##b
#define IPU_KERNEL_CONCAT(a, b) IPU_KERNEL_CONCAT_(a, b)
// IPU_REGISTER_KERNEL("matmul", prepare_matmul);
#define IPU_REGISTER_KERNEL(id, prepare) \
  static const ::ipu::kernels::KernelRegistration IPU_KERNEL_CONCAT(kernel_registration_, __COUNTER__)({id, prepare})
