// What a row's `lower` sees: one op of the program, its inputs as values of the IR, and a builder with its
// settings and location. The same rule serves type inference, where the values are inputs of a scratch graph.
#pragma once

#include <initializer_list>
#include <map>
#include <string_view>
#include <vector>

#include "frontends/popxl/program.h"
#include "ir/builder.h"
#include "ops/definition/build.h"

namespace ipu::popxl {

class LowerCall {
 public:
  LowerCall(const Op& op, const OpKind& kind, const Attributes& attributes, ir::Builder& builder)
      : op_(op), kind_(kind), attributes_(attributes), builder_(builder) {}

  const Op& op() const { return op_; }
  const OpKind& kind() const { return kind_; }
  // Returns the attributes of the op; for a gradient op, those of its forward op.
  const Attributes& attributes() const { return attributes_; }
  ir::Builder& builder() { return builder_; }

  bool has(int i) const { return inputs_.contains(i); }
  ir::Value* input(int i) const;  // Error(kTypeMismatch) naming op and input when it is absent
  const ir::Type& type(int i) const { return input(i)->type(); }
  const Shape& shape(int i) const { return input(i)->type().shape; }
  int input_count() const { return inputs_.empty() ? 0 : inputs_.rbegin()->first + 1; }
  // As the program says it, with types wider than those of the device and the shape of the whole of a shard.
  const TensorInfo& info(int i) const;

  // Any op of csrc/ops; its type rule checks the operands: Error(kTypeMismatch).
  ir::Value* build(std::string_view kind, std::initializer_list<ir::Value*> operands,
                   Attributes attributes = {});
  ir::Value* build(std::string_view kind, const std::vector<ir::Value*>& operands,
                   Attributes attributes = {});
  ir::Op* build_op(std::string_view kind, const std::vector<ir::Value*>& operands,
                   Attributes attributes = {});
  ir::Value* scalar(DType dtype, double value) { return builder_.scalar(dtype, value); }
  ir::Value* scalar_like(ir::Value* like, double value) { return scalar(like->type().dtype, value); }
  ir::Value* cast(ir::Value* x, DType dtype);     // nothing where nothing changes
  ir::Value* reshape(ir::Value* x, Shape shape);  // likewise
  ir::Value* expand(ir::Value* x, Shape shape);   // likewise
  ir::Value* transpose(ir::Value* x, std::vector<int64_t> permutation);
  ir::Value* reduce(std::string_view kind, ir::Value* x, std::vector<int64_t> dims, bool keep_dims);
  // Attributes of a factor that is a number or input `i`.
  ir::Value* factor(int i, std::string_view attribute, DType dtype);

  void set_output(int i, ir::Value* value) { outputs_[i] = value; }
  // Sets an output that has a type of its own and does not take the wider type of an input: indices of INT64 values are
  // INT32 too.
  void set_output(int i, ir::Value* value, DataType type) {
    outputs_[i] = value;
    stated_[i] = type;
  }
  // Input i takes `value` (cast and broadcast are the row's business); output 0 is that memory as it is then.
  void overwrite(int i, ir::Value* value);
  // A mistake of the user: Error(kTypeMismatch) with the op, its inputs and `what`.
  [[noreturn]] void refuse(const std::string& what) const;

  // For to_module and infer.
  void set_input(int i, ir::Value* value) { inputs_[i] = value; }
  const std::map<int, ir::Value*>& inputs() const { return inputs_; }
  const std::map<int, ir::Value*>& outputs() const { return outputs_; }
  const std::map<int, DataType>& stated_types() const { return stated_; }
  // In a gradient op: gradient of forward output i (nullptr: none arrived), and the gradient of forward input i.
  ir::Value* upstream(int i) const;
  ir::Value* forward_input(int i) const;   // IPU_CHECK: consumed
  ir::Value* forward_output(int i) const;  // IPU_CHECK: consumed
  ir::Type forward_input_type(int i) const;
  void set_gradient(int forward_input, ir::Value* value);

 private:
  const Op& op_;
  const OpKind& kind_;
  const Attributes& attributes_;
  ir::Builder& builder_;
  std::map<int, ir::Value*> inputs_, outputs_;
  std::map<int, DataType> stated_;
};

}  // namespace ipu::popxl
