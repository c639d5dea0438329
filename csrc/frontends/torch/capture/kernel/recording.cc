#include "frontends/torch/capture/kernel/recording.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/Exceptions.h>

#include <algorithm>
#include <unordered_set>

#include "frontends/torch/capture/gradients/gradient_node.h"
#include "frontends/torch/capture/kernel/host_call.h"
#include "frontends/torch/capture/kernel/known_masks.h"
#include "frontends/torch/capture/operators/shapes.h"
#include "frontends/torch/capture/operators/stack.h"
#include "frontends/torch/errors.h"
#include "ops/definition/build.h"

namespace ipu::frontends::torch_frontend {
namespace {

using torch::jit::Stack;
using Arguments = at::ArrayRef<c10::IValue>;

[[noreturn]] void raise_dynamic_shape(Capture& c, const OpInfo& info) {
  c.unsupported_without_shape(
      info, "the shape of its result depends on values; use torch.where or a mask of fixed shape",
      "dynamic_shape");
}

bool has_boolean_index(Arguments arguments) {
  bool found = false;
  for (const c10::IValue& a : arguments) {
    if (!a.isOptionalTensorList()) continue;
    for_each_tensor(a, [&](const at::Tensor& t) {
      found = found || t.scalar_type() == at::kBool || t.scalar_type() == at::kByte;
    });
  }
  return found;
}

// Operators torch tags as of dynamic shape whose result is known from these arguments all the same.
bool has_known_shape(const OpInfo& info, Arguments arguments) {
  if (info.overload == "index.Tensor") return !has_boolean_index(arguments);
  if (info.overload == "bincount") return arguments[2].toInt() > 0;
  return info.overload == "one_hot" && arguments[1].toInt() > 0;
}

InferredResults infer(Capture& c, const OpInfo& info, Arguments arguments) {
  if (info.dynamic_shape && !has_known_shape(info, arguments)) {
    raise_dynamic_shape(c, info);
  }
  try {
    return infer_results(info, arguments);
  } catch (const c10::NotImplementedError&) {
    c.unsupported_without_shape(info, "torch has no shape rule for it");
  } catch (const python_error&) {  // rules in Python make tensors of their own, and need not know ours
    if (info.importer != nullptr) throw;
    c.unsupported_without_shape(info, "torch has no shape rule for it");
  }
}

std::vector<ir::Value*> import_or_collect(Capture& c, const OpInfo& functional, const OpInfo& info,
                                          Arguments arguments, const std::vector<TensorMeta>& results) {
  if (functional.importer == nullptr) return c.unsupported(info, "", arguments, results);
  try {
    return c.import(functional, arguments, results);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kUnsupportedOps) throw;
    return c.unsupported(info, in_words_of_poptorch(e).message(), arguments, results);
  }
}

bool has_out_arguments(const OpInfo& info) {
  const auto& arguments = info.op.schema().arguments();
  return std::any_of(arguments.begin(), arguments.end(), [](const auto& a) { return a.is_out(); });
}

// What torch says, for what torch does.
void warn_of_resizing(at::IntArrayRef before, at::IntArrayRef wanted) {
  TORCH_WARN(
      "An output with one or more elements was resized since it had shape ", before,
      ", which does not match the required output shape ", wanted,
      ". This behavior is deprecated, and in a future PyTorch release outputs will not be resized unless "
      "they have zero elements. You can explicitly reuse an out tensor t by resizing it, inplace, to zero "
      "elements with t.resize_(0).");
}

// What torch gives an out= tensor to hold a result of shape `wanted`: the product of a vector and a matrix is
// written as that of a matrix of one row.
std::vector<int64_t> shape_written(const OpInfo& info, Arguments inputs, at::IntArrayRef wanted) {
  std::vector<int64_t> shape = wanted.vec();
  if (info.overload == "matmul.out" && inputs[0].toTensor().dim() == 1 && inputs[1].toTensor().dim() == 2)
    shape.insert(shape.begin(), 1);
  return shape;
}

// In-place and out= operators: the functional twin computes, the result is written to the arguments.
void record_write(Capture& c, const OpInfo& info, Stack* stack) {
  size_t n = info.arguments();
  std::vector<c10::IValue> arguments(stack->end() - n, stack->end());
  const OpInfo& functional = *info.twin;
  std::vector<c10::IValue> inputs;
  for (size_t i = 0; i < n; ++i) {
    if (!info.op.schema().arguments()[i].is_out()) inputs.push_back(arguments[i]);
  }
  InferredResults inferred = infer(c, functional, inputs);
  std::vector<at::Tensor> targets, read;
  for (size_t i : info.written)
    for_each_tensor(arguments[i], [&](const at::Tensor& t) { targets.push_back(t); });
  for (const c10::IValue& a : inputs) for_each_tensor(a, [&](const at::Tensor& t) { read.push_back(t); });
  for (size_t i = 0; i < targets.size() && i < inferred.tensors.size(); ++i) {
    TensorMeta& m = inferred.tensors[i];
    at::IntArrayRef wanted(m.sizes);
    if (targets[i].sizes() == wanted) {
      const std::vector<int64_t> written = shape_written(info, inputs, wanted);
      if (has_out_arguments(info) && element_count(wanted) > 0 && wanted != at::IntArrayRef(written))
        warn_of_resizing(wanted, written);
      continue;
    }
    if (has_out_arguments(info)) {
      at::Tensor fresh = wrap_host(at::empty(wanted, at::TensorOptions().dtype(targets[i].scalar_type())));
      const std::vector<int64_t> before = targets[i].sizes().vec();
      if (c.memory().resize(targets[i], wanted, fresh)) {
        const std::vector<int64_t> written = shape_written(info, inputs, wanted);
        if (element_count(before) > 0 && before != written) warn_of_resizing(before, written);
        continue;
      }
    }
    throw Error(ErrorCode::kTypeMismatch, "output shape mismatch: " + info.domain + "::" + info.overload +
                                              " writes a result of shape " + to_string(wanted) +
                                              " to a tensor of shape " + to_string(targets[i].sizes()));
  }
  // The memory keeps its element type. What computes in a type of its own, if none is said, computes in that.
  const std::optional<int> dtype = functional.op.schema().argumentIndexWithName("dtype");
  const bool follows_target = dtype && inputs[static_cast<size_t>(*dtype)].isNone();
  for (size_t i = 0; i < targets.size() && i < inferred.tensors.size(); ++i) {
    const at::ScalarType from = inferred.tensors[i].dtype, to = targets[i].scalar_type();
    if (!c10::canCast(from, to))
      throw Error(ErrorCode::kTypeMismatch,
                  "element type mismatch: " + info.domain + "::" + info.overload + ": result type " +
                      c10::toString(from) + " can't be cast to the desired output type " + c10::toString(to));
    if (follows_target) inferred.tensors[i].dtype = to;
  }
  std::vector<ir::Value*> values = import_or_collect(c, functional, info, inputs, inferred.tensors);
  for (size_t i = 0; i < targets.size() && i < values.size(); ++i) {
    c.memory().write(targets[i], fit(c.builder(), values[i], targets[i]));
    attach_gradient(read, targets[i]);
  }
  torch::jit::drop(*stack, n);
  for (size_t i = 0; i < info.returns(); ++i) {
    if (info.same_as[i] >= 0) stack->push_back(arguments[info.same_as[i]]);
  }
}

}  // namespace

ir::Value* fit(ir::Builder& builder, ir::Value* value, const at::Tensor& target) {
  const ir::Type type = ir_type(target.sizes(), target.scalar_type());
  if (value->type().dtype != type.dtype) {
    value = ops::build(builder, "cast", {value}, {{"dtype", type.dtype}});
  }
  if (value->type().shape != type.shape) {
    value = ops::build(builder, "expand", {value}, {{"shape", type.shape}});
  }
  return value;
}

// Dropout that drops nothing gives its input itself, as in torch: what is written to it is written to that.
bool is_idle_dropout(const OpInfo& info, Arguments arguments) {
  static const std::unordered_set<std::string> names = {"dropout", "feature_dropout", "alpha_dropout",
                                                        "feature_alpha_dropout"};
  return names.count(info.overload) > 0 && (!arguments[2].toBool() || arguments[1].toDouble() == 0.0);
}

void record(Capture& c, const OpInfo& info, Stack* stack) {
  if (select_by_known_mask(c, info, stack)) return;
  const Arguments given(stack->data() + stack->size() - info.arguments(), info.arguments());
  if (info.dynamic_shape && info.twin == nullptr && info.overload != "index.Tensor" &&
      !has_known_shape(info, given) && settle_known_values(c, info, stack))
    return run_on_host(info, stack);
  if (is_idle_dropout(info, Arguments(stack->data() + stack->size() - info.arguments(), info.arguments()))) {
    torch::jit::drop(*stack, 2);
    return;
  }
  settle_known_masks(c, info, stack);
  c.start_op(info);
  if (info.twin != nullptr) return record_write(c, info, stack);
  size_t n = info.arguments();
  std::vector<c10::IValue> arguments(stack->end() - n, stack->end());
  InferredResults inferred = infer(c, info, arguments);
  std::vector<ir::Value*> values = import_or_collect(c, info, info, arguments, inferred.tensors);
  std::vector<at::Tensor> inputs;
  for (const c10::IValue& a : arguments)
    for_each_tensor(a, [&](const at::Tensor& t) { inputs.push_back(t); });
  std::shared_ptr<ViewStep> step;
  at::Tensor viewed;
  if (info.viewed >= 0 && arguments[info.viewed].isTensor() && info.importer != nullptr) {
    viewed = arguments[info.viewed].toTensor();
    step = Views::step_of(info, arguments);
    for (const TensorMeta& m : inferred.tensors) step->types.push_back(ir_type(m));
    step->generation = c.memory().slot_of(viewed)->base->generation;
    step->values = values;
  }
  size_t next = 0;
  auto make = [&] {
    size_t i = next++;
    at::Tensor t = step ? c.memory().new_view(inferred.tensors[i], viewed, step, i, values[i])
                        : c.memory().new_tensor(inferred.tensors[i], values[i]);
    attach_gradient(inputs, t);
    return t;
  };
  torch::jit::drop(*stack, n);
  for (int layout : inferred.layout) {
    if (layout == -2) {
      stack->emplace_back(at::Tensor());
    } else if (layout == -1) {
      stack->emplace_back(make());
    } else {
      c10::List<at::Tensor> list;
      for (int i = 0; i < layout; ++i) list.push_back(make());
      stack->emplace_back(std::move(list));
    }
  }
}

void move_view(const OpInfo& info, Stack* stack) {
  size_t n = info.arguments();
  at::Tensor self = torch::jit::peek(*stack, 0, n).toTensor();
  Stack call(stack->end() - n, stack->end());
  info.twin->op.callBoxed(&call);
  at::Tensor moved = call.back().toTensor();
  IpuTensorImpl* impl = impl_of(self);
  if (Capture* c = Capture::current()) c->memory().note_view(*impl);
  impl->history = impl_of(moved)->history;
  impl->become(moved.sizes(), moved.strides(), moved.storage_offset(), impl_of(moved)->slot);
  impl->detached = impl->detached || impl_of(moved)->detached;
  torch::jit::drop(*stack, n);
  stack->emplace_back(self);
}

}  // namespace ipu::frontends::torch_frontend
