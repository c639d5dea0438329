// A step as a program from a file states it: kernel, specs, attributes.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "kernels/footprint.h"

namespace ipu::kernels::kernel_tests {

// Specs of f32 tensors and of indices.
inline TensorSpec plain(Shape shape) { return TensorSpec::plain(DType::kF32, std::move(shape)); }
inline TensorSpec indices(Shape shape) { return TensorSpec::plain(DType::kI32, std::move(shape)); }
inline TensorSpec with_layout(Shape shape, Layout layout) {
  Strides strides = contiguous_strides(shape);
  return {DType::kF32, std::move(shape), std::move(strides), layout};
}

struct KernelStep {
  std::string id;
  std::vector<TensorSpec> operands, results;
  Attributes attributes;
  uint64_t absent = 0;  // bit i: operand i is left out

  KernelRequest request() const { return {operands, results, attributes, absent}; }
};

inline std::string to_string(const Attribute& attribute) {
  std::ostringstream out;
  auto list = [&](const auto& values) {
    out << "{";
    for (const auto& value : values) out << value << ",";
    out << "}";
  };
  if (const auto* b = std::get_if<bool>(&attribute)) out << (*b ? "true" : "false");
  if (const auto* i = std::get_if<int64_t>(&attribute)) out << *i;
  if (const auto* d = std::get_if<double>(&attribute)) out << *d << "f";
  if (const auto* s = std::get_if<std::string>(&attribute)) out << *s;
  if (const auto* l = std::get_if<std::vector<int64_t>>(&attribute)) list(*l);
  if (const auto* l = std::get_if<std::vector<double>>(&attribute)) list(*l);
  return out.str();
}

inline std::string to_string(const KernelStep& step) {
  std::ostringstream out;
  out << step.id;
  for (const auto* specs : {&step.operands, &step.results}) {
    out << (specs == &step.operands ? " (" : " -> (");
    for (const TensorSpec& spec : *specs)
      out << " " << to_string(spec.dtype) << ipu::to_string(spec.shape) << ":" << ipu::to_string(spec.strides)
          << to_string(spec.layout);
    out << " )";
  }
  for (const auto& [name, value] : step.attributes) out << " " << name << "=" << to_string(value);
  return out.str();
}

}  // namespace ipu::kernels::kernel_tests
