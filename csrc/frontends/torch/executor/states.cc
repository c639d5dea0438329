// States and optimizer state, to the device and back.
#include <ATen/Functions.h>
#include <ATen/ops/empty.h>

#include "frontends/torch/capture/memory/constants.h"
#include "frontends/torch/device_key.h"
#include "frontends/torch/executor/executor.h"
#include "frontends/torch/host_memory.h"
#include "support/log.h"
#include "support/narrowing.h"

namespace ipu::frontends::torch_frontend {
namespace {

runtime::ConstHostView view_of(const at::Tensor& t, DType dtype) {
  return {dtype, t.sizes().vec(), {host_data(t), t.nbytes()}};
}

runtime::HostView mutable_view_of(at::Tensor& t, DType dtype) {
  return {dtype, t.sizes().vec(), {mutable_host_data(t), t.nbytes()}};
}

// The values as the device has them, plain; how many finite ones became infinite. A wrong integer is never right.
std::pair<at::Tensor, int64_t> narrowed(const std::string& name, const at::Tensor& tensor, DType dtype) {
  if (!narrows(*host_dtype(tensor.scalar_type()), dtype))
    return {tensor.to(scalar_type(dtype)).contiguous(), 0};
  const at::Tensor wide = tensor.resolve_neg().contiguous();
  at::Tensor plain = at::empty(wide.sizes(), at::TensorOptions().dtype(scalar_type(dtype)));
  const std::byte* from = host_data(wide);
  const int64_t lost = narrow(from, dtype, mutable_host_data(plain), wide.numel());
  if (lost != kUnfit) return {plain, lost};
  throw Error(
      ErrorCode::kExecution,
      "integer does not fit: " + name + " holds " +
          std::to_string(read_i64(from, first_unfit(from, wide.numel()))) +
          ", outside of [-2147483648, 2147483647]; the IPU has 32-bit integers, so bring the values in "
          "range on the host");
}

}  // namespace

// Once per name.
void Executor::warn_of_infinite(const std::string& name, int64_t count) {
  if (count == 0 || !warned_of_infinite_.insert(name).second) return;
  log(LogLevel::kWarn, name + " holds " + std::to_string(count) + (count == 1 ? " value" : " values") +
                           " beyond float32, the type the device computes in: infinite there. Said once.");
}

// Cold: only after the engine has seen such a value.
void Executor::warn_of_inputs(at::ArrayRef<at::Tensor> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (const std::string what = "input '" + inputs_[i].name + "'"; inputs[i].scalar_type() == at::kDouble)
      warn_of_infinite(what, narrowed(what, inputs[i].detach(), DType::kF32).second);
}

void Executor::write_states(const std::map<std::string, at::Tensor>& states) {
  if (session_->program() == nullptr) return;
  runtime::Session::Access device(*session_, "copying weights to the device");
  for (const auto& [name, tensor] : states) {
    const program::Variable* v = session_->variables().find(name);
    if (v == nullptr) continue;
    require_host_memory(tensor, "'" + name + "'");
    required_device_dtype("'" + name + "'", tensor.scalar_type());
    const auto [plain, lost] = narrowed("'" + name + "'", tensor.detach(), v->spec.dtype);
    device.check(*v, view_of(plain, v->spec.dtype));
    warn_of_infinite("'" + name + "'", lost);
    device.write(*v, view_of(plain, v->spec.dtype));
  }
}

void Executor::read_states(const std::map<std::string, at::Tensor>& states) {
  if (session_->program() == nullptr) return;
  const runtime::Session::Access device(*session_, "copying weights to the host");
  for (const auto& [name, tensor] : states) {
    const program::Variable* v = session_->variables().find(name);
    if (v == nullptr || !v->written) continue;
    require_host_memory(tensor, "'" + name + "'");
    at::Tensor host = tensor.detach();
    const at::ScalarType dtype = scalar_type(v->spec.dtype);
    const bool direct = host.is_contiguous() && host.scalar_type() == dtype;
    at::Tensor plain = direct ? host : at::empty(host.sizes(), at::TensorOptions().dtype(dtype));
    device.read(*v, mutable_view_of(plain, v->spec.dtype));
    if (!direct) host.copy_(plain);
  }
}

std::map<std::string, at::Tensor> Executor::read_optimizer_state() {
  std::map<std::string, at::Tensor> state;
  if (session_->program() == nullptr) return state;
  const runtime::Session::Access device(*session_, "reading the optimizer state");
  for (const program::Variable& v : session_->program()->variables) {
    if (v.role != "optimizer_state") continue;
    at::Tensor t =
        at::empty(session_->variables().host_shape(v), at::TensorOptions().dtype(scalar_type(v.spec.dtype)));
    device.read(v, mutable_view_of(t, v.spec.dtype));
    state.emplace(v.name, std::move(t));
  }
  return state;
}

void Executor::write_optimizer_state(const std::map<std::string, at::Tensor>& state) { write_states(state); }

}  // namespace ipu::frontends::torch_frontend
