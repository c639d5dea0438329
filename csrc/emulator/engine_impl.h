// Inside of the engine: compiled steps, actors, rings, and the state of a run.
// Concurrency in one paragraph. An actor is run by one worker at a time; its fields belong to that worker.
// Rings have one producer and one consumer actor and are lock-free rings. An actor that cannot go on
// stores its program counter, becomes kParked, and looks once more at the ring; the other end, after
// moving the ring, looks at the actor's state. Both sides use sequentially consistent operations, so one
// of them sees the other: no wake-up is lost. `active` counts ready and running actors; who takes it to zero
// ends the run.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "emulator/collective.h"
#include "emulator/engine.h"
#include "emulator/float_check.h"
#include "emulator/helper_pool.h"
#include "emulator/host_memory.h"
#include "emulator/streams/array_port.h"
#include "emulator/streams/edge_conversion.h"
#include "emulator/streams/stream_port.h"
#include "kernels/kernel_table.h"
#include "support/device_error.h"

namespace ipu::emulator {

// An instruction with everything looked up. Pointers live in Actor::pointers, operands first, then results.
struct Step {
  program::Opcode opcode;
  bool in_place = false;  // load or pop into an external buffer, store of one that has been placed
  int lanes = 1;
  int operands = 0, results = 0;
  int first_pointer = 0;
  int object = -1, counter = -1, target = -1;
  int external = -1;      // in_place: index into CompiledIpu::externals
  int loop_counter = -1;  // of the innermost loop around it
  int64_t trip = 0, low = 0, high = 0;
  const kernels::PreparedKernel* kernel = nullptr;
  const ComparisonWatch* watch = nullptr;  // when floating-point exceptions are on
  const kernels::HostCallKernel* host_call = nullptr;
  const kernels::HostFunction* host_function = nullptr;  // of `host_call`; worker 0 alone calls it
};

// Where the address of an external buffer goes when it becomes known.
struct External {
  struct Reference {
    int pointer;
    int64_t byte_offset;
  };
  std::vector<Reference> references;
};

struct CompiledIpu {
  std::vector<Step> steps;
  std::vector<External> externals;
  std::vector<std::vector<External>> parameters;  // by subroutine: inputs, then outputs
  std::vector<std::unique_ptr<kernels::PreparedKernel>> kernels;
  std::vector<std::unique_ptr<ComparisonWatch>> watches;
  int pointers = 0;
  int64_t shared_bytes = 0;  // most that lanes of a kernel have in common
};

// An actor's state word: what it is in the low bits; parked words also carry a number of their own, so that a
// worker that parked an actor cannot mistake a later parking (by another worker) for its own.
enum ActorState : uint64_t {
  kReady = 0,
  kRunning = 1,
  kParked = 2,
  kDone = 3,
  kStateMask = 3,
  kParkStep = 4
};
enum class Outcome : int { kDone, kParked, kStopped };

struct Ring;

// Lanes of the kernel an actor is at. `ticket` = generation << 32 | end of the lanes left << 16 | the first of them: taking a lane is
// one compare-exchange, and the fields below are stable while any lane of the generation is running.
struct LaneJob {
  std::atomic<uint64_t> ticket{0};
  std::atomic<int> done{0};
  uint64_t generation = 0;
  int step = 0;
  const kernels::PreparedKernel* kernel = nullptr;
  std::byte* const* operands = nullptr;
  std::byte* const* results = nullptr;
  std::array<std::atomic<int64_t>, kernels::KernelCall::kSharedWords> shared{};
  HostMemory shared_memory;  // as much as the kernel wants that wants most
};

// When the elements of a stream that reach the host were begun and complete; empty on actors without the
// stream.
struct StreamTimes {
  std::vector<int64_t> begin_ns, end_ns;
  int64_t next = 0;  // element of the run
};

struct alignas(64) Actor {
  int index = 0, replica = 0, ipu = 0;
  const CompiledIpu* code = nullptr;
  int at = 0;  // program counter
  std::vector<std::byte*> pointers;
  std::vector<int64_t> counters;
  std::vector<StreamTimes> times;       // per stream of the program
  std::vector<HostMemory> landings;     // per external: where elements of ports go that do not let them stay
  std::vector<StreamPort::Slot> slots;  // per external: where the element goes that lies there
  int end = 0;                          // of the entry point of this run
  std::vector<int> returns;             // calls at hand, the innermost last
  HostMemory arena;
  std::vector<TraceEvent> trace;
  std::exception_ptr error;
  int error_at = -1;
  int64_t narrowed = 0;
  int64_t ended_ns = 0;  // when it was done with the last run
  kernels::KernelFault fault;
  uint64_t parkings = 0;
  bool completes_meeting = false;  // the last of a meeting over processes, handed to worker 0
  alignas(64) std::atomic<uint64_t> state{kReady};
  std::atomic<const void*> waits_for{nullptr};
  LaneJob lanes;
};

struct Ring {
  int64_t bytes = 0, stride = 0, capacity = 0;
  std::byte* slots = nullptr;
  Actor *producer = nullptr, *consumer = nullptr;
  alignas(64) std::atomic<int64_t> pushed{0};
  alignas(64) std::atomic<int64_t> popped{0};
  int64_t taken = 0;  // consumer only: popped in place and not released
};

struct Engine::Impl final : HelpedRun {
  Impl(std::shared_ptr<const program::Program> program, EngineOptions options);

  // What a kernel asks that a worker runs. Worker 0 asks the user in turn, so that a run ends within a long
  // kernel.
  struct WorkerStop final : kernels::StopSignal {
    bool raised() override {
      return run->stop.load(std::memory_order_relaxed) || (polls && run->poll_interrupt());
    }
    Impl* run = nullptr;
    bool polls = false;
  };

  // --- construction (engine.cc)
  void compile_ipu(int ipu);
  void compile_collective(int ipu, int number, CompiledIpu& code, Step& step);  // collective.cc
  void bind_host_call(int ipu, int number, Step& step) const;
  void allocate();
  void resolve_pointers(Actor& actor);
  std::byte* variable_address(int variable, int replica) const;
  void fill_variable(int number, std::span<const std::byte> element);
  std::byte* remote_entry(int buffer, int64_t entry, int replica) const;

  // --- variables and the host (engine_variables.cc)
  int64_t shard_of(const program::Variable& variable, int replica) const;
  void write_variable(int variable, const std::byte* plain, int replica);
  void read_variable(int variable, std::byte* plain, int replica) const;
  std::vector<const std::byte*> stored_in_job(int variable, std::vector<std::byte>& sent) const;
  void read_of_job(int variable, std::span<const int64_t> replicas, std::byte* plain) const;

  // --- a run (scheduler.cc)
  void run(std::span<StreamPort* const> ports, int entry);
  void execute();
  void begin_ports();
  void end_ports(bool completed);
  void make_landings(int stream);
  void reset();
  void help(int worker) override { work(worker); }
  bool has_work() const override;
  void work(int worker);
  bool caller_has_work() const;
  Actor* take_ready(int worker);
  Actor* take_from(std::vector<std::atomic<uint64_t>>& words);
  void wake_if_waiting(Actor& actor, const void* what);
  void signal_workers();
  void settle(Actor& actor, Outcome outcome);
  void fail(Actor& actor, int step);
  [[noreturn]] void raise();
  [[noreturn]] void report_stuck() const;
  [[noreturn]] void raise_ended(int stream, int replica) const;
  // All lanes of a kernel for the step the actor is at.
  void run_step(Actor& actor, int step, const kernels::PreparedKernel& kernel, std::byte* const* operands,
                std::byte* const* results, int worker);
  void run_lanes(Actor& actor, int step, const kernels::PreparedKernel& kernel, std::byte* const* operands,
                 std::byte* const* results, int worker);
  bool help_lanes(int worker);
  bool run_one_lane(Actor& actor, int worker);
  bool poll_interrupt();
  kernels::KernelCall kernel_call(Actor& actor, std::byte* const* operands, std::byte* const* results,
                                  int worker) {
    return {operands, results, scratch.data() + worker * scratch_stride, &actor.fault, &stops[worker]};
  }

  // --- steps (actor.cc)
  Outcome run_actor(Actor& actor, int worker);
  void place(Actor& actor, const Step& step, int worker);
  bool wait_for(Actor& actor, Ring& ring, std::atomic<int64_t>& count, int64_t needed, Actor& other, int at);
  bool wait_for_space(Actor& actor, Ring& ring, int at);
  bool wait_for_element(Actor& actor, Ring& ring, int at);
  std::byte* remote_place(const Actor& actor, const Step& step, int at, const std::byte* entry) const;

  // --- meetings of replicas (collective.cc)
  bool meet(Actor& actor, const Step& step, int at, int worker);
  bool arrive(Actor& actor, const Step& step, int at, int worker);
  void hand_to_caller(Actor& actor, int at);
  void meet_other_processes(Collective& collective, Actor& actor, int at, int worker);
  void run_group(Actor& actor, int at, const Collective& collective, const std::vector<std::byte*>& operands,
                 const std::vector<std::byte*>& results, int worker);
  // The bytes of all processes. `what`: number of the collective, or -1 - number of a variable.
  std::vector<std::byte> exchanged(std::vector<std::byte> mine, int64_t what) const;

  Ring& ring(const Actor& actor, int ring) { return rings[actor.replica * ring_count + ring]; }

  std::shared_ptr<const program::Program> program;
  EngineOptions options;
  int threads = 1;
  int actor_count = 0, ring_count = 0;
  std::vector<CompiledIpu> ipus;
  std::vector<EdgeConversion> streams;
  std::vector<std::vector<program::HostElements>> elements;  // [entry point][stream]
  std::unique_ptr<Actor[]> actors;                           // replica-major
  std::unique_ptr<Ring[]> rings;                             // replica-major
  std::vector<Collective> collectives;
  std::vector<HostMemory> shared_variables;                // never written: one for all replicas
  std::vector<std::vector<HostMemory>> replica_variables;  // [replica][variable]
  std::vector<std::vector<HostMemory>> remote_buffers;     // [replica][remote buffer]
  std::vector<size_t> remote_bytes;                        // of an entry
  std::vector<HostMemory> constants;
  HostMemory ring_memory, scratch;
  int64_t scratch_stride = 0;

  // State of the current run.
  std::mutex run_mutex;                // one run, or one access to variables, at a time
  std::span<StreamPort* const> ports;  // by stream
  std::vector<ArrayPort> arrays;       // for run(arrays)
  std::vector<StreamPort*> array_ports;
  int entry = 0;  // of this or the last run
  size_t begun_ports = 0;
  std::atomic<int> active{0};
  std::atomic<bool> stop{false}, finished{false}, called_helpers{false};
  std::vector<std::atomic<uint64_t>> ready, open_lanes;  // bit per actor
  std::vector<std::atomic<uint64_t>> for_caller;         // likewise: ready, for worker 0 alone
  std::mutex sleep_mutex;
  std::condition_variable sleep_wake;
  std::atomic<bool> caller_asleep{false};
  std::mutex error_mutex;
  std::exception_ptr interruption;  // what the interrupt callback threw, or kInterrupted
  int64_t next_poll_ns = 0;
  std::vector<WorkerStop> stops;  // per worker
  int64_t narrowed = 0;
  int64_t began_ns = 0;    // begin of the last run
  int64_t run_ns = 0;      // and its duration
  int64_t faulty_run = 0;  // number of the run for faults; 0: no faults are set
  std::optional<DeviceError> lost;

  void require_usable() const {
    if (lost) throw DeviceError(*lost);
  }
};

}  // namespace ipu::emulator
