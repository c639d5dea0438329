// Running: argument check, results allocated here, one run of the session.
#include "frontends/torch/executor/executor.h"

#include <ATen/Functions.h>

#include <algorithm>

#include "frontends/torch/device_key.h"
#include "frontends/torch/host_memory.h"
#include "frontends/torch/shared_memory.h"

namespace ipu::frontends::torch_frontend {
namespace {

std::string describe(at::IntArrayRef shape) {
  return to_string(std::span<const int64_t>(shape.data(), shape.size()));
}

// What forward() does to the tensor it is given. Of a call of several micro-batches it gets parts, which are
// tensors of their own.
void move_dimensions(const at::Tensor& t, const std::vector<int64_t>& dims) {
  c10::SmallVector<int64_t, 8> sizes(dims.size(), 1), strides(dims.size(), 1);
  for (size_t d = dims.size(); d-- > 0;) {
    if (dims[d] >= 0) {
      sizes[d] = t.size(dims[d]);
      strides[d] = t.stride(dims[d]);
    } else if (d + 1 < dims.size()) {
      strides[d] = sizes[d + 1] * strides[d + 1];
    }
  }
  at::AutoDispatchBelowADInplaceOrView below;
  t.as_strided_(sizes, strides, t.storage_offset());
}

}  // namespace

bool Executor::accepts(size_t i, const at::TensorBase& t) const {
  const Input& input = inputs_[i];
  return t.scalar_type() == input.dtype && has_host_memory(t) && t.sizes() == at::IntArrayRef(input.shape) &&
         t.is_contiguous() && !t.is_neg() && !t.requires_grad();
}

void Executor::raise_mismatch(size_t i, const at::TensorBase& t) const {
  const Input& input = inputs_[i];
  std::string cure =
      "\n  try:      a new wrapper for the new inputs, or destroy() and call again; the compiled shapes are "
      "fixed";
  if (!t.device().is_cpu()) {
    throw Error(ErrorCode::kTypeMismatch,
                "Inputs must be on the CPU: " + input.name + " is on " + t.device().str() + cure);
  }
  if (t.scalar_type() != input.dtype) {
    throw Error(ErrorCode::kTypeMismatch, "Data type mismatch for " + input.name + ": expected " +
                                              c10::toString(input.dtype) + ", got " +
                                              c10::toString(t.scalar_type()) + cure);
  }
  if (!has_host_memory(t)) refuse_memory(t, "input '" + input.name + "'");
  throw Error(ErrorCode::kTypeMismatch, "Shape mismatch for " + input.name + ": expected " +
                                            describe(input.shape) + ", got " + describe(t.sizes()) + cure);
}

// What forward() writes must be shared with the inputs it was shared with when the model was captured, and
// with no other: the program knows one of the two meanings.
void Executor::check_written(at::ArrayRef<at::Tensor> inputs) const {
  for (const Mutated& m : mutated_) {
    const auto refuse = [&](const std::string& why) {
      throw Error(ErrorCode::kExecution,
                  "shared memory: forward() writes input '" + inputs_[m.input].name + "', " + why);
    };
    if (repeats_elements(inputs[m.input]))
      refuse("of which several elements are one place in memory (expand).\n  try:      x.contiguous()");
    for (size_t j = 0; j < inputs.size(); ++j) {
      if (static_cast<int>(j) == m.input) continue;
      const Sharing sharing = sharing_of(inputs[m.input], inputs[j]);
      if (std::find(m.also.begin(), m.also.end(), static_cast<int>(j)) != m.also.end()) {
        if (sharing != Sharing::kWhole)
          refuse("which was the same tensor as input '" + inputs_[j].name +
                 "' when the model was compiled and is another one now.\n"
                 "  try:      a new wrapper for calls with different tensors");
      } else if (sharing != Sharing::kNone) {
        refuse("which shares memory with input '" + inputs_[j].name +
               "' and did not when the model was compiled.\n"
               "  try:      give one of them a copy, x.clone()");
      }
    }
  }
}

std::optional<std::vector<at::Tensor>> Executor::run(at::ArrayRef<at::Tensor> inputs) {
  if (inputs.size() != inputs_.size()) {
    throw Error(ErrorCode::kTypeMismatch, "Number of positional arguments mismatch: expected " +
                                              std::to_string(inputs_.size()) + " tensors, got " +
                                              std::to_string(inputs.size()));
  }
  ErrorContext activity("running");
  std::vector<at::Tensor> results(outputs_.size());
  runtime::Session::Call call(*session_);
  if (!call.is_accepted()) return std::nullopt;
  std::vector<at::Tensor> kept;  // converted inputs
  for (size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor* t = &inputs[i];
    if (!accepts(i, *t)) {
      if (t->scalar_type() != inputs_[i].dtype || !has_host_memory(*t) ||
          t->sizes() != at::IntArrayRef(inputs_[i].shape)) {
        raise_mismatch(i, *t);
      }
      kept.push_back(t->detach().resolve_neg().contiguous());
      t = &kept.back();
    }
    at::Tensor converted;
    if (inputs_[i].stream_dtype != inputs_[i].dtype) {
      converted = t->to(inputs_[i].stream_dtype);
      kept.push_back(converted);
      t = &converted;
    }
    for (int s : inputs_[i].streams) {
      // The engine only reads inputs.
      call.bind(s, const_cast<std::byte*>(host_data(*t)), inputs_[i].items);
    }
  }
  if (!mutated_.empty()) check_written(inputs);
  std::vector<at::Tensor> written_back;
  auto bind = [&](Output& o) {
    at::Tensor t = o.memory.tensor(o.shape, o.dtype);
    call.bind(o.stream, mutable_host_data(t), o.items, emulator::Ownership::kOwned);
    return t;
  };
  for (size_t k = 0; k < outputs_.size(); ++k) {
    if (outputs_[k].stream >= 0 && outputs_[k].same_as < 0) results[k] = bind(outputs_[k]);
  }
  for (Mutated& m : mutated_) written_back.push_back(bind(m.output));
  const bool synthetic = synthetic_data_ != 0;
  if (synthetic && session_->program() != nullptr) bind_synthetic(call);
  call.run();
  if (has_wide_floats_ && call.take_narrowed_values() > 0) warn_of_inputs(inputs);
  if (synthetic) {  // nothing came from the device
    for (at::Tensor& result : results)
      if (result.defined()) result.zero_();
    written_back.clear();
  }
  for (size_t k = 0; k < outputs_.size(); ++k) {
    if (outputs_[k].stream < 0)
      results[k] = outputs_[k].constant.clone();
    else if (outputs_[k].same_as >= 0)
      results[k] = results[outputs_[k].same_as].clone();
  }
  for (size_t i = 0; i < written_back.size(); ++i) {
    at::Tensor value = written_back[i];
    if (mutated_[i].replicas.defined()) {  // replicas of a group wrote the same
      const at::Tensor& target = inputs[mutated_[i].input];
      const program::Program& program = *session_->program();
      const int64_t per_replica = mutated_[i].output.items / program.replicas;
      value = value.unflatten(0, {per_replica, program.replicas, -1})
                  .index_select(1, mutated_[i].replicas)
                  .view(target.sizes());
    }
    const at::Tensor& target = inputs[mutated_[i].input];
    if (target.sizes() != value.sizes()) target.resize_(value.sizes());  // forward() gave it to out=
    target.detach().copy_(value);
  }
  for (const executable::Signature::Moved& m : signature_.moved)
    if (inputs_[m.input].items == 1) move_dimensions(inputs[m.input], m.dims);
  return results;
}

}  // namespace ipu::frontends::torch_frontend
