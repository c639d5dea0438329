// Where the elements of a host stream lie in the user's tensors, and their conversion at the edge.
// Order of elements (and of All outputs): device iteration, accumulation step, replica (inputs: group of
// replicas that are fed the same), slowest first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "emulator/engine.h"
#include "program/program.h"

namespace ipu::emulator {

class HostStream {
 public:
  HostStream(const program::Stream& stream, const program::Program& program);

  // Elements one replica may load or store in a run; a constant input gives its one element for ever.
  static int64_t elements_per_replica(const program::Stream& stream, const program::Program& program);
  bool has_element(int64_t cursor) const { return cursor < elements_per_replica_; }

  // Elements a binding must have for one run.
  int64_t elements_per_run() const { return elements_; }
  int64_t host_bytes() const { return host_bytes_; }  // of one element
  int64_t device_bytes() const { return device_bytes_; }
  std::span<const std::byte> element(const std::byte* host) const {
    return {host, static_cast<size_t>(host_bytes_)};
  }
  bool converts() const { return converts_; }

  // Address of the `cursor`th element replica `replica` loads.
  const std::byte* load_address(const StreamBinding& binding, int64_t cursor, int replica) const {
    int64_t element = constant_ ? 0 : cursor * input_groups_ + groups_.group_of(replica);
    return binding.data + element * host_bytes_;
  }
  // Place of the `cursor`th element among those of one replica that reach the host; -1: it does not.
  int64_t position(int64_t cursor) const;
  int64_t positions() const { return constant_ ? 0 : elements_ / replicas_; }
  // Copies an element to the device's buffer; returns how many f64 values became infinite in f32, or kUnfit
  // where an i64 value is no i32: a wrong number is never right, so that ends the run with raise_unfit().
  static constexpr int64_t kUnfit = -1;
  int64_t load(const std::byte* from, std::byte* to) const;
  // Error(kExecution) that names the input, the first value of the element at `from` that does not fit, and
  // the bounds.
  [[noreturn]] void raise_unfit(const StreamBinding& binding, const std::byte* from) const;
  // Takes the `cursor`th element of a replica as the stream's mode says.
  void store(const StreamBinding& binding, int64_t cursor, int replica, const std::byte* from) const;

 private:
  std::string name_;
  Shape shape_;
  program::StreamMode mode_;
  DType device_, host_;
  int64_t count_, device_bytes_, host_bytes_, elements_, period_, accumulation_, last_, elements_per_replica_;
  int64_t replicas_, input_groups_;
  ReplicaGrouping groups_;
  bool constant_, converts_;
};

}  // namespace ipu::emulator
