// Where the elements that a run moves through a stream lie in an array of the host, and how many the array
// has. The only place that counts them. Order of the array: element of a replica, then replica (inputs: group
// of replicas that are fed the same), slowest first.
#pragma once

#include <cstdint>
#include <vector>

#include "program/program.h"
#include "program/stream_uses.h"
#include "support/shape.h"

namespace ipu::program {

class HostElements {
 public:
  // Throws Error(kInvalidProgram) when there are too many to count, and when the period of an output does not
  // divide what a run gives.
  HostElements(const Program& program, const Stream& stream, const StreamUse& use);

  bool is_used() const { return use_.is_used(); }
  bool is_exact() const { return use_.is_exact || is_constant(); }
  bool is_constant() const { return mode_ == StreamMode::kConstantInput; }
  bool keeps_all() const { return mode_ == StreamMode::kAll; }
  int64_t per_replica() const { return use_.elements; }  // what a replica moves in a run, at most
  // Elements of the array of one run.
  int64_t count() const { return count_; }
  // The same for each replica: of those it gives, how many come to the host. A constant input crosses once.
  int64_t arrivals() const { return arrivals_; }
  // Shape of the array, for elements of `element`: the first dimension is multiplied; several scalars are a
  // vector.
  Shape shape(const Shape& element) const;

  // Returns the place in the array of the `n`th element that `replica` loads.
  int64_t source(int64_t n, int replica) const {
    return is_constant() ? 0 : n * input_groups_ + group_[replica];
  }
  int64_t per_step() const { return is_input_ ? input_groups_ : replicas_; }  // entries for one `n`

  struct Target {
    int64_t index = -1;  // -1: the host does not want it
    bool is_sum = false;
  };
  // Returns the place in the array of the `n`th element that `replica` stores in a run.
  Target target(int64_t n, int replica) const;

 private:
  StreamMode mode_;
  StreamUse use_;
  bool is_input_;
  int64_t replicas_, input_groups_, period_, block_, count_ = 0, arrivals_ = 0;
  std::vector<int64_t> group_;  // by replica: its group of inputs
};

// By stream.
std::vector<HostElements> host_elements(const Program& program, int entry);

// `element` with its first dimension multiplied by `count`; several scalars are a vector.
Shape repeated_shape(Shape element, int64_t count);

}  // namespace ipu::program
