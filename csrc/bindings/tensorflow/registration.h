// Ops and kernels as tables: each file of kernels registers its own when the library is loaded.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>

#include "bindings/tensorflow/status.h"
#include "bindings/tensorflow/tensorflow_c_api.h"

namespace ipu::tensorflow {

struct OpSpec {
  const char* name;
  std::initializer_list<const char*> attributes = {};
  std::initializer_list<const char*> inputs = {};
  std::initializer_list<const char*> outputs = {};
  bool is_stateful = true;
};
// An op whose results have shapes that only Python knows. A mistake here ends the process: it is one of the library.
void register_op(const OpSpec& spec);

std::string string_attribute(TF_OpKernelConstruction* construction, const char* name);
int64_t integer_attribute(TF_OpKernelConstruction* construction, const char* name);

// `Kernel` has a constructor of TF_OpKernelConstruction*, and compute(TF_OpKernelContext*); what they throw becomes the status.
template <typename Kernel>
void* create_kernel(TF_OpKernelConstruction* construction) {
  try {
    return new Kernel(construction);
  } catch (...) {
    fail(construction, std::current_exception());
    return nullptr;
  }
}
template <typename Kernel>
void delete_kernel(void* kernel) {
  delete static_cast<Kernel*>(kernel);
}
void register_builder(const char* op, TF_KernelBuilder* builder);

template <typename Kernel>
void register_kernel(const char* op) {
  const auto compute = [](void* kernel, TF_OpKernelContext* context) {
    try {
      static_cast<Kernel*>(kernel)->compute(context);
    } catch (...) {
      fail(context, std::current_exception());
    }
  };
  register_builder(op, TF_NewKernelBuilder(op, "CPU", create_kernel<Kernel>, compute, delete_kernel<Kernel>));
}

// The end of a computation that goes on after compute() has returned. Called once, from any thread.
// TensorFlow's callback is a std::function<void()> that lives only until compute() returns, although its C API does not say so:
// it is copied, which relies on the layout of the standard library and on no type of TensorFlow.
class Done {
 public:
  Done(TF_OpKernelContext* context, TF_AsyncOpKernelDoneCallback* callback)
      : context_(context),
        callback_(
            std::make_shared<std::function<void()>>(*reinterpret_cast<std::function<void()>*>(callback))) {}
  TF_OpKernelContext* context() const { return context_; }
  void operator()(const std::exception_ptr& raised = nullptr) const {
    if (raised != nullptr) fail(context_, raised);
    TF_RunAsyncOpKernelDoneCallback(reinterpret_cast<TF_AsyncOpKernelDoneCallback*>(callback_.get()));
  }

 private:
  TF_OpKernelContext* context_;
  std::shared_ptr<std::function<void()>> callback_;
};

// compute(TF_OpKernelContext*, Done): no thread of TensorFlow is held until `Done` is called.
template <typename Kernel>
void register_async_kernel(const char* op) {
  const auto compute = [](void* kernel, TF_OpKernelContext* context, TF_AsyncOpKernelDoneCallback* callback) {
    const Done done(context, callback);
    try {
      static_cast<Kernel*>(kernel)->compute(context, done);
    } catch (...) {
      done(std::current_exception());
    }
  };
  register_builder(
      op, TF_NewAsyncKernelBuilder(op, "CPU", create_kernel<Kernel>, compute, delete_kernel<Kernel>));
}

}  // namespace ipu::tensorflow
