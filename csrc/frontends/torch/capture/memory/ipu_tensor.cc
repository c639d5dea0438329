// TensorImpl of device "ipu", and what torch asks of a device: guard, hooks, allocator (there is no real
// device behind it: one logical device, one stream, host memory).
#include "frontends/torch/capture/memory/ipu_tensor.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/alloc_cpu.h>

#include <cstring>

#include "frontends/torch/capture/capture.h"

namespace ipu::frontends::torch_frontend {
namespace {

c10::Storage null_storage(at::IntArrayRef sizes, at::IntArrayRef strides, int64_t offset,
                          caffe2::TypeMeta dtype) {
  int64_t last = offset;
  bool empty = false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) empty = true;
    last += (sizes[i] - 1) * strides[i];
  }
  size_t bytes = empty ? 0 : static_cast<size_t>(last + 1) * dtype.itemsize();
  return c10::Storage(c10::Storage::use_byte_size_t(), bytes, c10::DataPtr(nullptr, kDevice), nullptr, false);
}

}  // namespace

IpuTensorImpl::IpuTensorImpl(c10::DispatchKeySet keys, at::IntArrayRef sizes, at::IntArrayRef strides,
                             int64_t storage_offset, caffe2::TypeMeta dtype, std::shared_ptr<Slot> slot_)
    : TensorImpl(keys, dtype, kDevice), slot(std::move(slot_)) {
  set_sizes_and_strides(sizes, strides, storage_offset);
  storage_ = null_storage(sizes, strides, storage_offset, dtype);
}

c10::intrusive_ptr<c10::TensorImpl> IpuTensorImpl::shallow_copy_and_detach(
    const c10::VariableVersion& version, bool allow_change) const {
  auto copy =
      c10::make_intrusive<IpuTensorImpl>(key_set(), sizes(), strides(), storage_offset(), dtype(), slot);
  copy_tensor_metadata(this, copy.get(), version, allow_change);
  copy->detached = true;
  return copy;
}

c10::intrusive_ptr<c10::TensorImpl> IpuTensorImpl::shallow_copy_and_detach(c10::VariableVersion&& version,
                                                                           bool allow_change) const {
  auto copy =
      c10::make_intrusive<IpuTensorImpl>(key_set(), sizes(), strides(), storage_offset(), dtype(), slot);
  copy_tensor_metadata(this, copy.get(), std::move(version), allow_change);
  copy->detached = true;
  return copy;
}

void IpuTensorImpl::shallow_copy_from(const c10::intrusive_ptr<TensorImpl>& other) {
  if (Capture* capture = Capture::current()) capture->memory().keep_history(*this);
  TensorImpl::shallow_copy_from(other);
  if (auto* from = dynamic_cast<IpuTensorImpl*>(other.get())) slot = from->slot;
}

void IpuTensorImpl::become(at::IntArrayRef sizes, at::IntArrayRef strides, int64_t offset,
                           std::shared_ptr<Slot> new_slot) {
  set_sizes_and_strides(sizes, strides, offset);
  storage_ = null_storage(sizes, strides, offset, dtype());
  slot = std::move(new_slot);
}

IpuTensorImpl* impl_of(const at::TensorBase& t) {
  if (!is_ours(t)) return nullptr;
  return dynamic_cast<IpuTensorImpl*>(t.unsafeGetTensorImpl());
}

at::Tensor make_tensor(at::IntArrayRef sizes, at::IntArrayRef strides, int64_t storage_offset,
                       at::ScalarType dtype, std::shared_ptr<Slot> slot) {
  return at::Tensor(c10::make_intrusive<IpuTensorImpl>(c10::DispatchKeySet(kKey), sizes, strides,
                                                       storage_offset, c10::scalarTypeToTypeMeta(dtype),
                                                       std::move(slot)));
}

at::Tensor wrap_host(at::Tensor cpu, std::shared_ptr<Slot> parent, std::shared_ptr<ViewStep> step,
                     size_t result) {
  std::shared_ptr<Slot> slot;
  if (parent != nullptr) {
    slot = view_slot(std::move(parent), std::move(step), result);
  } else {
    slot = std::make_shared<Slot>();
    slot->base = std::make_shared<Base>();
    if (Capture::current() != nullptr) slot->base->capture = Capture::current_id();
  }
  at::Tensor t = make_tensor(cpu.sizes(), cpu.strides(), cpu.storage_offset(), cpu.scalar_type(), slot);
  slot->host = std::move(cpu);
  return t;
}

namespace {

c10::Stream the_stream() { return c10::Stream(c10::Stream::DEFAULT, kDevice); }

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kDeviceType; }
  c10::Device exchangeDevice(c10::Device) const override { return kDevice; }
  c10::Device getDevice() const override { return kDevice; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const override { return the_stream(); }
  c10::Stream getDefaultStream(c10::Device) const override { return the_stream(); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override { return the_stream(); }
  c10::Stream getNewStream(c10::Device, int) const override { return the_stream(); }
  c10::Stream exchangeStream(c10::Stream) const override { return the_stream(); }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeDevice(c10::DeviceIndex) const override {}
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

// Host memory that says it lies on ipu:0: torch.load(map_location="ipu") fills it, set_ adopts it.
struct HostMemory final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* data = bytes == 0 ? nullptr : c10::alloc_cpu(bytes);
    return {data, data, &release, kDevice};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
  static void release(void* data) { c10::free_cpu(data); }
};
HostMemory host_memory;
const bool allocator_registered = [] {
  c10::SetAllocator(kDeviceType, &host_memory);
  return true;
}();

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  void setCurrentDevice(c10::DeviceIndex) const override {}
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override { return 0; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }
  bool isPinnedPtr(const void*) const override { return false; }
  c10::Allocator* getPinnedMemoryAllocator() const override { return c10::GetCPUAllocator(); }
  at::Device getDeviceFromPtr(void*) const override { return kDevice; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    static const at::Generator generator = at::detail::createCPUGenerator();
    return generator;
  }
  at::Generator getNewGenerator(c10::DeviceIndex) const override { return at::detail::createCPUGenerator(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    c10::DataPtr grown = host_memory.allocate(bytes);
    size_t kept = std::min(bytes, storage.nbytes());
    if (kept > 0 && storage.data() != nullptr) std::memcpy(grown.get(), storage.data(), kept);
    storage.set_data_ptr_noswap(std::move(grown));
    storage.set_nbytes(bytes);
  }
};
const bool hooks_registered = [] {
  static Hooks hooks;
  at::RegisterPrivateUse1HooksInterface(&hooks);
  return true;
}();

}  // namespace
}  // namespace ipu::frontends::torch_frontend
