#include "frontends/torch/capture/operators/aten_call.h"

#include <algorithm>

#include "frontends/torch/capture/memory/constants.h"
#include "frontends/torch/capture/operators/stack.h"
#include "frontends/torch/device_key.h"
#include "frontends/torch/host_memory.h"
#include "support/error.h"

namespace ipu::frontends::torch_frontend {
namespace {

bool is_defined_tensor(const c10::IValue& v) { return v.isTensor() && v.toTensor().defined(); }

// Reads the memory: t.item() would come back to the capture.
at::Scalar scalar_of(const at::Tensor& t) {
  switch (t.scalar_type()) {
    case at::kDouble:
      return *reinterpret_cast<const double*>(host_data(t));
    case at::kFloat:
      return *reinterpret_cast<const float*>(host_data(t));
    case at::kLong:
      return *reinterpret_cast<const int64_t*>(host_data(t));
    case at::kBool:
      return *reinterpret_cast<const bool*>(host_data(t));
    default:
      break;
  }
  throw Error(ErrorCode::kInternal, std::string("a Python number of type ") + c10::toString(t.scalar_type()));
}

}  // namespace

AtenCall::AtenCall(ir::Builder& builder, const OpInfo& info, at::ArrayRef<c10::IValue> arguments,
                   std::vector<ir::Type> results)
    : info_(info),
      builder_(builder),
      arguments_(arguments),
      results_(std::move(results)),
      values_(results_.size(), nullptr) {}

int AtenCall::find(std::string_view name) const {
  const auto& arguments = info_.op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() == name) return static_cast<int>(i);
  }
  return -1;
}

int AtenCall::required(std::string_view name) const {
  int i = find(name);
  IPU_CHECK(i >= 0, "aten::" + info_.overload + " has no argument " + std::string(name));
  return i;
}

void AtenCall::wrong_kind(std::string_view name, const char* wanted) const {
  throw Error(ErrorCode::kTypeMismatch, "argument type mismatch: argument " + std::string(name) +
                                            " of aten::" + info_.overload + " must be " + wanted + ", not " +
                                            arguments_[required(name)].tagKind());
}

// --- tensors

bool AtenCall::has(std::string_view name) {
  int i = find(name);
  if (i < 0) return false;
  if (given(i) != nullptr) return true;
  const c10::IValue& v = arguments_[i];
  return !v.isNone() && !(v.isTensor() && !v.toTensor().defined());
}

bool AtenCall::is_tensor(std::string_view name) {
  int i = find(name);
  if (i < 0) return false;
  return given(i) != nullptr || (is_defined_tensor(arguments_[i]) && !number(i));
}

const at::Tensor& AtenCall::tensor_argument(std::string_view name) const {
  const c10::IValue& v = arguments_[required(name)];
  if (!is_defined_tensor(v)) wrong_kind(name, "a tensor");
  return v.toTensor();
}

ir::Value* AtenCall::tensor(std::string_view name) {
  ir::Value* value = given(required(name));
  return value != nullptr ? value : read(tensor_argument(name));
}

std::vector<ir::Value*> AtenCall::tensors(std::string_view name) {
  const c10::IValue& v = arguments_[required(name)];
  std::vector<ir::Value*> values;
  if (v.isTensorList()) {
    for (const at::Tensor& t : v.toTensorVector()) values.push_back(read(t));
  } else if (v.isOptionalTensorList()) {
    for (const c10::IValue& e : v.toListRef())
      values.push_back(is_defined_tensor(e) ? read(e.toTensor()) : nullptr);
  } else {
    wrong_kind(name, "a list of tensors");
  }
  return values;
}

// --- numbers, texts and types

// A Python number that torch wrapped into a 0-d CPU tensor is a number, with a number's weak type.
std::optional<at::Scalar> AtenCall::number(int i) const {
  if (!is_defined_tensor(arguments_[i])) return std::nullopt;
  const at::Tensor& t = arguments_[i].toTensor();
  if (!t.unsafeGetTensorImpl()->is_wrapped_number() || !t.device().is_cpu() || t.is_complex())
    return std::nullopt;
  return scalar_of(t);
}

// Among integers a number is a constant of the device, clamped to its range; a float takes any.
double AtenCall::number_of(int64_t value) const {
  if (value == static_cast<int32_t>(value)) return static_cast<double>(value);
  bool has_floats = std::any_of(results_.begin(), results_.end(),
                                [](const ir::Type& type) { return is_floating_point(type.dtype); });
  for (const c10::IValue& a : arguments_)
    for_each_tensor(a, [&](const at::Tensor& t) {
      has_floats = has_floats ||
                   (at::isFloatingType(t.scalar_type()) && !t.unsafeGetTensorImpl()->is_wrapped_number());
    });
  return has_floats ? static_cast<double>(value) : static_cast<double>(clamped_constant(value));
}

double AtenCall::real(std::string_view name) {
  const int i = required(name);
  const c10::IValue& v = arguments_[i];
  if (v.isDouble()) return v.toDouble();
  if (v.isInt()) return number_of(v.toInt());
  if (v.isBool()) return v.toBool() ? 1.0 : 0.0;
  if (std::optional<at::Scalar> n = number(i))
    return n->isIntegral(true) ? number_of(n->toLong()) : n->toDouble();
  wrong_kind(name, "a real number");
}

int64_t AtenCall::wide_integer(std::string_view name) {
  const int i = required(name);
  const c10::IValue& v = arguments_[i];
  if (v.isInt()) return v.toInt();
  if (v.isBool()) return v.toBool() ? 1 : 0;
  if (v.isIntList() && v.toIntVector().size() == 1) return v.toIntVector()[0];
  if (std::optional<at::Scalar> n = number(i)) return n->toLong();
  wrong_kind(name, "an integer");
}

bool AtenCall::boolean(std::string_view name) {
  const c10::IValue& v = arguments_[required(name)];
  if (v.isBool()) return v.toBool();
  if (v.isInt()) return v.toInt() != 0;
  wrong_kind(name, "a boolean");
}

std::string AtenCall::text(std::string_view name) {
  const c10::IValue& v = arguments_[required(name)];
  if (!v.isString()) wrong_kind(name, "a string");
  return v.toStringRef();
}

std::vector<int64_t> AtenCall::wide_integers(std::string_view name) {
  const c10::IValue& v = arguments_[required(name)];
  if (v.isIntList()) return v.toIntVector();
  if (v.isInt()) return {v.toInt()};
  if (v.isBoolList()) {
    std::vector<int64_t> list;
    for (bool b : v.toBoolList()) list.push_back(b ? 1 : 0);
    return list;
  }
  if (v.isList() && v.toListRef().empty()) return {};
  wrong_kind(name, "a list of integers");
}

std::optional<DType> AtenCall::dtype(std::string_view name) {
  int i = find(name);
  if (i < 0 || arguments_[i].isNone()) return std::nullopt;
  if (!arguments_[i].isInt()) wrong_kind(name, "an element type");
  at::ScalarType type = arguments_[i].toScalarType();
  std::optional<DType> dtype = device_dtype(type);
  if (!dtype) unsupported(std::string("element type ") + c10::toString(type));
  return dtype;
}

bool AtenCall::is_integer_scalar(std::string_view name) {
  int i = find(name);
  if (i < 0) return false;
  if (std::optional<at::Scalar> n = number(i)) return n->isIntegral(true);
  return arguments_[i].isInt() || arguments_[i].isBool();
}

// --- results

void AtenCall::set_result(int i, ir::Value* value) {
  const ir::Type& want = results_.at(i);
  IPU_CHECK(value->type().dtype == want.dtype && value->type().shape == want.shape,
            "importer of aten::" + info_.overload + " gives " + to_string(value->type()) +
                " where torch gives " + to_string(want));
  values_[i] = value;
}

std::vector<ir::Value*> AtenCall::take() {
  for (size_t i = 0; i < values_.size(); ++i) {
    IPU_CHECK(values_[i] != nullptr,
              "importer of aten::" + info_.overload + " does not set result " + std::to_string(i));
  }
  return std::move(values_);
}

}  // namespace ipu::frontends::torch_frontend
