// The machine-level program: per IPU of one replica, a flat list of instructions over byte buffers, plus the
// rings and streams that connect them. One run carries out one entry point; entry points share variables. Plain data: it can be written by hand in a test, saved, loaded and
// checked without a compiler. Execution: emulator/. Made by: lowering/.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/attributes.h"
#include "support/replica_grouping.h"
#include "support/tensor_spec.h"

namespace ipu::program {

// Where the bytes of a buffer are.
enum class Storage : uint8_t {
  kArena,     // at `offset` of the IPU's arena: lives from first write to last read (check_plan proves no
              // overlap)
  kVariable,  // in the persistent region of variable `index`, or in the entry of the remote buffer it lives in
  kConstant,   // constant `index` of the program, read only, shared by all replicas
  kExternal,   // wherever the instruction that defines it points: a user's tensor, a slot of a ring. Steps
               // write only to what a kStreamPlace defines
  kParameter,  // of a subroutine: where the operand or result of the call at hand lies
};

struct Buffer {
  std::string name;  // of the value it holds, for messages and dumps
  Storage storage = Storage::kArena;
  int64_t bytes = 0;
  int64_t offset = 0;  // arena, or start within the variable
  int index = -1;      // of the variable or constant
};

struct Variable {
  std::string name, role;
  TensorSpec spec;  // as stored; panels of a weight [N, ...] has shape [elements / N, N]
  int ipu = 0;
  int constant = -1;            // initial value, -1: uploaded by the host
  bool written = false;         // by the program
  Shape shape = {};             // as the host sees it; empty: that of `spec`
  ReplicaGrouping groups = {};  // of the replicas of the job; those of a group hold the same value
  bool retrieve_all = false;    // the host reads one value per replica instead of one per group
  // Above 1: each replica of a group holds a shard. The value of `shape` is flattened, padded with zeros to a
  // multiple of `shards` and cut; member i of a group holds piece i mod shards, and `spec` is that of a piece.
  int64_t shards = 1;
  int remote_buffer = -1;  // it lives in that one's entry `remote_entry`
  int64_t remote_entry = 0;

  // Stored once for all replicas.
  bool is_shared() const { return !written && groups.is_one_group() && shards == 1 && remote_buffer < 0; }

  TensorSpec plain() const { return TensorSpec::plain(spec.dtype, shape.empty() ? spec.shape : shape); }
};

// Streaming memory of a replica: `entries` values of one type, zero at first. Variables may live in some.
struct RemoteBuffer {
  std::string name;
  TensorSpec spec;  // of an entry
  int64_t entries = 1;
  int ipu = 0;  // the one that loads and stores
};

// Bounded ring. from_ipu == to_ipu: a stash. Capacity in elements.
struct Ring {
  std::string name;
  int64_t bytes = 0;
  int64_t capacity = 1;
  int from_ipu = 0, to_ipu = 0;
};

enum class StreamMode : uint8_t {
  kFinal = 0,
  kEveryN = 1,
  kAll = 2,
  kSum = 3,
  kInput = 4,
  kConstantInput = 5
};
struct Stream {
  std::string name;
  StreamMode mode = StreamMode::kInput;
  TensorSpec spec;  // one element as the device sees it
  DType host_dtype = DType::kF32;
  int64_t period = 1;  // EveryN: of so many blocks the last comes to the host
  int64_t block = 1;   // EveryN: elements of a block
  int ipu = 0;

  bool is_input() const { return mode == StreamMode::kInput || mode == StreamMode::kConstantInput; }
};

enum class Opcode : uint8_t {
  kKernel,   // run kernel `kernel` on operands → results
  kLoop,     // counter `counter` = 0; trip `trip`; body follows; ends at instruction `target` (a kEndLoop)
  kEndLoop,  // ++counter; back to the instruction after `target` (its kLoop) while counter < trip
  kCounter,  // results[0] (i32[]) = value of counter `counter`
  kBranchIfNot,          // to `target` when operands[0] (bool[]) is false
  kBranchUnlessCounter,  // to `target` unless low <= counter `counter` < high: conditions known at compile
                         // time
  kJump,                 // to `target`
  kStreamLoad,  // results[0] = next element of stream `object`; a kExternal result reads the user's tensor in
                // place
  kStreamPlace,  // results[0], kExternal, lies where the next element of stream `object` goes: steps up to
                 // its kStreamStore write it there
  kStreamStore,  // operands[0] is the next element of stream `object`
  kPush,         // operands[0] into ring `object`; blocks while full
  kPop,  // results[0] = oldest element of ring `object`; blocks while empty; a kExternal result is the slot
  kRelease,  // the slot taken by the last kExternal kPop of ring `object` may be overwritten
  kCollective,  // results[0] from operands[0] of all replicas of a group: `kernel`, one of collective_kernels(), with
                // attributes {group_size, group_stride} besides its own
  kReplica,      // results[0] (i32[]) = number of the replica that runs this
  kRemoteLoad,   // results[0] = entry operands[0] (one i32 or u32) of remote buffer `object`
  kRemoteStore,  // operands[0] into entry operands[1] of remote buffer `object`
  kCall,         // runs subroutine `object`: its inputs are the operands, its outputs the results
  kReturn,       // the end of a subroutine: goes on behind the call
};

struct Operand {
  int buffer = -1;          // -1: absent optional operand
  int64_t byte_offset = 0;  // start within the buffer
  TensorSpec spec;
};

struct Instruction {
  Opcode opcode = Opcode::kKernel;
  std::string kernel;     // id in the kernel table
  Attributes attributes;  // read by the kernel's prepare()
  std::vector<Operand> operands, results;
  int object = -1;  // stream, ring, remote buffer or subroutine
  int counter = -1;
  int64_t trip = 0;
  int64_t low = 0, high = 0;  // kBranchUnlessCounter
  int target = -1;            // instruction index
  int origin = -1;            // index into Program::origins, for errors, traces and reports
};

struct Origin {
  std::string op;                        // text of the IR op
  std::string location;                  // "model.py:41 [layer3]"
  std::vector<std::string> joined = {};  // those of the other ops that became part of this one
  int stage = -1;
  bool backward = false;
};

// Code that several calls run, one at a time: an actor has one program counter. Its own arena buffers lie at
// fixed places that nothing alive at a call uses (check_plan); parameters lie where each call says. It calls only
// subroutines before it in the list, so none calls itself.
struct Subroutine {
  std::string name;
  int begin = 0;  // its first instruction; it ends where the next begins, with a kReturn
  std::vector<int> inputs,
      outputs;  // buffers of storage kParameter: those of the operands and of the results
};

// What an IPU runs; or I/O tiles that move streams beside their IPU: loops, streams and rings, and nothing that
// computes.
struct IpuProgram {
  std::vector<Buffer> buffers;
  std::vector<Instruction> instructions;
  // Where the code of each entry point begins, in their order; it ends where the next begins. Empty: there is
  // one entry point, and all is its code.
  std::vector<int> entries;
  std::vector<Subroutine> subroutines = {};  // their code stands behind that of all entry points
  int64_t arena_bytes = 0;
  int counters = 0;
  int io_of = -1;  // the IPU whose I/O tiles run this beside it; -1: it is what an IPU runs
  // Statistics of the plan.
  int64_t peak_bytes = 0;  // bytes alive at the peak, without padding and gaps; subroutines at their own
  std::vector<int> live_at_peak;  // buffers, of the entry point
};

struct Program {
  std::vector<IpuProgram> ipus;  // of one replica; behind them I/O tiles
  std::vector<Variable> variables;
  std::vector<ConstantPtr> constants;
  std::vector<Ring> rings;
  std::vector<Stream> streams;
  std::vector<RemoteBuffer> remote_buffers;
  std::vector<Origin> origins;
  int replicas = 1;   // in one process
  int processes = 1;  // that run this program as one job: the replicas of all of them are numbered in a row
  ReplicaGrouping input_groups{1, 1};  // replicas of a group are fed the same elements
  std::vector<std::string> entry_points{"main"};

  int find_entry(std::string_view name) const;  // -1: there is none
  int ipu_count() const;                        // without I/O tiles
  int ipu_of(int processor) const {             // whose I/O tiles it is, or itself
    const int io_of = ipus[static_cast<size_t>(processor)].io_of;
    return io_of < 0 ? processor : io_of;
  }
  int64_t job_replicas() const { return int64_t{replicas} * processes; }
};

// Instructions of an entry point, half open.
struct CodeRange {
  int begin = 0, end = 0;
};
CodeRange code_of(const IpuProgram& ipu, int entry);
CodeRange code_of_subroutine(const IpuProgram& ipu, int subroutine);
// Returns the code of all entry points, then of all subroutines.
std::vector<CodeRange> code_sections(const IpuProgram& ipu);

// Kernels of kCollective.
std::span<const std::string_view> collective_kernels();

// The replicas that meet at a collective, over those of the job; Error(kInvalidProgram) when an attribute says
// no number.
ReplicaGrouping group_of(const Instruction& collective);

// Throws Error(kInvalidProgram) naming the instruction: indices, sizes and targets in range; loops nest and
// end within their entry point; a step names only buffers of its own IPU; specs fit their buffers; ring and
// stream elements have the declared size; I/O tiles compute nothing and hold no variable; what a run moves through a stream can be counted.
void check_program(const Program& program);

// Throws Error(kInvalidProgram): arena buffers that are alive together overlap, or leave the arena; one that is
// alive at a call overlaps what the subroutine uses; a subroutine returns without an output. Liveness is computed
// anew from the instructions, loops included. Nothing in an arena lives from one run to the next, and nothing of a
// subroutine from one call to the next.
void check_plan(const IpuProgram& program);

// Runs the control and rings of each entry point, calls included, without data. Throws Error(kDeadlock) naming who waits for
// whom.
// kBranchUnlessCounter is followed exactly; the outcomes of kBranchIfNot are unknown here, so the program is
// run once with all of them taken and once with none.
void check_deadlock(const Program& program);

std::string print(const Program& program);  // for dumps and tests
std::string_view to_string(Opcode opcode);
// Whether its result, where that is an external buffer, lies where the instruction finds it.
bool defines_external(Opcode opcode);

// "IPU 1", "I/O tiles of IPU 1": how messages name who runs program `ipu`.
std::string processor_name(const Program& program, int ipu);

// "IPU 1, instruction 12 (kernel matmul)": how messages name a step.
std::string describe(const Program& program, int ipu, int instruction);

// Bytes from the first to behind the last element a view of this spec touches. Error on overflow.
int64_t extent_bytes(const TensorSpec& spec);

}  // namespace ipu::program
