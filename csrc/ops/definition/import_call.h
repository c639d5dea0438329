// What an importer of a captured operator sees, free of torch: arguments by name, as graph values or
// constants. frontends/torch implements it over a tape entry, tests over literals.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "ops/definition/build.h"

namespace ipu::ops {

class ImportCall {
 public:
  virtual ~ImportCall() = default;

  virtual std::string_view overload() const = 0;  // "add.Tensor"
  virtual ir::Builder& builder() = 0;             // settings, location and origin are set

  // Arguments by schema name. The typed ones throw Error(kTypeMismatch) when the argument is of another kind.
  virtual bool has(std::string_view name) = 0;  // present and not None
  virtual bool is_tensor(std::string_view name) = 0;
  virtual ir::Value* tensor(std::string_view name) = 0;
  virtual std::vector<ir::Value*> tensors(
      std::string_view name) = 0;                  // Tensor[]; nullptr for None in Tensor?[]
  virtual double real(std::string_view name) = 0;  // float, int or Scalar
  // Sizes, counts and places. The IPU, and the arithmetic of importers and kernels, has 32-bit integers:
  // Error(kTypeMismatch) beyond them.
  int64_t integer(std::string_view name);
  std::vector<int64_t> integers(std::string_view name);
  // For places torch cuts to the tensor (the end of a slice, a diagonal): the nearest 32-bit integer.
  int64_t clamped_integer(std::string_view name);
  virtual bool boolean(std::string_view name) = 0;
  virtual std::string text(std::string_view name) = 0;
  virtual std::optional<DType> dtype(std::string_view name) = 0;  // None: nullopt; i64 is i32, f64 is f32
  virtual bool is_integer_scalar(std::string_view name) = 0;      // a Scalar that is an int or bool

  // As the caller gave them.
  virtual int64_t wide_integer(std::string_view name) = 0;
  virtual std::vector<int64_t> wide_integers(std::string_view name) = 0;

  // Type torch gives result i: what the imported value must have (i64 narrowed to i32, f64 and bf16 to f32).
  virtual ir::Type result_type(int i) = 0;
  virtual int result_count() = 0;
  virtual void set_result(int i, ir::Value* value) = 0;
  // For ops that write arguments (batch_norm): the new value of the state behind tensor argument `name`.
  virtual void write(std::string_view name, ir::Value* value) = 0;

  // What random ops draw from: the seed of this pass (u32[2]), and the number of a stream of their own.
  virtual ir::Value* seed() = 0;
  virtual int64_t next_stream() = 0;

  // Shared helpers of importers.
  // The dtype torch promotes these arguments to (absent ones are skipped): for ops whose result does not show
  // it.
  DType promoted(std::initializer_list<std::string_view> names);
  ir::Value* optional_tensor(std::string_view name) { return has(name) ? tensor(name) : nullptr; }
  ir::Value* cast(ir::Value* value, DType dtype);  // no op when equal
  // A tensor or Scalar argument as a value of `dtype` (Scalar: a 0-d constant).
  ir::Value* operand(std::string_view name, DType dtype);
  ir::Value* op(std::string_view kind, std::initializer_list<ir::Value*> operands,
                Attributes attributes = {});
  [[noreturn]] void unsupported(const std::string& what);  // Error naming overload and argument
};

int64_t normalize_dim(int64_t dim, size_t rank);  // negative dims; Error(kTypeMismatch) when out of range

}  // namespace ipu::ops
