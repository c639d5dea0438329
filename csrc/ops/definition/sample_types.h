// Short names of the types that samples of ops are made of.
#pragma once

#include <utility>

#include "ir/type.h"

namespace ipu::ops {

inline ir::Type f32(Shape shape) { return {DType::kF32, std::move(shape)}; }
inline ir::Type f16(Shape shape) { return {DType::kF16, std::move(shape)}; }
inline ir::Type i32(Shape shape) { return {DType::kI32, std::move(shape)}; }
inline ir::Type boolean(Shape shape) { return {DType::kBool, std::move(shape)}; }

}  // namespace ipu::ops
