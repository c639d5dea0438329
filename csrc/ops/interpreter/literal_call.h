// An AtenImportCall over literals: runs an importer as a frontend would, for tests and for tools/ipu_ops.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ir/builder.h"
#include "ops/definition/aten_import_call.h"
#include "ops/interpreter/interpreter.h"
#include "support/error.h"

namespace ipu::ops {

// None is an absent entry. A list of tensors may hold nullptr.
using Literal = std::variant<ir::Value*, double, int64_t, bool, std::string, std::vector<int64_t>, DType,
                             std::vector<ir::Value*>>;

class LiteralCall final : public AtenImportCall {
 public:
  LiteralCall(ir::Graph* graph, std::string overload, std::map<std::string, Literal, std::less<>> arguments,
              std::vector<ir::Type> results)
      : builder_(graph),
        overload_(std::move(overload)),
        arguments_(std::move(arguments)),
        types_(std::move(results)),
        values_(types_.size(), nullptr) {}

  // Runs the importer of the overload; Error(kUnsupportedOps) when there is none.
  void import() {
    const auto* importer = find_aten_importer(overload_);
    if (importer == nullptr)
      throw Error(ErrorCode::kUnsupportedOps, "unsupported operation: aten::" + overload_ + ".");
    (*importer)(*this);
    for (ir::Value* value : values_)
      IPU_CHECK(value != nullptr, "aten::" + overload_ + " leaves a result unset");
  }
  const std::vector<ir::Value*>& results() const { return values_; }
  const std::map<std::string, ir::Value*>& written() const { return written_; }

  std::string_view overload() const override { return overload_; }
  ir::Builder& builder() override { return builder_; }
  bool has(std::string_view name) override { return arguments_.find(name) != arguments_.end(); }
  bool is_tensor(std::string_view name) override {
    auto at = arguments_.find(name);
    return at != arguments_.end() && std::holds_alternative<ir::Value*>(at->second);
  }
  ir::Value* tensor(std::string_view name) override { return get<ir::Value*>(name); }
  std::vector<ir::Value*> tensors(std::string_view name) override {
    return get<std::vector<ir::Value*>>(name);
  }
  double real(std::string_view name) override {
    const Literal& value = at(name);
    if (const auto* whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
    if (const auto* flag = std::get_if<bool>(&value)) return *flag;
    return get<double>(name);
  }
  int64_t wide_integer(std::string_view name) override {
    if (const auto* flag = std::get_if<bool>(&at(name))) return *flag;
    return get<int64_t>(name);
  }
  bool boolean(std::string_view name) override { return get<bool>(name); }
  std::string text(std::string_view name) override { return get<std::string>(name); }
  std::vector<int64_t> wide_integers(std::string_view name) override {
    if (const auto* one = std::get_if<int64_t>(&at(name))) return {*one};
    return get<std::vector<int64_t>>(name);
  }
  std::optional<DType> dtype(std::string_view name) override {
    if (!has(name)) return std::nullopt;
    return get<DType>(name);
  }
  bool is_integer_scalar(std::string_view name) override {
    return has(name) && (std::holds_alternative<int64_t>(at(name)) || std::holds_alternative<bool>(at(name)));
  }
  ir::Type result_type(int i) override { return types_.at(static_cast<size_t>(i)); }
  int result_count() override { return static_cast<int>(types_.size()); }
  void set_result(int i, ir::Value* value) override {
    const ir::Type& wanted = types_.at(static_cast<size_t>(i));
    IPU_CHECK(value->type().dtype == wanted.dtype && value->type().shape == wanted.shape,
              "aten::" + overload_ + " imports as " + ir::to_string(value->type()) + ", torch gives " +
                  ir::to_string(wanted));
    values_.at(static_cast<size_t>(i)) = value;
  }
  void write(std::string_view name, ir::Value* value) override { written_[std::string(name)] = value; }
  ir::Value* seed() override {
    constexpr uint32_t kSeed[2] = {42, 0};
    if (seed_ == nullptr) seed_ = builder_.constant(ir::make_constant(DType::kU32, {2}, kSeed), "seed");
    return seed_;
  }
  int64_t next_stream() override { return streams_++; }

 private:
  const Literal& at(std::string_view name) const {
    auto found = arguments_.find(name);
    if (found == arguments_.end())
      throw Error(ErrorCode::kTypeMismatch, "missing argument: " + std::string(name) + ".");
    return found->second;
  }
  template <typename T>
  const T& get(std::string_view name) const {
    const T* value = std::get_if<T>(&at(name));
    if (value == nullptr)
      throw Error(ErrorCode::kTypeMismatch,
                  "argument type mismatch: '" + std::string(name) + "' of aten::" + overload_ + ".");
    return *value;
  }

  ir::Builder builder_;
  std::string overload_;
  std::map<std::string, Literal, std::less<>> arguments_;
  std::vector<ir::Type> types_;
  std::vector<ir::Value*> values_;
  std::map<std::string, ir::Value*> written_;
  ir::Value* seed_ = nullptr;
  int64_t streams_ = 0;
};

}  // namespace ipu::ops
