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
  // Constants above this many elements print as a content hash, which ParseOptions has to allow (dumps for reading).
  int64_t max_constant_elements = INT64_MAX;
};

std::string print(const Module& module, const PrintOptions& options = {});
std::string print(const Graph& graph, const PrintOptions& options = {});
std::string print(const Op& op, const PrintOptions& options = {});

struct ParseOptions {
  // A constant that was printed as a hash is that text, "#123", and the initial value of a variable is absent: a module for
  // reading alone.
  bool hashed_constants = false;
};

// Throws Error(kParse) naming line, column, what was found and what was expected. Linear in the text; nesting
// of attributes is bounded. `source_name` appears in messages.
std::unique_ptr<Module> parse(std::string_view text, std::string_view source_name = "<text>",
                              const ParseOptions& options = {});

}  // namespace ipu::ir
