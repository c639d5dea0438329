#include "frontends/torch/capture/annotations/function_watch.h"

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include <atomic>
#include <memory>
#include <string_view>

namespace ipu::frontends::torch_frontend {
namespace {

// One for the whole process, because torch passes callbacks of a thread on to threads that work for it.
std::atomic<FunctionWatch* (*)()> current_watch{nullptr};

}  // namespace

void FunctionWatch::start(FunctionWatch* (*current)()) {
  struct Entered final : at::ObserverContext {};
  current_watch = current;
  others_ = at::get_record_function_tls_();
  at::set_record_function_tls_({});
  callback_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(
          [](const at::RecordFunction& f) -> std::unique_ptr<at::ObserverContext> {
            FunctionWatch* watch = current_watch.load()();
            if (watch == nullptr || f.operator_name() || std::string_view(f.name()).substr(0, 6) == "detach")
              return nullptr;
            watch->modes_.push_back(at::GradMode::is_enabled());
            return std::make_unique<Entered>();
          },
          [](const at::RecordFunction&, at::ObserverContext* context) {
            FunctionWatch* watch = current_watch.load()();
            if (context != nullptr && watch != nullptr && !watch->modes_.empty()) watch->modes_.pop_back();
          })
          .scopes({at::RecordScope::FUNCTION}));
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

}  // namespace ipu::frontends::torch_frontend
