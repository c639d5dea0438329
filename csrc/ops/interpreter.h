// The definition of the IR by execution: runs both forms, single-threaded, every value in f64; in native mode
// each result is rounded to its dtype. Oracle of the emulator, gradient checks and constant folding. Slow on
// purpose.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ops/reference_tensor.h"

namespace ipu::ops {

enum class Arithmetic : uint8_t { kF64, kNative };  // kF64: floating values are never rounded

class Interpreter {
 public:
  explicit Interpreter(const ir::Module& module, Arithmetic arithmetic = Arithmetic::kNative);

  std::vector<ReferenceTensor> run(const ir::Graph& graph, std::vector<ReferenceTensor> inputs);
  void run_entry_point(const std::string& name);

  // State. Streams: elements the program takes or gave, oldest first (output modes are not applied here).
  std::map<std::string, ReferenceTensor> variables;
  std::map<std::string, std::deque<ReferenceTensor>> streams;
  std::map<std::string, std::deque<ReferenceTensor>> rings;
  std::map<std::string, std::vector<ReferenceTensor>> remote_buffers;
  uint64_t seed = 42;  // of rng.context
  // Called with every result of every op, in order.
  std::function<void(const ir::Op&, int result, const ReferenceTensor&)> on_value;

 private:
  class Run;
  const ir::Module& module_;
  Arithmetic arithmetic_;
};

// Runs one op on given operands (structural ops excluded).
std::vector<ReferenceTensor> interpret_op(const ir::Op& op,
                                          const std::vector<const ReferenceTensor*>& operands,
                                          Arithmetic arithmetic);

}  // namespace ipu::ops
