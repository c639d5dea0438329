// Lets operators called meanwhile reach the CPU, for they are ours and not the user's: PrivateUse1 is taken out
// of the thread's included keys.
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

#include "frontends/torch/device_key.h"

namespace ipu::frontends::torch_frontend {

class WithoutCapture {
 public:
  WithoutCapture() : saved_(c10::impl::tls_local_dispatch_key_set()) {
    c10::impl::LocalDispatchKeySet keys = saved_;
    const uint64_t ours = c10::DispatchKeySet(kKey).raw_repr();
    keys.included_ = c10::DispatchKeySet(c10::DispatchKeySet::RAW, keys.included_.raw_repr() & ~ours);
    c10::impl::_force_tls_local_dispatch_key_set(keys);
  }
  ~WithoutCapture() { c10::impl::_force_tls_local_dispatch_key_set(saved_); }
  WithoutCapture(const WithoutCapture&) = delete;
  WithoutCapture& operator=(const WithoutCapture&) = delete;

 private:
  c10::impl::LocalDispatchKeySet saved_;
};

}  // namespace ipu::frontends::torch_frontend
