#include "bindings/tensorflow/status.h"

#include <new>

#include "support/error_category.h"

namespace ipu::tensorflow {
namespace {

constexpr const char* kCodeReason = "tensorflow_code";

TF_Code code_of(const Error& error) {
  if (error.reason() == kCodeReason)
    return static_cast<TF_Code>(std::get<int64_t>(error.parameters().front().second));
  return static_cast<TF_Code>(category_of(error));  // the same numbers
}

std::string text_of(const Error& error) {
  std::string text = error.message();
  for (const std::string& activity : error.context()) text += "\n  while " + activity;
  if (!error.user_line().empty() && text.find(error.user_line()) == std::string::npos)
    text += "\n  at " + error.user_line();
  return text;
}

}  // namespace

Error error_with(TF_Code code, const std::string& text) {
  Error error(ErrorCode::kExecution, text);
  error.because(kCodeReason, {{"code", static_cast<int64_t>(code)}});
  return error;
}

void Status::check() const {
  if (!is_ok()) throw error_with(TF_GetCode(status_), TF_Message(status_));
}

void Status::set(const std::exception_ptr& raised) {
  try {
    std::rethrow_exception(raised);
  } catch (const Error& error) {
    TF_SetStatus(status_, code_of(error),
                 (error.reason() == kCodeReason ? error.text() : text_of(error)).c_str());
  } catch (const std::bad_alloc&) {
    TF_SetStatus(status_, TF_RESOURCE_EXHAUSTED, "the memory of the host is exhausted");
  } catch (const std::exception& error) {
    TF_SetStatus(status_, TF_INTERNAL, error.what());
  } catch (...) {
    TF_SetStatus(status_, TF_INTERNAL, "unknown error");
  }
}

void fail(TF_OpKernelContext* context, const std::exception_ptr& raised) {
  Status status;
  status.set(raised);
  TF_OpKernelContext_Failure(context, status.get());
}

void fail(TF_OpKernelConstruction* construction, const std::exception_ptr& raised) {
  Status status;
  status.set(raised);
  TF_OpKernelConstruction_Failure(construction, status.get());
}

}  // namespace ipu::tensorflow
