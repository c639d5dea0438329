// Texts of errors with named fields, for what front ends word in their own way: who raises gives the text that names
// no API, a reason and parameters; a front end has a row of the reason with its own names and cures.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "support/error.h"

namespace ipu {

// "{needed}" in the text stands for the parameter of that name.
Error worded(ErrorCode code, std::string reason, std::string_view text, Error::Parameters parameters,
             std::string type = kCppError);

struct Wording {
  std::string_view reason;
  std::string_view text;  // fields: the parameters of the reason, and {text}, as raised
};

// The error in the words of the row of its reason; as it is, where there is none.
Error reworded(Error error, std::span<const Wording> rows);

}  // namespace ipu
