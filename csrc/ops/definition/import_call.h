// What every importer sees of an operator of a front end: its attributes by name, a builder, its results. How
// operands are asked for differs: by the names of a schema (aten_import_call.h), by position
// (node_import_call.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ops/definition/build.h"

namespace ipu::ops {

class ImportCall {
 public:
  virtual ~ImportCall() = default;

  virtual std::string described() const = 0;  // as errors call it: "aten::add.Tensor"
  virtual ir::Builder& builder() = 0;         // settings, location and origin are set

  // Attributes by name. The typed ones throw Error(kTypeMismatch) when one is of another kind.
  virtual bool has(std::string_view name) = 0;     // present and not None
  virtual double real(std::string_view name) = 0;  // a float or an integer
  // Sizes, counts and places. The IPU, and the arithmetic of importers and kernels, has 32-bit integers:
  // Error(kTypeMismatch) beyond them.
  int64_t integer(std::string_view name);
  std::vector<int64_t> integers(std::string_view name);
  virtual bool boolean(std::string_view name) = 0;
  virtual std::string text(std::string_view name) = 0;
  // As the caller gave them.
  virtual int64_t wide_integer(std::string_view name) = 0;
  virtual std::vector<int64_t> wide_integers(std::string_view name) = 0;

  virtual int result_count() = 0;
  virtual void set_result(int i, ir::Value* value) = 0;

  // What random ops draw from: the seed of this pass (u32[2]), and the number of a stream of their own.
  virtual ir::Value* seed() = 0;
  virtual int64_t next_stream() = 0;

  // Shared helpers of importers.
  ir::Value* cast(ir::Value* value, DType dtype);  // no op when equal
  ir::Value* op(std::string_view kind, std::initializer_list<ir::Value*> operands,
                Attributes attributes = {});
  [[noreturn]] void unsupported(const std::string& what);  // Error(kUnsupportedOps) naming the operator

 protected:
  // Error(kTypeMismatch) when an integer does not fit 32 bits; `name` is what the message calls it.
  void check_width(std::string_view name, int64_t value) const;
};

int64_t normalize_dim(int64_t dim, size_t rank);  // negative dims; Error(kTypeMismatch) when out of range

}  // namespace ipu::ops
