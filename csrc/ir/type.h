// Type of a value: element type, static logical shape, physical layout.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "support/dtype.h"
#include "support/layout.h"
#include "support/shape.h"

namespace ipu::ir {

// The layout is set by passes in the functional form only; shapes, shape rules, autodiff and names stay
// logical. `layout.convert` is the only op that changes it; elementwise ops take any layout if all operands
// agree.
struct Type {
  DType dtype = DType::kF32;
  Shape shape;
  Layout layout = Layout::kPlain;

  bool operator==(const Type&) const = default;
  int64_t elements() const { return element_count(shape); }
  int64_t bytes() const { return size_in_bytes(dtype, shape); }  // logical: without the padding of a layout
};

std::string to_string(const Type& type);  // "f32[2,3]", "i32[]", "f32[64,32]:Ab64a"

}  // namespace ipu::ir
