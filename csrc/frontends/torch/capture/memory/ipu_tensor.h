// The tensors of device "ipu". Outside a capture one is a buffer in host memory; inside it is that, or a
// value of the graph being captured. What a tensor looks at is its slot (slot.h).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

#include <memory>

#include "frontends/torch/capture/memory/slot.h"
#include "frontends/torch/device_key.h"

namespace ipu::frontends::torch_frontend {

struct IpuTensorImpl final : c10::TensorImpl {
  IpuTensorImpl(c10::DispatchKeySet keys, at::IntArrayRef sizes, at::IntArrayRef strides,
                int64_t storage_offset, caffe2::TypeMeta dtype, std::shared_ptr<Slot> slot);

  // The storage is a null pointer of the right size (FakeTensor and export want one); saying so here would
  // make pickle and deepcopy read it.
  bool has_storage() const override { return false; }
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(const c10::VariableVersion& version,
                                                         bool allow_tensor_metadata_change) const override;
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& version,
                                                         bool allow_tensor_metadata_change) const override;
  void shallow_copy_from(const c10::intrusive_ptr<TensorImpl>& other) override;

  // Takes over shape, strides and memory of another view (in-place view ops: t_, squeeze_).
  void become(at::IntArrayRef sizes, at::IntArrayRef strides, int64_t storage_offset,
              std::shared_ptr<Slot> slot);

  std::shared_ptr<Slot> slot;
  bool detached = false;  // made by `.data` or detach(), or given other memory: reads of it stop gradients
  int state = -1;         // the parameter or buffer of the model that it stands for (states.h)
  ir::Value* history = nullptr;  // gets its gradients, where they do not follow from what its memory holds
  bool is_known_leaf = false;    // of gradients (Memory::own_leaf)
};

IpuTensorImpl* impl_of(
    const at::TensorBase& t);  // nullptr when t is not ours (a fake tensor on our device, a CPU tensor)

at::Tensor make_tensor(at::IntArrayRef sizes, at::IntArrayRef strides, int64_t storage_offset,
                       at::ScalarType dtype, std::shared_ptr<Slot> slot);
// An ipu tensor over host memory `cpu` (shared, not copied). A view of `parent` when it and `step` are given.
at::Tensor wrap_host(at::Tensor cpu, std::shared_ptr<Slot> parent = nullptr,
                     std::shared_ptr<ViewStep> step = nullptr, size_t result = 0);

}  // namespace ipu::frontends::torch_frontend
