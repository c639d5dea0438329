// Remote buffers and variables in shards, as hand-written programs: what runs, what is said about entries that
// are not there, what check_program refuses.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "emulator/engine.h"
#include "executable/compile.h"
#include "ir/text/text.h"
#include "support/error.h"
#include "tests/program/program_writer.h"
#include "tests/thrown.h"

namespace ipu::emulator {
namespace {

using program::add_stream;
using program::f32;
using program::Instruction;
using program::IpuWriter;
using program::Opcode;
using program::Operand;
using program::Program;
using program::StreamMode;

std::byte* bytes(void* data) { return static_cast<std::byte*>(data); }

// Stores x at entry `at`, loads entry `from`, gives it back.
struct Swap {
  Program program;
  explicit Swap(DType offsets = DType::kI32) {
    program.ipus.resize(1);
    program.remote_buffers = {{"weights", f32({2}), 3, 0}};
    const TensorSpec offset = TensorSpec::plain(offsets, {});
    const int x = add_stream(program, "x", StreamMode::kInput, f32({2})),
              at = add_stream(program, "at", StreamMode::kInput, offset),
              from = add_stream(program, "from", StreamMode::kInput, offset),
              y = add_stream(program, "y", StreamMode::kAll, f32({2}));
    for (program::Stream& stream : program.streams) stream.host_dtype = stream.spec.dtype;
    IpuWriter w(program, 0);
    const Operand value = w.arena(f32({2}), "value"), a = w.arena(offset, "a"), b = w.arena(offset, "b"),
                  loaded = w.arena(f32({2}), "loaded");
    w.load(x, value);
    w.load(at, a);
    w.load(from, b);
    Instruction store;
    store.opcode = Opcode::kRemoteStore;
    store.object = 0;
    store.operands = {value, a};
    program.ipus[0].instructions.push_back(store);
    Instruction load;
    load.opcode = Opcode::kRemoteLoad;
    load.object = 0;
    load.operands = {b};
    load.results = {loaded};
    program.ipus[0].instructions.push_back(load);
    w.store(y, loaded);
  }
  std::vector<float> run(Engine& engine, std::vector<float> x, int64_t at, int64_t from) const {
    auto a = static_cast<uint32_t>(at), b = static_cast<uint32_t>(from);
    std::vector<float> y(2);
    const StreamBinding bindings[] = {
        {bytes(x.data()), 1}, {bytes(&a), 1}, {bytes(&b), 1}, {bytes(y.data()), 1}};
    engine.run(bindings);
    return y;
  }
  Instruction& store() { return program.ipus[0].instructions[3]; }
};

TEST(Remote, KeepsEntriesFromRunToRun) {
  const Swap swap;
  check_program(swap.program);
  Engine engine(std::make_shared<const Program>(swap.program), {.threads = 1});
  EXPECT_EQ(swap.run(engine, {1, 2}, 0, 2), (std::vector<float>{0, 0}));
  EXPECT_EQ(swap.run(engine, {3, 4}, 2, 2), (std::vector<float>{3, 4}));
  EXPECT_EQ(swap.run(engine, {5, 6}, 1, 0), (std::vector<float>{1, 2}));
}

TEST(Remote, SaysWhichEntryOfWhichBufferIsNotThere) {
  for (DType dtype : {DType::kI32, DType::kU32}) {
    const Swap swap(dtype);
    Engine engine(std::make_shared<const Program>(swap.program), {.threads = 1});
    EXPECT_NE(
        message_of([&] {
          swap.run(engine, {1, 2}, 3, 0);
        })
            .find("remote buffer entry out of range [IPU-E407]: entry 3 of 'weights', which has entries 0 "
                  "to 2\n  at: IPU 0, instruction 3 (remote_store)"),
        std::string::npos);
    const std::string minus_one = dtype == DType::kI32 ? "entry -1 of" : "entry 4294967295 of";
    EXPECT_NE(message_of([&] { swap.run(engine, {1, 2}, 0, -1); }).find(minus_one), std::string::npos);
    EXPECT_EQ(swap.run(engine, {1, 2}, 1, 1), (std::vector<float>{1, 2}));
  }
}

TEST(Remote, IsCheckedWhenTheProgramIs) {
  auto why = [](const std::function<void(Swap&)>& edit) {
    Swap swap;
    edit(swap);
    return message_of([&] { check_program(swap.program); });
  };
  auto refuses = [&](const std::function<void(Swap&)>& edit, const std::string& text) {
    EXPECT_NE(why(edit).find(text), std::string::npos) << why(edit);
  };
  refuses([](Swap& s) { s.program.remote_buffers[0].entries = 0; },
          "remote buffer weights: it has 0 entries");
  refuses([](Swap& s) { s.program.remote_buffers[0].entries = std::numeric_limits<int64_t>::max(); },
          "entries of 8 bytes are more than there can be");
  refuses([](Swap& s) { s.program.remote_buffers[0].ipu = 1; }, "remote buffer weights: is on no IPU");
  refuses([](Swap& s) { s.program.remote_buffers[0].spec.shape = {int64_t{1} << 62}; },
          "not contiguous, or of a size that is negative or overflows");
  refuses([](Swap& s) { s.program.remote_buffers[0].spec = f32({3}); }, "value has 8 bytes, not 12");
  refuses([](Swap& s) { s.program.remote_buffers[0].spec.dtype = DType::kI32; },
          "element type differs from the remote buffer's");
  refuses([](Swap& s) { s.store().object = 1; }, "no such remote buffer");
  refuses([](Swap& s) { s.store().operands.pop_back(); }, "takes 2 operands and 0 results");
  refuses([](Swap& s) { s.store().operands[1].spec.dtype = DType::kF32; }, "the entry is not one i32 or u32");
  refuses([](Swap& s) { s.store().operands[1] = s.store().operands[0]; }, "the entry is not one i32 or u32");
  auto variable = [](Swap& s, TensorSpec spec, int buffer, int64_t entry) {
    program::Variable v;
    v.name = "w";
    v.spec = std::move(spec);
    v.remote_buffer = buffer;
    v.remote_entry = entry;
    s.program.variables.push_back(v);
  };
  refuses([&](Swap& s) { variable(s, f32({2}), 1, 0); }, "it lives in a remote buffer that is not there");
  refuses([&](Swap& s) { variable(s, f32({2}), 0, 3); }, "it lives in entry 3 of remote buffer weights");
  refuses([&](Swap& s) { variable(s, f32({3}), 0, 0); }, "it is no entry of remote buffer weights");
}

TEST(Remote, ShardsAreThoseOfTheWholeValue) {
  auto why = [](Shape whole, int64_t shards, Shape shard, int replicas) {
    Program p;
    p.ipus.resize(1);
    p.replicas = replicas;
    program::Variable v;
    v.name = "w";
    v.spec = f32(std::move(shard));
    v.shape = std::move(whole);
    v.shards = shards;
    p.variables.push_back(v);
    return message_of([&] { check_program(p); });
  };
  EXPECT_EQ(why({5}, 4, {2}, 4), "no error");
  EXPECT_NE(why({5}, 4, {1}, 4).find("[5] in 4 shards is not what is stored, [1]"), std::string::npos);
  EXPECT_NE(why({5}, 4, {2}, 2).find("in 4 shards is not what is stored"), std::string::npos);
  EXPECT_NE(why({5}, 0, {5}, 2).find("in 0 shards is not what is stored"), std::string::npos);
}

// Two IPUs run side by side: which of them comes first nobody says.
TEST(Remote, BelongsToOneIpu) {
  std::unique_ptr<ir::Module> module = ir::parse(R"(
remote_buffer @b: f32[2] {entries=2}
stream @x: f32[2] {ipu=0}
stream @y: f32[2] {direction="device_to_host", ipu=1}
entry main = @main
graph @main() -> () {
  %x = host_load() {stream=@x | ipu=0} : f32[2]
  remote.store(%x) {buffer=@b, entry=0 | ipu=0}
  %y = remote.load() {buffer=@b, entry=0 | ipu=1} : f32[2] loc("two.py":4)
  host_store(%y) {stream=@y | ipu=1}
  return
})");
  EXPECT_NE(
      message_of([&] { executable::compile(*module, target::find_system("pod16"), {}); })
          .find("unsupported remote buffer [IPU-E101]: @b is touched on IPU 0 and on IPU 1, which run side "
                "by side."),
      std::string::npos);
}

}  // namespace
}  // namespace ipu::emulator
