// The bytes of the values that live side by side on each IPU, over a module in the functional form (tile_memory.h says
// what shares memory).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ir/module.h"

namespace ipu::report {

// Bytes that an op needs on its IPU while it runs, besides its operands and results. nullptr: no op does.
using Extra = std::function<int64_t(const ir::Op&)>;

// By the places of IPUs in the sorted list `ipus`, which has all that the module names.
std::vector<int64_t> live_at_peak(const ir::Module& module, const std::vector<int>& ipus,
                                  const Extra& extra = nullptr);

// What lies side by side when the most does.
struct Moment {
  struct Live {
    const ir::Value* value;  // of those in one memory the one it was made for
    int64_t bytes;
  };
  int64_t bytes = 0;              // `extra` included
  const ir::Op* op = nullptr;     // that runs; nullptr: nothing is ever alive
  std::vector<Live> values = {};  // in order of their making
};
std::vector<Moment> moments_of_peak(const ir::Module& module, const std::vector<int>& ipus,
                                    const Extra& extra);

// The IPU of a value: that of its op, else of its first reader that has one, else 0.
int ipu_of(const ir::Value& value);

}  // namespace ipu::report
