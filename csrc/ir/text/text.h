// The text form of the IR: printing then parsing gives the same module. Grammar in docs/ir.md.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "ir/module.h"

namespace ipu::ir {

struct PrintOptions {
  bool locations = true;
  bool origins = true;
  // Constants above this many elements print as a content hash and do not parse back (dumps for reading).
  int64_t max_constant_elements = INT64_MAX;
};

std::string print(const Module& module, const PrintOptions& options = {});
std::string print(const Graph& graph, const PrintOptions& options = {});
std::string print(const Op& op, const PrintOptions& options = {});

// Throws Error(kParse) naming line, column, what was found and what was expected. Linear in the text; nesting
// of attributes is bounded. `source_name` appears in messages.
std::unique_ptr<Module> parse(std::string_view text, std::string_view source_name = "<text>");

}  // namespace ipu::ir
