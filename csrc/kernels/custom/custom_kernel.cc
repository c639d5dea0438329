#include "kernels/custom/custom_kernel.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "kernels/footprint.h"
#include "kernels/kernel_table.h"
#include "support/error.h"
#include "support/foreign_text.h"
#include "support/fork.h"

namespace ipu::kernels {
namespace {

static_assert(static_cast<int>(DType::kF32) == IPU_F32 && static_cast<int>(DType::kF16) == IPU_F16 &&
              static_cast<int>(DType::kI32) == IPU_I32 && static_cast<int>(DType::kU32) == IPU_U32 &&
              static_cast<int>(DType::kI16) == IPU_I16 && static_cast<int>(DType::kU16) == IPU_U16 &&
              static_cast<int>(DType::kI8) == IPU_I8 && static_cast<int>(DType::kU8) == IPU_U8 &&
              static_cast<int>(DType::kBool) == IPU_BOOL);

struct Table {
  ForkSafe<std::mutex> mutex;
  std::map<std::string, const ipu_custom_op*> ops;
};
Table& table() {
  static auto* custom = new Table;
  return *custom;
}

ipu_value value_of(const ipu_attribute& schema, const Attribute& given) {
  ipu_value value{};
  value.kind = schema.fallback.kind;
  const bool fits = [&] {
    switch (schema.fallback.kind) {
      case IPU_BOOLEAN:
        if (const bool* flag = std::get_if<bool>(&given)) return value.integer = *flag ? 1 : 0, true;
        return false;
      case IPU_INTEGER:
        if (const auto* n = std::get_if<int64_t>(&given)) return value.integer = *n, true;
        return false;
      case IPU_REAL:
        if (const auto* n = std::get_if<int64_t>(&given)) return value.real = static_cast<double>(*n), true;
        if (const auto* x = std::get_if<double>(&given)) return value.real = *x, true;
        return false;
      case IPU_TEXT:
        if (const auto* text = std::get_if<std::string>(&given)) return value.text = text->c_str(), true;
        return false;
      case IPU_INTEGERS:
        if (const auto* list = std::get_if<std::vector<int64_t>>(&given)) {
          value.integers = list->data();
          value.count = static_cast<int64_t>(list->size());
          return true;
        }
        return false;
      case IPU_REALS:
        if (const auto* list = std::get_if<std::vector<double>>(&given)) {
          value.reals = list->data();
          value.count = static_cast<int64_t>(list->size());
          return true;
        }
        return false;
      default:
        return false;
    }
  }();
  if (!fits)
    throw Error(
        ErrorCode::kTypeMismatch,
        fmt::format("attribute mismatch: '{}' is of another kind than its operation says.", schema.name));
  return value;
}

constexpr int32_t kMostLanes = 0xffff;
constexpr size_t kMaxOperands = 64;  // problem_of() in ops/custom lets no more through

std::vector<const TensorSpec*> present_operands(const KernelRequest& request) {
  std::vector<const TensorSpec*> list;
  for (size_t i = 0; i < request.operands.size(); ++i)
    list.push_back(request.is_absent(i) ? nullptr : &request.operands[i]);
  return list;
}

class CustomKernel : public PreparedKernel {
 public:
  CustomKernel(const ipu_custom_op& op, const KernelRequest& request)
      : op_(op), attributes_(request.attributes), call_(op, present_operands(request), attributes_) {
    given_ = request.operands.size();
    for (size_t i = 0; i < given_; ++i)
      operands_.push_back(request.is_absent(i) ? absent_view() : view_of(request.operands[i]));
    while (operands_.size() < static_cast<size_t>(op.operand_count)) operands_.push_back(absent_view());
    for (const TensorSpec& spec : request.results) results_.push_back(view_of(spec));
    lanes_ = custom_lanes(op, call_.get());
  }

  int lanes() const override { return lanes_; }

  void run(const KernelCall& call, int lane) const override {
    // Few views, and none of their memory is ours: on the stack of the worker.
    ipu_view operands[kMaxOperands], results[kMaxOperands];
    for (size_t i = 0; i < operands_.size(); ++i) {
      operands[i] = operands_[i];
      operands[i].data = i < given_ ? call.operands[i] : nullptr;
      if (operands[i].data == nullptr) operands[i].type.rank = -1;
    }
    for (size_t i = 0; i < results_.size(); ++i) {
      results[i] = results_[i];
      results[i].data = call.results[i];
    }
    in_library(op_, "kernel", [&] { op_.run(call_.get(), operands, results, lane); });
  }

 private:
  static ipu_view absent_view() {
    ipu_view view{};
    view.type.rank = -1;
    return view;
  }
  static ipu_view view_of(const TensorSpec& spec) {
    ipu_view view{};
    view.type = custom_type(spec.dtype, spec.shape);
    for (size_t d = 0; d < spec.strides.size(); ++d) view.strides[d] = spec.strides[d];
    return view;
  }

  const ipu_custom_op& op_;
  const Attributes attributes_;
  const CustomCall call_;
  std::vector<ipu_view> operands_, results_;
  size_t given_ = 0;  // operands that a call has pointers of; the others are absent
  int lanes_ = 1;
};

const ipu_custom_op& loaded(const std::string& name) {
  const ipu_custom_op* op = find_custom_kernel(name);
  if (op == nullptr)
    throw Error(
        ErrorCode::kUnsupportedOps,
        fmt::format("custom operation not loaded: '{}' comes from a library; load it before the program.",
                    name));
  return *op;
}

// Numbers of operands and results, and views as the operation takes them.
bool fits(const ipu_custom_op& op, const KernelRequest& request) {
  const bool may_be_strided = (op.effects & IPU_TAKES_STRIDED) != 0;
  if (request.operands.size() > static_cast<size_t>(op.operand_count) ||
      request.results.size() != static_cast<size_t>(op.result_count))
    return false;
  auto is_view = [](const TensorSpec& spec, bool strided) {
    return spec.layout.is_plain() && spec.shape.size() <= IPU_MAX_RANK && (strided || spec.is_contiguous());
  };
  for (size_t i = 0; i < request.operands.size(); ++i)
    if (!request.is_absent(i) && !is_view(request.operands[i], may_be_strided)) return false;
  return std::all_of(request.results.begin(), request.results.end(),
                     [&](const TensorSpec& spec) { return is_view(spec, false); });
}

std::unique_ptr<PreparedKernel> prepare(const KernelRequest& request) {
  const ipu_custom_op& op = loaded(text_of(request, "op", ""));
  if (!fits(op, request)) return nullptr;
  return std::make_unique<CustomKernel>(op, request);
}

bool is_same(const ipu_type& type, const TensorSpec& spec) {
  return type.dtype == static_cast<int32_t>(spec.dtype) &&
         type.rank == static_cast<int32_t>(spec.shape.size()) &&
         std::equal(spec.shape.begin(), spec.shape.end(), type.shape);
}

// The library's code gets views of exactly the types that its own shape function gives and its table takes.
// What it does with them is its own; a file can name an operation, not bring one.
Footprint footprint_of_custom(const KernelRequest& request) {
  const ipu_custom_op& op = loaded(text_of(request, "op", ""));
  require_sound(request);
  require(fits(op, request), "has operands or results that its custom operation does not take");
  for (int32_t i = 0; i < op.operand_count; ++i) {
    const auto n = static_cast<size_t>(i);
    if (n >= request.operands.size() || request.is_absent(n)) {
      require(op.operands[i].optional != 0, "lacks an operand of its custom operation");
      continue;
    }
    const auto dtype = static_cast<uint32_t>(request.operands[n].dtype);
    constexpr uint32_t kKnown = 0x7f3;  // the types of ipu_dtype
    const uint32_t taken = op.operands[i].dtypes == 0 ? kKnown : op.operands[i].dtypes & kKnown;
    require((taken >> dtype & 1) != 0, "has an operand of a type that its custom operation does not take");
  }
  for (int32_t i = 0; i < op.attribute_count; ++i)
    require(op.attributes[i].required == 0 || request.attributes.has(op.attributes[i].name),
            "lacks an attribute of its custom operation");
  const CustomCall call(op, present_operands(request), request.attributes);
  ipu_type types[kMaxOperands] = {};
  char error[512] = "";
  if (in_library(op, "shape function", [&] { return op.infer(call.get(), types, error, sizeof error); }) !=
      0) {
    error[sizeof error - 1] = '\0';
    refuse("has operands that do not fit: " + std::string(error));
  }
  for (size_t i = 0; i < request.results.size(); ++i)
    require(is_same(types[i], request.results[i]), "has a result of another type than its operation gives");
  const int32_t lanes =
      op.lanes == nullptr ? 1 : in_library(op, "count of lanes", [&] { return op.lanes(call.get()); });
  require(lanes <= kMostLanes, "has a custom operation of more than 65535 lanes");
  Footprint touched = footprint_of_views(request);
  for (size_t i = 0; i < request.operands.size(); ++i)
    if (request.is_absent(i)) touched.operands[i] = {};
  return touched;
}

IPU_REGISTER_KERNEL("custom", prepare, footprint_of_custom);

}  // namespace

void refuse_thrown(const ipu_custom_op& op, std::string_view part, const char* what) {
  throw Error(
      ErrorCode::kExecution,
      fmt::format(
          "custom operation failed: the {} of '{}.{}' threw {}. Code of a library returns; `infer` says in "
          "`error` what is wrong.",
          part, op.domain, op.name,
          what == nullptr ? std::string("something that is no std::exception") : quotation(what)));
}

int custom_lanes(const ipu_custom_op& op, const ipu_call* call) {
  if (op.lanes == nullptr) return 1;
  const int32_t lanes = in_library(op, "count of lanes", [&] { return op.lanes(call); });
  if (lanes > kMostLanes)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("custom operation failed: '{}.{}' says {} lanes, and at most {} can be run.",
                            op.domain, op.name, lanes, kMostLanes));
  return std::max(1, lanes);
}

void register_custom_kernel(const std::string& name, const ipu_custom_op* op) {
  IPU_CHECK(op->operand_count <= static_cast<int>(kMaxOperands) &&
                op->result_count <= static_cast<int>(kMaxOperands),
            fmt::format("'{}' has more operands or results than the loader may let through", name));
  std::lock_guard lock(table().mutex);
  table().ops.emplace(name, op);
}

const ipu_custom_op* find_custom_kernel(const std::string& name) {
  std::lock_guard lock(table().mutex);
  auto at = table().ops.find(name);
  return at == table().ops.end() ? nullptr : at->second;
}

CustomCall::CustomCall(const ipu_custom_op& op, const std::vector<const TensorSpec*>& operands,
                       const Attributes& attributes) {
  ipu_type absent{};
  absent.rank = -1;
  for (const TensorSpec* spec : operands)
    types_.push_back(spec == nullptr ? absent : custom_type(spec->dtype, spec->shape));
  while (static_cast<int>(types_.size()) < op.operand_count) types_.push_back(absent);
  for (int32_t i = 0; i < op.attribute_count; ++i) {
    const Attribute* given = attributes.find(op.attributes[i].name);
    values_.push_back(given == nullptr ? op.attributes[i].fallback : value_of(op.attributes[i], *given));
  }
  call_ = {static_cast<int32_t>(types_.size()), types_.data(), values_.data()};
}

ipu_type custom_type(DType dtype, const Shape& shape) {
  if (shape.size() > IPU_MAX_RANK)
    throw Error(ErrorCode::kTypeMismatch,
                fmt::format("shape mismatch: custom operations take up to {} dimensions, not {}.",
                            IPU_MAX_RANK, shape.size()));
  ipu_type type{};
  type.dtype = static_cast<int32_t>(dtype);
  type.rank = static_cast<int32_t>(shape.size());
  for (size_t d = 0; d < shape.size(); ++d) type.shape[d] = shape[d];
  return type;
}

Attribute attribute_of(const ipu_value& value) {
  switch (value.kind) {
    case IPU_BOOLEAN:
      return value.integer != 0;
    case IPU_INTEGER:
      return value.integer;
    case IPU_REAL:
      return value.real;
    case IPU_TEXT:
      return std::string(value.text == nullptr ? "" : value.text);
    case IPU_INTEGERS:
      return std::vector<int64_t>(value.integers, value.integers + value.count);
    default:
      return std::vector<double>(value.reals, value.reals + value.count);
  }
}

}  // namespace ipu::kernels
