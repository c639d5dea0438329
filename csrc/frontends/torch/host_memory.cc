#include "frontends/torch/host_memory.h"

#include <cctype>
#include <sstream>

#include "support/error.h"

namespace ipu::frontends::torch_frontend {
namespace {

std::string list(at::IntArrayRef numbers) {
  std::ostringstream text;
  text << numbers;
  return text.str();
}

}  // namespace

std::string objection_to(const at::TensorBase& t) {
  if (has_host_memory(t)) return "";
  const c10::TensorImpl& impl = *t.unsafeGetTensorImpl();
  const std::string dense = "; the IPU takes dense tensors.\n  try:      ";
  if (impl.key_set().has(c10::DispatchKey::NestedTensor) || impl.layout() == c10::kJagged)
    return "is a nested tensor" + dense + "x.to_padded_tensor(0.0)";
  if (impl.key_set().has(c10::DispatchKey::Quantized)) return "is quantised" + dense + "x.dequantize()";
  if (impl.layout() == c10::kMkldnn) return "has the layout of mkldnn" + dense + "x.to_dense()";
  if (impl.layout() != c10::kStrided) {
    std::ostringstream layout;
    layout << impl.layout();
    std::string name = layout.str();
    for (char& c : name) c = static_cast<char>(std::tolower(c));
    return "is a sparse tensor (" + name + ")" + dense + "x.to_dense()";
  }
  if (impl.device().is_meta())
    return "is on meta: it has no values.\n"
           "  try:      model.to_empty(device=\"cpu\") and load_state_dict(...), or make it on the CPU";
  if (!impl.device().is_cpu()) return "is on " + impl.device().str() + ".\n  try:      x.cpu()";
  if (!impl.has_storage() || impl.has_symbolic_sizes_strides() ||
      (impl.unsafe_storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get() == nullptr &&
       impl.unsafe_storage().nbytes() > 0))
    return "has no values: it is a fake tensor, or stands for another one.\n"
           "  try:      a plain tensor of the CPU";
  return "has shape " + list(impl.sizes()) + " with strides " + list(impl.strides()) + " from element " +
         std::to_string(impl.storage_offset()) + " on, and its storage has " +
         std::to_string(impl.unsafe_storage().nbytes()) + " bytes of " + std::to_string(impl.itemsize()) +
         " for each element: somebody shrank or freed it (resize_, set_).\n"
         "  try:      a storage of the whole size, or a new tensor";
}

void refuse_memory(const at::TensorBase& t, const std::string& what) {
  throw Error(ErrorCode::kTypeMismatch, "unreadable tensor: " + what + " " + objection_to(t));
}

const std::byte* host_data(const at::TensorBase& t, const char* what) {
  require_host_memory(t, what);
  return static_cast<const std::byte*>(t.const_data_ptr());
}

std::byte* mutable_host_data(const at::TensorBase& t, const char* what) {
  require_host_memory(t, what);
  return static_cast<std::byte*>(t.mutable_data_ptr());
}

}  // namespace ipu::frontends::torch_frontend
