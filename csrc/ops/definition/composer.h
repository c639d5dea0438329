// What a decompose rule sees: the compound, and a builder that stands before it with its settings, location
// and origin, so that all parts have them.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "ops/definition/build.h"

namespace ipu::ops {

class Composer {
 public:
  explicit Composer(ir::Op& op);

  const ir::Op& compound() const { return op_; }
  const Attributes& attributes() const { return attributes_; }  // defaults filled in
  ir::Builder& builder() { return builder_; }

  bool has(int i) const { return i < op_.operand_count() && op_.operand(i) != nullptr; }
  ir::Value* operand(int i) const { return op_.operand(i); }
  const ir::Type& result_type(int i = 0) const { return op_.result(i)->type(); }

  // Any defined op; then short names for the common ones. Nothing is built where nothing changes.
  ir::Value* op(std::string_view kind, std::initializer_list<ir::Value*> operands,
                Attributes attributes = {});
  ir::Value* add(ir::Value* a, ir::Value* b) { return op("add", {a, b}); }
  ir::Value* sub(ir::Value* a, ir::Value* b) { return op("sub", {a, b}); }
  ir::Value* mul(ir::Value* a, ir::Value* b) { return op("mul", {a, b}); }
  ir::Value* scalar(DType dtype, double value) { return builder_.scalar(dtype, value); }
  ir::Value* scalar_like(ir::Value* like, double value) { return scalar(like->type().dtype, value); }
  ir::Value* cast(ir::Value* x, DType dtype);
  ir::Value* reshape(ir::Value* x, Shape shape);
  ir::Value* expand(ir::Value* x, Shape shape);
  ir::Value* reduce(std::string_view kind, ir::Value* x, std::vector<int64_t> dims, bool keep_dims);

 private:
  const ir::Op& op_;
  Attributes attributes_;
  ir::Builder builder_;
};

}  // namespace ipu::ops
