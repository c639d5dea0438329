// The element of a stream on its way between the host's dtype and the device's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "emulator/streams/stream_port.h"
#include "program/program.h"

namespace ipu::emulator {

class EdgeConversion {
 public:
  // Error(kExecution) when the two dtypes do not convert.
  explicit EdgeConversion(const program::Stream& stream);

  int64_t host_bytes() const { return host_bytes_; }  // of one element
  int64_t device_bytes() const { return device_bytes_; }

  // Copies an element to the device's buffer; returns how many f64 values became infinite in f32, or kUnfit
  // where an i64 value is no i32: a wrong number is never right, so that ends the run with raise_unfit().
  int64_t load(const std::byte* from, std::byte* to) const;
  // Error(kExecution) that names the input, the first value that does not fit of the element at `from`, the
  // `number`th that the host gave, and the bounds.
  [[noreturn]] void raise_unfit(const std::byte* from, int64_t number) const;
  // Sets the place, or adds to it.
  void store(const std::byte* from, const StreamPort::Slot& to) const;

 private:
  std::string name_;
  Shape shape_;
  DType device_, host_;
  int64_t count_, device_bytes_, host_bytes_;
  bool converts_;
};

}  // namespace ipu::emulator
