// Internal values that a session keeps of each run beside what the caller bound.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "emulator/streams/array_port.h"
#include "program/program.h"
#include "support/shape.h"

namespace ipu::runtime {

// All elements of one stream in one run, one behind the other along the first dimension.
struct HostArray {
  DType dtype = DType::kF32;
  Shape shape;
  std::shared_ptr<std::byte[]> data;  // nullptr: no run has given it
};

class Anchors {
 public:
  // `streams`: the output stream of each anchor by its name.
  Anchors(const program::Program* program, const std::map<std::string, int>& streams);

  bool has(const std::string& name) const { return anchors_.contains(name); }
  // Returns what the last run wrote. Later runs do not change it: each run has memory of its own.
  HostArray value(const std::string& name) const;
  // New memory for the next run.
  void bind(std::span<emulator::ArrayPort> arrays);

 private:
  struct Anchor {
    int stream = -1;
    int64_t elements = 0, bytes = 0;
    HostArray value;
  };
  std::map<std::string, Anchor> anchors_;
};

}  // namespace ipu::runtime
