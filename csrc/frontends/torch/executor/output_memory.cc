#include "frontends/torch/executor/output_memory.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/StorageImpl.h>

#include <mutex>
#include <utility>

#include "support/huge_pages.h"

namespace ipu::frontends::torch_frontend {
namespace {

constexpr int64_t kLargeBytes = 1 << 20;  // smaller blocks stay with the allocator anyway

}  // namespace

// At most one block: a caller that keeps many outputs and drops them together does not leave them all here.
struct OutputMemory::Spare {
  std::mutex mutex;
  c10::DataPtr block;
  size_t bytes = 0;

  c10::DataPtr take(size_t wanted) {
    std::lock_guard lock(mutex);
    c10::DataPtr taken;
    if (bytes == wanted) std::swap(taken, block);
    bytes = block ? bytes : 0;
    return taken;
  }
  void leave(c10::DataPtr used, size_t size) {
    std::lock_guard lock(mutex);
    if (block) return;  // `used` is freed
    block = std::move(used);
    bytes = size;
  }
};

namespace {

struct Lease {
  std::shared_ptr<OutputMemory::Spare> spare;
  c10::DataPtr block;
  size_t bytes;
};

void end_lease(void* context) {
  const std::unique_ptr<Lease> lease(static_cast<Lease*>(context));
  lease->spare->leave(std::move(lease->block), lease->bytes);
}

}  // namespace

at::Tensor OutputMemory::tensor(at::IntArrayRef shape, at::ScalarType dtype) {
  const size_t bytes = at::detail::computeStorageNbytesContiguous(shape, c10::elementSize(dtype));
  if (static_cast<int64_t>(bytes) < kLargeBytes) return at::detail::empty_cpu(shape, dtype);
  if (spare_ == nullptr) spare_ = std::make_shared<Spare>();
  c10::DataPtr block = spare_->take(bytes);
  if (!block) {
    block = c10::GetCPUAllocator()->allocate(bytes);
    ask_for_huge_pages(block.get(), static_cast<int64_t>(bytes));
  }
  void* const data = block.get();
  const c10::Device device = block.device();
  c10::DataPtr leased(data, new Lease{spare_, std::move(block), bytes}, end_lease, device);
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                       std::move(leased), c10::GetCPUAllocator(), true);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(shape);
  return tensor;
}

}  // namespace ipu::frontends::torch_frontend
