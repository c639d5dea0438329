// Operators without an IPU implementation that one capture has met: all of them are reported in one error.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"

namespace ipu::frontends::torch_frontend {

class UnsupportedOps {
 public:
  // `stack`: of the place where it was called (user_lines.h).
  void add(const std::string& name, const std::string& detail, ir::Location location, std::string stack);
  bool empty() const { return ops_.empty(); }
  // Error(kUnsupportedOps). `stopped`: where capture stopped before the end of forward(), or nothing. Locations
  // are resolved.
  [[noreturn]] void raise(std::string_view stopped, std::string reason) const;

 private:
  struct Op {
    std::string name, detail;
    int64_t count = 0;
    std::vector<ir::Location> lines;
    std::string stack;  // of the first line
  };
  std::vector<Op> ops_;
};

}  // namespace ipu::frontends::torch_frontend
