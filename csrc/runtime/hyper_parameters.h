// The hyper-parameters that a program takes from the host at each run.
#pragma once

#include <span>
#include <vector>

#include "emulator/streams/array_port.h"
#include "executable/signature.h"
#include "optimizers/optimizer.h"
#include "program/program.h"

namespace ipu::runtime {

// Which streams of `program` carry what `optimizer` changes between runs; what the program does not read has none.
std::vector<executable::Signature::HyperStream> hyper_streams(const program::Program& program,
                                                              const optimizers::Spec& optimizer);

class HyperParameters {
 public:
  HyperParameters(std::vector<executable::Signature::HyperStream> streams, optimizers::Spec optimizer);

  // Values for the next runs. Marks are those of the compiled program: what it streams stays streamed.
  // Error(kOptimizer) when constants, kind or groups differ from the compiled ones.
  void set(const optimizers::Spec& next);
  const std::vector<executable::Signature::HyperStream>& streams() const { return streams_; }
  // Binds the streams to the values, for good.
  void bind(std::span<emulator::ArrayPort> arrays);

 private:
  void update();

  std::vector<executable::Signature::HyperStream> streams_;
  optimizers::Spec optimizer_;
  std::vector<float> values_;  // one a stream
};

}  // namespace ipu::runtime
