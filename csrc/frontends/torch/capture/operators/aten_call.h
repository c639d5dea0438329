// A boxed call as an importer sees it (ops::AtenImportCall): arguments by the name the schema gives them. What
// tensors are as values of the graph is the derived class's: of a call of the program (import.cc) or of
// a view over its parent (memory/views.cc).
#pragma once

#include <ATen/core/ivalue.h>

#include <optional>
#include <string>
#include <vector>

#include "frontends/torch/capture/operators/op_info.h"
#include "ops/definition/aten_import_call.h"

namespace ipu::frontends::torch_frontend {

class AtenCall : public ops::AtenImportCall {
 public:
  std::string_view overload() const override { return info_.overload; }
  ir::Builder& builder() override { return builder_; }

  bool has(std::string_view name) override;
  bool is_tensor(std::string_view name) override;
  ir::Value* tensor(std::string_view name) override;
  std::vector<ir::Value*> tensors(std::string_view name) override;
  double real(std::string_view name) override;
  int64_t wide_integer(std::string_view name) override;
  bool boolean(std::string_view name) override;
  std::string text(std::string_view name) override;
  std::vector<int64_t> wide_integers(std::string_view name) override;
  std::optional<DType> dtype(std::string_view name) override;
  bool is_integer_scalar(std::string_view name) override;

  ir::Type result_type(int i) override { return results_.at(i); }
  int result_count() override { return static_cast<int>(results_.size()); }
  void set_result(int i, ir::Value* value) override;

  // The results; every one has been set.
  std::vector<ir::Value*> take();

 protected:
  // `info` and what `arguments` refers to live longer.
  AtenCall(ir::Builder& builder, const OpInfo& info, at::ArrayRef<c10::IValue> arguments,
           std::vector<ir::Type> results);

  virtual ir::Value* read(const at::Tensor& t) = 0;
  // The value that stands in for argument i, whatever the call has there; nullptr: none.
  virtual ir::Value* given(size_t) { return nullptr; }

  const at::Tensor& tensor_argument(std::string_view name) const;  // Error(kTypeMismatch) for something else
  int required(std::string_view name) const;

  const OpInfo& info_;

 private:
  int find(std::string_view name) const;  // -1: no argument of that name
  std::optional<at::Scalar> number(int i) const;
  double number_of(int64_t value) const;
  [[noreturn]] void wrong_kind(std::string_view name, const char* wanted) const;

  ir::Builder& builder_;
  at::ArrayRef<c10::IValue> arguments_;
  std::vector<ir::Type> results_;
  std::vector<ir::Value*> values_;
};

}  // namespace ipu::frontends::torch_frontend
