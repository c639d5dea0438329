// Errors of ours as statuses of TensorFlow, whose Python raises a class for each code.
#pragma once

#include <exception>
#include <string>

#include "bindings/tensorflow/tensorflow_c_api.h"
#include "support/error.h"

namespace ipu::tensorflow {

class Status {
 public:
  Status() : status_(TF_NewStatus()) {}
  ~Status() { TF_DeleteStatus(status_); }
  Status(const Status&) = delete;
  Status& operator=(const Status&) = delete;

  TF_Status* get() { return status_; }
  bool is_ok() const { return TF_GetCode(status_) == TF_OK; }
  // Error of TensorFlow's text, with its code.
  void check() const;
  // What `raised` says.
  void set(const std::exception_ptr& raised);

 private:
  TF_Status* status_;
};

// An error that arrives in Python as the class of `code`.
Error error_with(TF_Code code, const std::string& text);

void fail(TF_OpKernelContext* context, const std::exception_ptr& raised);
void fail(TF_OpKernelConstruction* construction, const std::exception_ptr& raised);

}  // namespace ipu::tensorflow
