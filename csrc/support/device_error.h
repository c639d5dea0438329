// Errors of the device itself rather than of the program: transient ones name what makes the system usable
// again, persistent ones take it out of service. Not here: injecting them (emulator/faults/faults.h).
#pragma once

#include <string>
#include <utility>

#include "support/error.h"

namespace ipu {

inline constexpr const char* kRecoverableError = "poplar_recoverable_runtime_error";
inline constexpr const char* kUnrecoverableError = "poplar_unrecoverable_runtime_error";
inline constexpr const char* kUnknownRuntimeError = "poplar_unknown_runtime_error";
inline constexpr const char* kLinkError = "poplar_link_error";

class DeviceError : public Error {
 public:
  // An empty action: the fault is persistent.
  DeviceError(std::string message, std::string recovery_action)
      : Error(ErrorCode::kDeviceFault, std::move(message),
              recovery_action.empty() ? kUnrecoverableError : kRecoverableError),
        recovery_action_(std::move(recovery_action)) {}

  bool recoverable() const { return !recovery_action_.empty(); }
  const std::string& recovery_action() const { return recovery_action_; }  // "IPU_RESET", ...; "" otherwise

 private:
  std::string recovery_action_;
};

}  // namespace ipu
