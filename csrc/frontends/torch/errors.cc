#include "frontends/torch/errors.h"

namespace ipu::frontends::torch_frontend {
namespace {

RaiseFunction raise_function = nullptr;

}  // namespace

void set_raise_function(RaiseFunction raise) { raise_function = raise; }

void raise_through_torch(const Error& error) {
  if (raise_function != nullptr) raise_function(error);
  throw error;
}

}  // namespace ipu::frontends::torch_frontend
