// A tensor in the memory of the host, whoever owns it: plain and contiguous. All that the runtime knows of what
// users give and get.
#pragma once

#include <cstddef>
#include <span>

#include "support/dtype.h"
#include "support/shape.h"

namespace ipu::runtime {

struct HostView {
  DType dtype = DType::kF32;
  Shape shape;
  std::span<std::byte> bytes;
};

struct ConstHostView {
  DType dtype = DType::kF32;
  Shape shape;
  std::span<const std::byte> bytes;

  ConstHostView() = default;
  ConstHostView(DType dtype, Shape shape, std::span<const std::byte> bytes)
      : dtype(dtype), shape(std::move(shape)), bytes(bytes) {}
  ConstHostView(const HostView& view) : dtype(view.dtype), shape(view.shape), bytes(view.bytes) {}
};

}  // namespace ipu::runtime
