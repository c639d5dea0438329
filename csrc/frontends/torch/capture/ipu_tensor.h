// The tensors of device "ipu". Outside a capture one is a buffer in host memory; inside it is that, or a
// value of the graph being captured. Tensors that share memory share a Base; each view knows how it is made
// from its parent, so reads replay the chain of views and writes fold back through it (values.cc).
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/core/TensorImpl.h>

#include <memory>
#include <vector>

#include "frontends/torch/device_key.h"
#include "ir/module.h"

namespace ipu::frontends::torch_frontend {

struct OpInfo;
struct Slot;

// What all tensors over one memory share.
struct Base {
  bool on_host = true;      // the value is known on the host: Slot::host of each slot is a torch view of it
  uint64_t generation = 1;  // counts writes of graph values
  uint64_t capture = 0;     // the capture its graph value belongs to
  int state = -1, input = -1;  // index of the state or host input it is, in that capture
};

// How views are made from their parent: one call of a view op, shared by all its results. Tensor arguments
// other than the viewed one do not occur.
struct ViewStep {
  const OpInfo* op = nullptr;
  torch::jit::Stack arguments;  // the viewed argument is None here
  size_t viewed = 0;
  std::vector<ir::Type> types;  // of the results
  uint64_t generation = 0;      // of the base when `values` were made
  std::vector<ir::Value*> values;
};

// One way to look at a Base. Shared by tensors that are the same view (`.data`, detach), so a write through
// one is seen by all.
struct Slot {
  std::shared_ptr<Base> base;
  std::shared_ptr<Slot> parent;    // nullptr: the whole base
  std::shared_ptr<ViewStep> step;  // how it is made from the parent
  size_t result = 0;               // which result of the step
  at::Tensor host;                 // CPU tensor with its elements; states keep it for reading `.item()`
  ir::Value* value = nullptr;      // graph value, up to date when generation == base->generation
  uint64_t generation = 0;
};

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
  bool detached = false;  // made by `.data` or detach(): reads of it stop gradients
  // A leaf that requires a gradient reads as a value of its own, so that gradients stop there and are found.
  ir::Value *leaf_of = nullptr, *leaf = nullptr;
};

IpuTensorImpl* impl_of(
    const at::TensorBase& t);  // nullptr when t is not ours (a fake tensor on our device, a CPU tensor)

at::Tensor make_tensor(at::IntArrayRef sizes, at::IntArrayRef strides, int64_t storage_offset,
                       at::ScalarType dtype, std::shared_ptr<Slot> slot);
// An ipu tensor over host memory `cpu` (shared, not copied). A view of `parent` when it and `step` are given.
at::Tensor wrap_host(at::Tensor cpu, std::shared_ptr<Slot> parent = nullptr,
                     std::shared_ptr<ViewStep> step = nullptr, size_t result = 0);

}  // namespace ipu::frontends::torch_frontend
