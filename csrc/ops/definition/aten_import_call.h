// What an importer of a torch operator sees, free of torch: operands and attributes alike are arguments by the
// name the schema gives them, and torch says the types of the results and how operands promote.
// frontends/torch implements it over a captured call, tests over literals.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/definition/import_call.h"

namespace ipu::ops {

class AtenImportCall : public ImportCall {
 public:
  virtual std::string_view overload() const = 0;  // "add.Tensor"
  std::string described() const override { return "aten::" + std::string(overload()); }

  virtual bool is_tensor(std::string_view name) = 0;
  virtual ir::Value* tensor(std::string_view name) = 0;
  virtual std::vector<ir::Value*> tensors(
      std::string_view name) = 0;                                 // Tensor[]; nullptr for None in Tensor?[]
  virtual std::optional<DType> dtype(std::string_view name) = 0;  // None: nullopt; i64 is i32, f64 is f32
  virtual bool is_integer_scalar(std::string_view name) = 0;      // a Scalar that is an int or bool
  // For places torch cuts to the tensor (the end of a slice, a diagonal): the nearest 32-bit integer.
  int64_t clamped_integer(std::string_view name);

  // Type torch gives result i: what the imported value must have (i64 narrowed to i32, f64 and bf16 to f32).
  virtual ir::Type result_type(int i) = 0;
  // For ops that write arguments (batch_norm): the new value of the state behind tensor argument `name`.
  virtual void write(std::string_view name, ir::Value* value) = 0;

  // Shared helpers of importers.
  // The dtype torch promotes these arguments to (absent ones are skipped): for ops whose result does not show
  // it.
  DType promoted(std::initializer_list<std::string_view> names);
  ir::Value* optional_tensor(std::string_view name) { return has(name) ? tensor(name) : nullptr; }
  // A tensor or Scalar argument as a value of `dtype` (Scalar: a 0-d constant).
  ir::Value* operand(std::string_view name, DType dtype);
};

}  // namespace ipu::ops
