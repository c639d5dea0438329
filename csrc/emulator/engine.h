// Runs a program: one actor per IPU and replica on worker threads, rings between them, host streams at the
// edges. The calling thread is worker 0. Results depend on shapes only, never on threads
// (docs/architecture.md). Not here: making programs (lowering), reading user objects (frontends).
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "emulator/streams/stream_port.h"
#include "kernels/host/host_call.h"
#include "program/host_elements.h"
#include "program/program.h"

namespace ipu::emulator {

// One host array for a stream in one run: contiguous, `elements` elements of the stream's spec in host dtype.
struct StreamBinding {
  std::byte* data = nullptr;
  int64_t elements = 0;
  Ownership ownership = Ownership::kShared;
};

// A moment of the measured trace, recorded when tracing is on: a kernel, an element between host and device, or what
// I/O tiles hand over and take.
struct TraceEvent {
  int replica, ipu, instruction;  // ipu: of program.ipus, I/O tiles included
  int64_t iteration;              // innermost loop counter; 0 in a subroutine outside of its own loops
  int64_t begin_ns, end_ns;
};

struct EngineOptions {
  int threads = 0;  // 0: POPTORCH_HOST_THREADS, default the number of cores
  bool trace = false;
  // Error(kFloatingPoint) when a step gives an invalid or overflowed result (float_check.h).
  bool check_floating_point = false;
  // Called by worker 0 about every 20 ms, between steps and within kernels; returning true stops the run with
  // Error(kInterrupted).
  std::function<bool()> interrupted = nullptr;
  // A job of several processes that run the same program: the number of this one's first replica, and a
  // function that gives the bytes of all processes, one after another, for those of this one. Called by the
  // thread of run() at every collective over several processes, in the same order in every process; it may
  // throw Error.
  int first_replica = 0;
  std::function<std::vector<std::byte>(std::vector<std::byte>)> exchange = nullptr;
  // What steps "host_call" name. Each is called by the thread of run(), for one replica after the other.
  kernels::HostFunctions host_functions = {};
};

class Engine {
 public:
  // Prepares every kernel and allocates arenas, variables and rings. Throws Error(kExecution) naming the
  // step whose kernel refuses its operands, Error(kHostMemory) when memory cannot be had.
  Engine(std::shared_ptr<const program::Program> program, EngineOptions options);
  ~Engine();

  // Runs an entry point once. `ports` is indexed like program.streams; those of streams that the entry point
  // does not use may be nullptr. Not re-entrant: a second thread waits. On an error all actors stop, rings are
  // emptied, and the engine can run again.
  void run(std::span<StreamPort* const> ports, int entry = 0);
  // The same with arrays for all streams.
  void run(std::span<const StreamBinding> arrays, int entry = 0);
  // What a run of the entry point moves, by stream.
  std::span<const program::HostElements> elements(int entry) const;

  // Variables in stored layout of one replica; read and write convert to and from plain.
  void write_variable(int variable, const std::byte* plain, int replica = -1);  // -1: to all replicas
  void read_variable(int variable, std::byte* plain, int replica = 0) const;
  // Whole values of these replicas (their numbers in the job), one behind the other. With several processes all
  // of them call this for the same variable.
  void read_variable_of_job(int variable, std::span<const int64_t> replicas, std::byte* plain) const;
  int64_t first_replica() const;  // in the job, of those of this process

  const program::Program& program() const;
  void set_trace(bool on);  // from the next run on
  std::vector<TraceEvent> take_trace();
  // When each element of a stream that went to or came from the host in the last run was begun and complete,
  // in seconds of a steady clock, in the order of the elements; of the first million per replica.
  std::vector<std::pair<double, double>> stream_times(int stream) const;
  double last_run_seconds() const;
  // Returns how long IPU `ipu` of the first replica, with its I/O tiles, took for the last run. Waits for other IPUs
  // count.
  double last_run_seconds(int ipu) const;
  // A device fault that needs a reset happened: every run and every access to variables throws it again.
  bool is_lost() const;
  // Finite f64 values of the host that became infinite in f32, since the last question. (An i64 value that is
  // no i32 ends its run with Error(kExecution).)
  int64_t take_narrowed_values();
  // Bytes of IPU `ipu`'s arena, variables and rings in host memory, one replica; its I/O tiles count.
  int64_t host_bytes(int ipu) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ipu::emulator
