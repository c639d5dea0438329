// What an executor does around a run: settings, synthetic data, anchors, times.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/normal.h>

#include "frontends/torch/device_key.h"
#include "frontends/torch/executor/executor.h"

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
    for (int s : inputs_[i].streams)
      call.bind(s, static_cast<std::byte*>(synthetic_[i].mutable_data_ptr()), inputs_[i].items);
}

at::Tensor Executor::anchored(const std::string& short_name) {
  const runtime::HostArray value = session_->anchored(short_name);
  if (value.data == nullptr) return {};
  return at::from_blob(
      value.data.get(), value.shape, [owner = value.data](void*) {},
      at::TensorOptions().dtype(scalar_type(value.dtype)));
}

std::vector<std::vector<std::pair<double, double>>> Executor::transfer_times(bool inputs) {
  if (synthetic_data_ != 0) return {};
  std::vector<int> streams;
  if (inputs) {
    for (const Input& input : inputs_)
      if (!input.streams.empty()) streams.push_back(input.streams.front());
  } else {
    for (const Output& output : outputs_)
      if (output.stream >= 0 && output.same_as < 0) streams.push_back(output.stream);
  }
  return session_->transfer_times(streams);
}

}  // namespace ipu::frontends::torch_frontend
