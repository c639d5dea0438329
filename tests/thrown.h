// What a call throws, for tests of errors.
#pragma once

#include <string>

#include "support/error.h"

namespace ipu {

// The message of the Error that the call throws, or "no error".
template <typename Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

}  // namespace ipu
