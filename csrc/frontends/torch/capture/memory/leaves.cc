#include "frontends/torch/capture/memory/leaves.h"

#include "ops/definition/build.h"

namespace ipu::frontends::torch_frontend {

ir::Value* Leaves::read(const at::Tensor& t, IpuTensorImpl& impl, ir::Value* value) {
  if (impl.leaf_of == nullptr) tensors_.push_back(t);
  if (impl.slot->base->state >= 0 && impl.slot->parent == nullptr && !impl.detached) {
    impl.leaf_of = impl.leaf = value;
  } else if (impl.leaf_of != value) {
    impl.leaf_of = value;
    impl.leaf = ops::build(builder_, impl.detached ? "detach" : "nop", {value});
  }
  return impl.leaf;
}

}  // namespace ipu::frontends::torch_frontend
