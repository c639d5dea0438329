// The one place that takes the address of a tensor of the host. Torch does not keep what a tensor says of itself in
// step with the memory it has: a storage can be shrunk, freed or never have been there (meta, fake tensors), and other
// layouts have none. So shape, strides and offset are compared with the storage each time.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <string>

namespace ipu::frontends::torch_frontend {

inline constexpr c10::DispatchKeySet kOtherLayouts =
    c10::DispatchKeySet(c10::DispatchKey::NestedTensor) | c10::DispatchKeySet(c10::DispatchKey::Quantized);

// Whether `t` is a plain tensor of the CPU whose elements all lie in its storage. One without elements is.
inline bool has_host_memory(const at::TensorBase& t) {
  const c10::TensorImpl& impl = *t.unsafeGetTensorImpl();
  if (!impl.device().is_cpu() || impl.key_set().has_any(kOtherLayouts) || impl.layout() != c10::kStrided ||
      !impl.has_storage() || impl.has_symbolic_sizes_strides())
    return false;
  const int64_t elements = impl.numel();
  if (elements == 0) return true;
  int64_t end = impl.storage_offset();
  if (impl.is_contiguous()) {
    end += elements;
  } else {
    for (int64_t d = 0; d < impl.dim(); ++d) end += (impl.size(d) - 1) * impl.stride(d);
    ++end;
  }
  c10::StorageImpl& storage = *impl.unsafe_storage().unsafeGetStorageImpl();
  return end * static_cast<int64_t>(impl.itemsize()) <= static_cast<int64_t>(storage.nbytes()) &&
         storage._mutable_data_ptr_no_checks().get() != nullptr;
}

// What keeps the elements of `t` from being read: "is on meta: it has no values" and how to help it; "" when nothing does.
std::string objection_to(const at::TensorBase& t);

// Error(kTypeMismatch) "unreadable tensor: `what` ..." when the elements of `t` cannot be read.
[[noreturn]] void refuse_memory(const at::TensorBase& t, const std::string& what);
inline void require_host_memory(const at::TensorBase& t, const char* what) {
  if (!has_host_memory(t)) refuse_memory(t, what);
}
inline void require_host_memory(const at::TensorBase& t, const std::string& what) {
  if (!has_host_memory(t)) refuse_memory(t, what);
}

// Address of the first element, which may be nullptr when there are none; `what` names the tensor in an error.
const std::byte* host_data(const at::TensorBase& t, const char* what = "a tensor");
std::byte* mutable_host_data(const at::TensorBase& t, const char* what = "a tensor");

}  // namespace ipu::frontends::torch_frontend
