// Kernels of operations from users' libraries (include/ipu/custom_op.h): one kernel id, "custom", whose
// attribute `op` names the operation. Not here: loading libraries and what the compiler knows of an operation
// (ops/custom).
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "include/ipu/custom_op.h"
#include "support/attributes.h"
#include "support/tensor_spec.h"

namespace ipu::kernels {

// Must happen before a program that uses it is prepared. The table stays where it is.
void register_custom_kernel(const std::string& name, const ipu_custom_op* op);
const ipu_custom_op* find_custom_kernel(const std::string& name);  // nullptr when unknown

// The C form of one use: types, and the value of each attribute in the order of the table. Views of
// `attributes` stay valid as long as that and this object do.
class CustomCall {
 public:
  // `operands` nullptr entries are absent. Throws Error(kTypeMismatch) for an attribute of another kind, or a
  // rank above IPU_MAX_RANK.
  CustomCall(const ipu_custom_op& op, const std::vector<const TensorSpec*>& operands,
             const Attributes& attributes);
  CustomCall(const CustomCall&) = delete;
  const ipu_call* get() const { return &call_; }

 private:
  std::vector<ipu_type> types_;
  std::vector<ipu_value> values_;
  ipu_call call_{};
};

// Error(kExecution): code of the operation's library, its `part`, threw; `what` is what it says.
[[noreturn]] void refuse_thrown(const ipu_custom_op& op, std::string_view part, const char* what);

// The way into the code of a library: what it throws becomes an Error.
template <typename Work>
auto in_library(const ipu_custom_op& op, std::string_view part, Work work) {
  try {
    return work();
  } catch (const std::exception& error) {
    refuse_thrown(op, part, error.what());
  } catch (...) {
    refuse_thrown(op, part, nullptr);
  }
}

// At least 1. Error(kTypeMismatch) above 65535.
int custom_lanes(const ipu_custom_op& op, const ipu_call* call);

ipu_type custom_type(DType dtype, const Shape& shape);
Attribute attribute_of(const ipu_value& value);  // a default of the table

}  // namespace ipu::kernels
