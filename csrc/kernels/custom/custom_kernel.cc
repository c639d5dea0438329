#include "kernels/custom/custom_kernel.h"

#include <map>
#include <mutex>

#include "kernels/kernel_table.h"
#include "support/error.h"

namespace ipu::kernels {
namespace {

static_assert(static_cast<int>(DType::kF32) == IPU_F32 && static_cast<int>(DType::kF16) == IPU_F16 &&
              static_cast<int>(DType::kI32) == IPU_I32 && static_cast<int>(DType::kU32) == IPU_U32 &&
              static_cast<int>(DType::kI16) == IPU_I16 && static_cast<int>(DType::kU16) == IPU_U16 &&
              static_cast<int>(DType::kI8) == IPU_I8 && static_cast<int>(DType::kU8) == IPU_U8 &&
              static_cast<int>(DType::kBool) == IPU_BOOL);

struct Table {
  std::mutex mutex;
  std::map<std::string, const ipu_custom_op*> ops;
};
Table& table() {
  static Table custom;
  return custom;
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
    throw Error(ErrorCode::kTypeMismatch, "attribute mismatch: '" + std::string(schema.name) +
                                              "' is of another kind than its operation says.");
  return value;
}

class CustomKernel : public PreparedKernel {
 public:
  CustomKernel(const ipu_custom_op& op, const KernelRequest& request)
      : op_(op), attributes_(request.attributes), call_(op, pointers(request.operands), attributes_) {
    for (const TensorSpec& spec : request.operands) operands_.push_back(view_of(spec));
    for (const TensorSpec& spec : request.results) results_.push_back(view_of(spec));
    lanes_ = op.lanes == nullptr ? 1 : std::max(1, static_cast<int>(op.lanes(call_.get())));
  }

  int lanes() const override { return lanes_; }

  void run(const KernelCall& call, int lane) const override {
    // Few views, and none of their memory is ours: on the stack of the worker.
    ipu_view operands[kMaxOperands], results[kMaxOperands];
    for (size_t i = 0; i < operands_.size(); ++i) {
      operands[i] = operands_[i];
      operands[i].data = call.operands[i];
      if (call.operands[i] == nullptr) operands[i].type.rank = -1;
    }
    for (size_t i = 0; i < results_.size(); ++i) {
      results[i] = results_[i];
      results[i].data = call.results[i];
    }
    op_.run(call_.get(), operands, results, lane);
  }

  static constexpr size_t kMaxOperands = 64;

 private:
  static std::vector<const TensorSpec*> pointers(std::span<const TensorSpec> specs) {
    std::vector<const TensorSpec*> list;
    for (const TensorSpec& spec : specs) list.push_back(&spec);
    return list;
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
  int lanes_ = 1;
};

std::unique_ptr<PreparedKernel> prepare(const KernelRequest& request) {
  const std::string& name = request.attributes.text("op");
  const ipu_custom_op* op = find_custom_kernel(name);
  if (op == nullptr)
    throw Error(ErrorCode::kUnsupportedOps, "custom operation not loaded: '" + name +
                                                "' comes from a library; load it before the program.");
  auto fits = [&](const TensorSpec& spec, bool may_be_strided) {
    return spec.layout == Layout::kPlain && (may_be_strided || spec.is_contiguous());
  };
  for (const TensorSpec& spec : request.operands)
    if (!fits(spec, (op->effects & IPU_TAKES_STRIDED) != 0)) return nullptr;
  for (const TensorSpec& spec : request.results)
    if (!fits(spec, false)) return nullptr;
  return std::make_unique<CustomKernel>(*op, request);
}

IPU_REGISTER_KERNEL("custom", prepare);

}  // namespace

void register_custom_kernel(const std::string& name, const ipu_custom_op* op) {
  IPU_CHECK(op->operand_count <= static_cast<int>(CustomKernel::kMaxOperands) &&
                op->result_count <= static_cast<int>(CustomKernel::kMaxOperands),
            "'" + name + "' has more operands or results than the loader may let through");
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
    throw Error(ErrorCode::kTypeMismatch, "shape mismatch: custom operations take up to " +
                                              std::to_string(IPU_MAX_RANK) + " dimensions, not " +
                                              std::to_string(shape.size()) + ".");
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
