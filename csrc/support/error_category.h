// What kind of mistake an error is, for callers that have a number of a status in place of exceptions.
#pragma once

#include "support/error.h"

namespace ipu {

// With the numbers that absl::Status, gRPC and TensorFlow give them.
enum class ErrorCategory : int {
  kCancelled = 1,
  kInvalidArgument = 3,
  kNotFound = 5,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,  // right at another moment, or with other settings
  kOutOfRange = 11,         // the data have ended
  kUnimplemented = 12,
  kInternal = 13,  // ours, the device's, or what the program itself calls a failure
};

// By the reason of the error; where the table has none of it, by its code.
ErrorCategory category_of(const Error& error);

}  // namespace ipu
