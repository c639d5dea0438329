// The definition of the IR by execution: runs both forms, single-threaded, every value in f64; in native mode
// each result is rounded to its dtype. All replicas run together, op by op, so that collectives meet.
// Oracle of the emulator, gradient checks and constant folding. Slow on purpose.
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

// What one replica holds. Streams: elements the program takes or gave, oldest first (output modes are not
// applied here). Variables as they are on the replica: of a sharded one its shard. The entry of a remote
// buffer that a variable lives in is that variable.
struct ReplicaState {
  std::map<std::string, ReferenceTensor> variables;
  std::map<std::string, std::deque<ReferenceTensor>> streams;
  std::map<std::string, std::deque<ReferenceTensor>> rings;
  std::map<std::string, std::vector<ReferenceTensor>> remote_buffers;
};

// Its own state is that of replica 0.
class Interpreter : public ReplicaState {
 public:
  // `replicas` 0: as many as the module says.
  explicit Interpreter(const ir::Module& module, Arithmetic arithmetic = Arithmetic::kNative,
                       int64_t replicas = 0);

  // All replicas get the same inputs. Outputs of replica 0; of all: [replica][output].
  std::vector<ReferenceTensor> run(const ir::Graph& graph, std::vector<ReferenceTensor> inputs);
  std::vector<std::vector<ReferenceTensor>> run_all(const ir::Graph& graph,
                                                    std::vector<ReferenceTensor> inputs);
  void run_entry_point(const std::string& name);

  int64_t replicas() const { return 1 + static_cast<int64_t>(others_.size()); }
  ReplicaState& replica(int64_t number);
  // A variable as the host sees it: shape ir::host_shape, or that of one replica for all groups. Download
  // gives one value per group, or of each replica where the variable says so.
  void upload(const std::string& variable, const ReferenceTensor& value);
  ReferenceTensor download(const std::string& variable);

  uint64_t seed = 42;  // of rng.context
  // Called with every result of every op, in order, of replica 0.
  std::function<void(const ir::Op&, int result, const ReferenceTensor&)> on_value;

 private:
  friend class InterpreterRun;
  // What replica `number` holds of a variable, from its initial value at first use; nullptr: it has none.
  ReferenceTensor* find_value(int64_t number, const ir::Variable& variable);

  const ir::Module& module_;
  Arithmetic arithmetic_;
  std::vector<ReplicaState> others_;
};

// Runs one op on given operands (structural ops excluded). A collective runs as a group of one.
std::vector<ReferenceTensor> interpret_op(const ir::Op& op,
                                          const std::vector<const ReferenceTensor*>& operands,
                                          Arithmetic arithmetic, int64_t replica = 0);

}  // namespace ipu::ops
