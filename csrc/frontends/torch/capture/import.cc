// The ImportCall over a boxed call, and the importers of operators that are about memory rather than
// mathematics.
#include <algorithm>
#include <utility>

#include "frontends/torch/capture/capture.h"
#include "frontends/torch/capture/stack.h"
#include "ops/definition/build.h"

namespace ipu::frontends::torch_frontend {
namespace {

// Reads the memory: t.item() would come back to the capture.
at::Scalar scalar_of(const at::Tensor& t) {
  switch (t.scalar_type()) {
    case at::kDouble:
      return *t.const_data_ptr<double>();
    case at::kFloat:
      return *t.const_data_ptr<float>();
    case at::kLong:
      return *t.const_data_ptr<int64_t>();
    case at::kBool:
      return *t.const_data_ptr<bool>();
    default:
      break;
  }
  throw Error(ErrorCode::kInternal, std::string("a Python number of type ") + c10::toString(t.scalar_type()));
}

class AtenCall final : public ops::ImportCall {
 public:
  AtenCall(Capture& capture, const OpInfo& info, at::ArrayRef<c10::IValue> arguments,
           std::vector<ir::Type> results, size_t viewed, ir::Value* viewed_value)
      : capture_(capture),
        info_(info),
        arguments_(arguments),
        results_(std::move(results)),
        values_(results_.size(), nullptr),
        viewed_(viewed),
        viewed_value_(viewed_value) {}

  std::string_view overload() const override { return info_.overload; }
  ir::Builder& builder() override { return capture_.builder(); }

  bool has(std::string_view name) override {
    int i = find(name);
    if (i < 0) return false;
    if (is_viewed(i)) return true;
    const c10::IValue& v = arguments_[i];
    return !v.isNone() && !(v.isTensor() && !v.toTensor().defined());
  }
  bool is_tensor(std::string_view name) override {
    int i = find(name);
    if (i >= 0 && is_viewed(i)) return true;
    return i >= 0 && arguments_[i].isTensor() && arguments_[i].toTensor().defined() && !number(i);
  }
  ir::Value* tensor(std::string_view name) override {
    int i = required(name);
    if (is_viewed(i)) return viewed_value_;
    if (!arguments_[i].isTensor() || !arguments_[i].toTensor().defined()) wrong_kind(name, "a tensor");
    return capture_.read(arguments_[i].toTensor());
  }
  std::vector<ir::Value*> tensors(std::string_view name) override {
    const c10::IValue& v = arguments_[required(name)];
    std::vector<ir::Value*> values;
    if (v.isTensorList()) {
      for (const at::Tensor& t : v.toTensorVector()) values.push_back(capture_.read(t));
    } else if (v.isOptionalTensorList()) {
      for (const c10::IValue& e : v.toListRef()) {
        bool present = e.isTensor() && e.toTensor().defined();
        values.push_back(present ? capture_.read(e.toTensor()) : nullptr);
      }
    } else {
      wrong_kind(name, "a list of tensors");
    }
    return values;
  }
  double real(std::string_view name) override {
    const c10::IValue& v = arguments_[required(name)];
    if (v.isDouble()) return v.toDouble();
    if (v.isInt()) return number_of(v.toInt());
    if (v.isBool()) return v.toBool() ? 1.0 : 0.0;
    if (std::optional<at::Scalar> n = number(required(name)))
      return n->isIntegral(true) ? number_of(n->toLong()) : n->toDouble();
    wrong_kind(name, "a real number");
  }
  int64_t wide_integer(std::string_view name) override {
    const c10::IValue& v = arguments_[required(name)];
    if (v.isInt()) return v.toInt();
    if (v.isBool()) return v.toBool() ? 1 : 0;
    if (v.isIntList() && v.toIntVector().size() == 1) return v.toIntVector()[0];
    if (std::optional<at::Scalar> n = number(required(name))) return n->toLong();
    wrong_kind(name, "an integer");
  }
  bool boolean(std::string_view name) override {
    const c10::IValue& v = arguments_[required(name)];
    if (v.isBool()) return v.toBool();
    if (v.isInt()) return v.toInt() != 0;
    wrong_kind(name, "a boolean");
  }
  std::string text(std::string_view name) override {
    const c10::IValue& v = arguments_[required(name)];
    if (!v.isString()) wrong_kind(name, "a string");
    return v.toStringRef();
  }
  std::vector<int64_t> wide_integers(std::string_view name) override {
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
  std::optional<DType> dtype(std::string_view name) override {
    int i = find(name);
    if (i < 0 || arguments_[i].isNone()) return std::nullopt;
    if (!arguments_[i].isInt()) wrong_kind(name, "an element type");
    at::ScalarType type = arguments_[i].toScalarType();
    std::optional<DType> dtype = device_dtype(type);
    if (!dtype) unsupported(std::string("element type ") + c10::toString(type));
    return dtype;
  }
  bool is_integer_scalar(std::string_view name) override {
    int i = find(name);
    if (i < 0) return false;
    if (std::optional<at::Scalar> n = number(i)) return n->isIntegral(true);
    return arguments_[i].isInt() || arguments_[i].isBool();
  }

  ir::Type result_type(int i) override { return results_.at(i); }
  int result_count() override { return static_cast<int>(results_.size()); }
  void set_result(int i, ir::Value* value) override {
    const ir::Type& want = results_.at(i);
    IPU_CHECK(value->type().dtype == want.dtype && value->type().shape == want.shape,
              "importer of aten::" + info_.overload + " gives " + to_string(value->type()) +
                  " where torch gives " + to_string(want));
    values_[i] = value;
  }
  void write(std::string_view name, ir::Value* value) override {
    const c10::IValue& v = arguments_[required(name)];
    if (!v.isTensor() || !v.toTensor().defined()) wrong_kind(name, "a tensor");
    capture_.write(v.toTensor(), value);
  }
  ir::Value* seed() override { return capture_.seed(); }
  int64_t next_stream() override { return capture_.next_stream(); }

  std::vector<ir::Value*> take() {
    for (size_t i = 0; i < values_.size(); ++i) {
      IPU_CHECK(values_[i] != nullptr,
                "importer of aten::" + info_.overload + " does not set result " + std::to_string(i));
    }
    return std::move(values_);
  }

 private:
  int find(std::string_view name) const {
    const auto& arguments = info_.op.schema().arguments();
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].name() == name) return static_cast<int>(i);
    }
    return -1;
  }
  int required(std::string_view name) const {
    int i = find(name);
    IPU_CHECK(i >= 0, "aten::" + info_.overload + " has no argument " + std::string(name));
    return i;
  }
  // A Python number that torch wrapped into a 0-d CPU tensor is a number, with a number's weak type.
  std::optional<at::Scalar> number(int i) const {
    if (!arguments_[i].isTensor() || !arguments_[i].toTensor().defined()) return std::nullopt;
    const at::Tensor& t = arguments_[i].toTensor();
    if (!t.unsafeGetTensorImpl()->is_wrapped_number() || !t.device().is_cpu() || t.is_complex())
      return std::nullopt;
    return scalar_of(t);
  }
  // Among integers a number is a constant of the device, clamped to its range; a float takes any.
  double number_of(int64_t value) const {
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
  bool is_viewed(int i) const { return viewed_value_ != nullptr && static_cast<size_t>(i) == viewed_; }
  [[noreturn]] void wrong_kind(std::string_view name, const char* wanted) const {
    throw Error(ErrorCode::kTypeMismatch, "argument type mismatch: argument " + std::string(name) +
                                              " of aten::" + info_.overload + " must be " + wanted +
                                              ", not " + arguments_[required(name)].tagKind());
  }

  Capture& capture_;
  const OpInfo& info_;
  at::ArrayRef<c10::IValue> arguments_;
  std::vector<ir::Type> results_;
  std::vector<ir::Value*> values_;
  size_t viewed_;
  ir::Value* viewed_value_;
};

// --- built in

void import_reshape(ops::ImportCall& call) {
  call.set_result(0, call.op("reshape", {call.tensor("self")}, {{"shape", call.result_type(0).shape}}));
}

// A view of memory by sizes and strides, where it can be said with slices, reshapes and a transposition:
// sorted by stride, each dimension must step over whole blocks of the next.
void import_as_strided(ops::ImportCall& call) {
  std::vector<int64_t> size = call.integers("size"), stride = call.integers("stride");
  int64_t offset = call.has("storage_offset") ? call.integer("storage_offset") : 0;
  ir::Value* base = call.tensor("self");
  int64_t elements = element_count(base->type().shape);
  std::vector<size_t> order;
  for (size_t i = 0; i < size.size(); ++i) {
    if (size[i] > 1) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return stride[a] > stride[b]; });
  // The flat memory seen as blocks: outer[k] blocks of stride[k] elements each.
  Shape blocks;
  std::vector<int64_t> starts, sizes;
  int64_t rest = offset, extent = elements;
  for (size_t i : order) {
    if (stride[i] <= 0 || extent % stride[i] != 0)
      call.unsupported("memory seen with these sizes and strides");
    blocks.push_back(extent / stride[i]);
    starts.push_back(rest / stride[i]);
    sizes.push_back(size[i]);
    rest %= stride[i];
    extent = stride[i];
    if (starts.back() + size[i] > blocks.back()) call.unsupported("overlapping memory");
  }
  if (extent > 1) {  // one element of each innermost block
    blocks.push_back(extent);
    starts.push_back(rest);
    sizes.push_back(1);
  }
  ir::Value* value = call.op("reshape", {base}, {{"shape", blocks}});
  value =
      call.op("slice", {value}, {{"starts", starts}, {"sizes", sizes}, {"steps", Shape(blocks.size(), 1)}});
  Shape ordered;
  for (size_t i : order) ordered.push_back(size[i]);
  if (!std::is_sorted(order.begin(), order.end())) {
    value = call.op("reshape", {value}, {{"shape", ordered}});
    std::vector<int64_t> perm(
        order.size());  // position in `ordered` of each kept dimension, in torch's order
    std::vector<size_t> kept(order);
    std::sort(kept.begin(), kept.end());
    for (size_t d = 0; d < kept.size(); ++d) {
      perm[d] = std::find(order.begin(), order.end(), kept[d]) - order.begin();
    }
    value = call.op("transpose", {value}, {{"perm", perm}});
  }
  call.set_result(0, call.op("reshape", {value}, {{"shape", call.result_type(0).shape}}));
}

template <const char* kKind>
void import_identity(ops::ImportCall& call) {
  call.set_result(0, call.op(kKind, {call.tensor("x")}));
}

void import_identity_loss(ops::ImportCall& call) {
  call.set_result(0, call.op("identity_loss", {call.tensor("x")}, {{"reduction", call.text("reduction")}}));
}

constexpr char kNop[] = "nop";

// The checkpoint itself is the op's setting: its result is kept for the backward pass.
void import_recomputation_checkpoint(ops::ImportCall& call) {
  call.builder().settings.recompute = ir::Recompute::kCheckpoint;
  import_identity<kNop>(call);
  call.builder().settings.recompute = ir::Recompute::kDefault;
}

}  // namespace

const Importer* find_builtin_importer(const std::string& overload) {
  static const std::unordered_map<std::string, Importer> table = {
      {"_reshape_alias", import_reshape},
      {"_unsafe_view", import_reshape},
      {"view", import_reshape},
      {"as_strided", import_as_strided},
      {"poptorch::nop", import_identity<kNop>},
      {"poptorch::identity_loss", import_identity_loss},
      {"poptorch::recomputation_checkpoint", import_recomputation_checkpoint},
  };
  auto found = table.find(overload);
  return found == table.end() ? nullptr : &found->second;
}

std::vector<ir::Value*> Capture::import(const OpInfo& info, at::ArrayRef<c10::IValue> arguments,
                                        const std::vector<TensorMeta>& results) {
  std::vector<ir::Type> types;
  for (const TensorMeta& m : results) {
    std::optional<DType> dtype = device_dtype(m.dtype);
    if (!dtype) {
      throw Error(ErrorCode::kUnsupportedOps, std::string("a result of type ") + c10::toString(m.dtype));
    }
    types.push_back({*dtype, Shape(m.sizes.begin(), m.sizes.end())});
  }
  AtenCall call(*this, info, arguments, std::move(types), 0, nullptr);
  (*info.importer)(call);
  return call.take();
}

std::vector<ir::Value*> Capture::import_view(const ViewStep& step, ir::Value* parent) {
  if (step.op->importer == nullptr) {
    throw Error(ErrorCode::kUnsupportedOps,
                "unsupported operation: aten::" + step.op->overload + " makes a view the IPU cannot read")
        .at(current_user_line());
  }
  const ir::OriginPtr of_the_reader = std::exchange(builder_.origin, step.op->origin);
  AtenCall call(*this, *step.op, step.arguments, step.types, step.viewed, parent);
  (*step.op->importer)(call);
  builder_.origin = of_the_reader;
  return call.take();
}

}  // namespace ipu::frontends::torch_frontend
