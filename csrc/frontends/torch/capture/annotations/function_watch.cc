#include "frontends/torch/capture/annotations/function_watch.h"

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include <atomic>
#include <memory>
#include <string_view>

#include "frontends/torch/capture/memory/ipu_tensor.h"
#include "frontends/torch/capture/operators/stack.h"

namespace ipu::frontends::torch_frontend {
namespace {

// One for the whole process, because torch passes callbacks of a thread on to threads that work for it.
std::atomic<FunctionWatch* (*)()> current_watch{nullptr};

// The meta tensor of a call that takes an IPU tensor, too; else undefined.
at::Tensor meta_beside_ipu(c10::ArrayRef<const c10::IValue> inputs) {
  bool ours = false;
  at::Tensor meta;
  for (const c10::IValue& input : inputs) {
    for_each_tensor(input, [&](const at::Tensor& t) {
      ours = ours || is_ours(t);
      if (t.is_meta()) meta = t;
    });
  }
  return ours ? meta : at::Tensor();
}

struct Entered final : at::ObserverContext {
  explicit Entered(bool is_function) : is_function(is_function) {}
  const bool is_function;  // of autograd; else a call with mixed operands
};

}  // namespace

std::unique_ptr<at::ObserverContext> FunctionWatch::enter(const at::RecordFunction& call) {
  FunctionWatch* watch = current_watch.load()();
  if (watch == nullptr) return nullptr;
  if (call.operator_name()) {
    at::Tensor meta = meta_beside_ipu(call.inputs());
    if (!meta.defined()) return nullptr;
    watch->mixed_calls_.push_back({call.name(), std::move(meta)});
    return std::make_unique<Entered>(false);
  }
  if (std::string_view(call.name()).substr(0, 6) == "detach") return nullptr;
  watch->modes_.push_back(at::GradMode::is_enabled());
  return std::make_unique<Entered>(true);
}

void FunctionWatch::leave(const at::RecordFunction&, at::ObserverContext* context) {
  FunctionWatch* watch = current_watch.load()();
  if (context == nullptr || watch == nullptr) return;
  if (!static_cast<Entered*>(context)->is_function) {
    if (!watch->mixed_calls_.empty()) watch->mixed_calls_.pop_back();
  } else if (!watch->modes_.empty()) {
    watch->modes_.pop_back();
  }
}

void FunctionWatch::start(FunctionWatch* (*current)()) {
  current_watch = current;
  others_ = at::get_record_function_tls_();
  at::set_record_function_tls_({});
  at::RecordFunctionCallback callback(&FunctionWatch::enter, &FunctionWatch::leave);
  callback_ = at::addThreadLocalCallback(callback.needsInputs(true).scopes({at::RecordScope::FUNCTION}));
}

void FunctionWatch::stop() {
  if (callback_ == 0) return;
  at::removeCallback(callback_);
  at::set_record_function_tls_(others_);
  callback_ = 0;
}

bool FunctionWatch::gradients_off() const {
  return modes_.empty() ? !at::GradMode::is_enabled() : !modes_.front();
}

const FunctionWatch::MixedCall* FunctionWatch::mixed_call() const {
  return mixed_calls_.empty() ? nullptr : &mixed_calls_.front();
}

}  // namespace ipu::frontends::torch_frontend
