// What an executor does around a run: settings, synthetic data, anchors, times.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/normal.h>

#include "frontends/torch/device_key.h"
#include "frontends/torch/executor/executor.h"
#include "frontends/torch/host_memory.h"

namespace ipu::frontends::torch_frontend {

void Executor::configure(const RunSettings& settings) {
  session_->configure(settings.session);
  synthetic_data_ = settings.synthetic_data;
}

// The same values in every run: what is measured does not depend on the data.
void Executor::bind_synthetic(runtime::Session::Call& call) {
  if (synthetic_.empty()) {
    for (const Input& input : inputs_) {
      at::Tensor data = at::detail::empty_cpu(input.shape, input.stream_dtype);
      data.zero_();
      if (synthetic_data_ == 2 && at::isFloatingType(input.stream_dtype))
        data.normal_(0.0, 1.0, at::detail::createCPUGenerator(input.shape.size() + synthetic_.size()));
      synthetic_.push_back(std::move(data));
    }
  }
  for (size_t i = 0; i < inputs_.size(); ++i)
    for (int s : inputs_[i].streams) call.bind(s, mutable_host_data(synthetic_[i]), inputs_[i].items);
}

at::Tensor Executor::anchored(const std::string& short_name) {
  const runtime::HostArray value = session_->anchored(short_name);
  if (value.data == nullptr) return {};
  return at::from_blob(
      value.data.get(), value.shape, [owner = value.data](void*) {},
      at::TensorOptions().dtype(scalar_type(value.dtype)));
}

// One list for each tensor: without elements where none is moved.
std::vector<std::vector<std::pair<double, double>>> Executor::transfer_times(bool inputs) {
  std::vector<int> of_tensor;  // its stream; -1: none
  if (inputs) {
    for (const Input& input : inputs_)
      of_tensor.push_back(input.streams.empty() ? -1 : input.streams.front());
  } else {
    for (const Output& output : outputs_)
      of_tensor.push_back(output.same_as >= 0 ? of_tensor[output.same_as] : output.stream);
  }
  std::vector<std::vector<std::pair<double, double>>> times(of_tensor.size());
  if (synthetic_data_ != 0) return times;
  std::vector<int> streams;
  for (const int stream : of_tensor)
    if (stream >= 0) streams.push_back(stream);
  auto moved = session_->transfer_times(streams);
  if (moved.empty()) return times;  // nothing has run yet
  for (size_t i = 0, next = 0; i < of_tensor.size(); ++i)
    if (of_tensor[i] >= 0) times[i] = std::move(moved.at(next++));
  return times;
}

}  // namespace ipu::frontends::torch_frontend
