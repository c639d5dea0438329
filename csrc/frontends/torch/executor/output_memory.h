// Memory of one output of a program from call to call. A large tensor that the caller has dropped leaves its memory to the
// next one: pages that are new to the process must be zeroed by the system first, which takes as long as writing the output.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

namespace ipu::frontends::torch_frontend {

class OutputMemory {
 public:
  // A contiguous tensor on the CPU with any values in it, as torch.empty gives one.
  at::Tensor tensor(at::IntArrayRef shape, at::ScalarType dtype);

  // The block that waits for the next tensor. Tensors in use share it, so that they can outlive the program.
  struct Spare;

 private:
  std::shared_ptr<Spare> spare_;  // made with the first large tensor
};

}  // namespace ipu::frontends::torch_frontend
