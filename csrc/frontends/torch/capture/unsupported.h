// Operators without an IPU implementation that one capture has met: all of them are reported in one error.
#pragma once

#include <string>
#include <vector>

#include "ir/module.h"

namespace ipu::frontends::torch_frontend {

class UnsupportedOps {
 public:
  void add(const std::string& name, const std::string& detail, ir::Location location);
  bool empty() const { return ops_.empty(); }
  // Error(kUnsupportedOps); `complete`: forward() was captured to its end. Locations are resolved.
  [[noreturn]] void raise(bool complete) const;

 private:
  struct Op {
    std::string name, detail;
    int64_t count = 0;
    std::vector<ir::Location> lines;
  };
  std::vector<Op> ops_;
};

}  // namespace ipu::frontends::torch_frontend
