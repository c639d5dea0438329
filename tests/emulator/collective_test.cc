// Collectives on the emulator give the bits of the interpreter, with any number of workers and with the groups
// cut over processes; replicas that do not meet and groups that do not fit are said.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>

#include "emulator/engine.h"
#include "executable/compile.h"
#include "ir/text/text.h"
#include "ops/interpreter/interpreter.h"
#include "support/error.h"
#include "tests/thrown.h"

namespace ipu::emulator {
namespace {

using ops::ReferenceTensor;
using Bytes = std::vector<std::byte>;

// One op between a stream and another.
struct Case {
  std::string op;  // "all_reduce(%x) {...}"
  DType dtype = DType::kF32;
  Shape x, y;
  int replicas = 4;

  std::string type(const Shape& shape) const { return ir::to_string(ir::Type{dtype, shape}); }
  std::string text() const {
    return "module {replicas=" + std::to_string(replicas) + "}\nstream @x: " + type(x) +
           "\nstream @y: " + type(y) +
           " {direction=\"device_to_host\"}\nentry main = @main\ngraph @main() -> () {\n" +
           "  %x = host_load() {stream=@x} : " + type(x) + "\n  %y = " + op + " : " + type(y) +
           "\n  host_store(%y) {stream=@y}\n  return\n}\n";
  }
};

// Values that every type holds and whose sums, squares and products are exact in f32 and f16.
std::vector<ReferenceTensor> whole_numbers(const Case& of) {
  std::mt19937 random(7);
  std::vector<ReferenceTensor> inputs;
  for (int r = 0; r < of.replicas; ++r) {
    inputs.push_back(ReferenceTensor::zeros({of.dtype, of.x}));
    for (double& value : inputs.back().values)
      value = of.dtype == DType::kBool ? random() % 4 != 0 : random() % 5;
  }
  return inputs;
}

std::vector<Bytes> interpreted(const Case& of, const std::vector<ReferenceTensor>& inputs) {
  std::unique_ptr<ir::Module> module = ir::parse(of.text());
  ops::Interpreter interpreter(*module);
  for (int r = 0; r < of.replicas; ++r)
    interpreter.replica(r).streams["x"] = {inputs[static_cast<size_t>(r)]};
  interpreter.run_entry_point("main");
  std::vector<Bytes> results;
  for (int r = 0; r < of.replicas; ++r)
    results.push_back(interpreter.replica(r).streams["y"].front().to_constant()->bytes);
  return results;
}

std::shared_ptr<const program::Program> compiled(const Case& of, int processes = 1) {
  std::unique_ptr<ir::Module> module = ir::parse(of.text());
  executable::CompileOptions options;
  options.replicas = of.replicas / processes;
  options.processes = processes;
  options.any_ipu_count = true;
  return executable::compile(*module, target::find_system("pod16"), options).program;
}

// What replicas [first, first + those of the program) get.
std::vector<Bytes> run(const std::shared_ptr<const program::Program>& program, const Case& of,
                       const std::vector<ReferenceTensor>& inputs, EngineOptions options) {
  const int replicas = program->replicas, first = options.first_replica;
  Engine engine(program, std::move(options));
  Bytes in, out(static_cast<size_t>(ir::Type{of.dtype, of.y}.bytes() * replicas));
  for (int r = 0; r < replicas; ++r) {
    const Bytes bytes = inputs[static_cast<size_t>(first + r)].to_constant()->bytes;
    in.insert(in.end(), bytes.begin(), bytes.end());
  }
  const StreamBinding bindings[] = {{in.data(), replicas}, {out.data(), replicas}};
  engine.run(bindings);
  engine.run(bindings);  // a second meeting at the same instruction
  std::vector<Bytes> results;
  const size_t own = out.size() / static_cast<size_t>(replicas);
  for (int r = 0; r < replicas; ++r)
    results.emplace_back(out.begin() + static_cast<ptrdiff_t>(own) * r,
                         out.begin() + static_cast<ptrdiff_t>(own) * (r + 1));
  return results;
}

// Processes as threads, each with an engine of its own.
class Job {
 public:
  explicit Job(int processes) : parts_(static_cast<size_t>(processes)) {}

  Bytes exchange(int process, Bytes mine) {
    std::unique_lock lock(mutex_);
    parts_[static_cast<size_t>(process)] = std::move(mine);
    const int round = round_;
    if (++arrived_ == static_cast<int>(parts_.size())) {
      all_.clear();
      for (const Bytes& part : parts_) all_.insert(all_.end(), part.begin(), part.end());
      arrived_ = 0;
      ++round_;
      wake_.notify_all();
    } else {
      wake_.wait(lock, [&] { return round_ != round; });
    }
    return all_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Bytes> parts_;
  Bytes all_;
  int arrived_ = 0, round_ = 0;
};

std::vector<Bytes> run_as_job(const Case& of, const std::vector<ReferenceTensor>& inputs, int processes) {
  const std::shared_ptr<const program::Program> program = compiled(of, processes);
  Job job(processes);
  std::vector<std::vector<Bytes>> results(static_cast<size_t>(processes));
  std::vector<std::thread> threads;
  for (int p = 0; p < processes; ++p)
    threads.emplace_back([&, p] {
      EngineOptions options;
      options.threads = 1;
      options.first_replica = p * program->replicas;
      options.exchange = [&job, p](Bytes mine) { return job.exchange(p, std::move(mine)); };
      results[static_cast<size_t>(p)] = run(program, of, inputs, options);
    });
  for (std::thread& thread : threads) thread.join();
  std::vector<Bytes> all;
  for (std::vector<Bytes>& part : results)
    for (Bytes& bytes : part) all.push_back(std::move(bytes));
  return all;
}

void expect_as_interpreted(const Case& of, const std::vector<ReferenceTensor>& inputs) {
  SCOPED_TRACE(of.op + " of " + of.type(of.x));
  const std::vector<Bytes> expected = interpreted(of, inputs);
  const std::shared_ptr<const program::Program> program = compiled(of);
  for (int threads : {1, 2, 8}) {
    EngineOptions options;
    options.threads = threads;
    EXPECT_EQ(run(program, of, inputs, options), expected) << threads << " workers";
  }
}

constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kI32, DType::kU32, DType::kI16,
                            DType::kU16, DType::kI8,  DType::kU8,  DType::kBool};
const char* const kGroups[] = {"group_size=4", "group_size=2", "group_size=2, group_stride=2",
                               "group_size=1"};
int64_t members_of(const std::string& group) { return group[11] - '0'; }

TEST(Collective, ReducesEveryTypeByEveryOperator) {
  for (DType dtype : kTypes)
    for (const char* op : {"sum", "mean", "prod", "min", "max", "square_sum", "and", "or"}) {
      const bool is_logical = std::string(op) == "and" || std::string(op) == "or";
      if (is_logical != (dtype == DType::kBool)) continue;
      if (std::string(op) == "mean" && !is_floating_point(dtype)) continue;
      for (const char* group : kGroups) {
        const std::string attributes = std::string(" {") + group + ", op=\"" + op + "\"}";
        Case of{"all_reduce(%x)" + attributes, dtype, {7, 301}, {7, 301}};
        expect_as_interpreted(of, whole_numbers(of));
        const int64_t shard = (7 * 301 + members_of(group) - 1) / members_of(group);
        of = {"reduce_scatter(%x)" + attributes, dtype, {7, 301}, {shard}};
        expect_as_interpreted(of, whole_numbers(of));
      }
    }
}

TEST(Collective, MovesEveryType) {
  for (DType dtype : kTypes)
    for (const char* group : kGroups) {
      const int64_t n = members_of(group);
      const std::string more = std::string(", ") + group + "}";
      for (const Case& of :
           {Case{"all_gather(%x) {dim=1" + more, dtype, {3, 5, 2}, {3, 5 * n, 2}},
            Case{"all_gather(%x) {form=\"new_axis\"" + more, dtype, {3, 5}, {n, 3, 5}},
            Case{"all_gather(%x) {form=\"shape\", shape=[5,3]" + more, dtype, {(15 + n - 1) / n}, {5, 3}},
            Case{"reduce_scatter(%x) {op=\"local\"" + more, dtype, {5, 3}, {(15 + n - 1) / n}},
            Case{"replica_slice(%x) {dim=1" + more, dtype, {3, 8, 5}, {3, 8 / n, 5}},
            Case{"broadcast(%x) {root=" + std::to_string(n - 1) + more, dtype, {3, 5}, {3, 5}},
            Case{"all_to_all(%x) {concat_dim=0, split_dim=2" + more,
                 dtype,
                 {3, 2, 8, 5},
                 {3 * n, 2, 8 / n, 5}},
            Case{"all_to_all(%x) {concat_dim=3, split_dim=1" + more,
                 dtype,
                 {3, 8, 2, 5},
                 {3, 8 / n, 2, 5 * n}},
            Case{"all_to_all(%x) {concat_dim=1, split_dim=1" + more, dtype, {3, 8, 2}, {3, 8, 2}}})
        expect_as_interpreted(of, whole_numbers(of));
    }
}

// More than a lane of elements, none a multiple of a block.
TEST(Collective, GivesTheSameInLanes) {
  for (const Case& of :
       {Case{"all_reduce(%x) {op=\"max\"}", DType::kI32, {400, 701}, {400, 701}},
        Case{"reduce_scatter(%x) {group_size=2, group_stride=2}", DType::kF16, {400, 701}, {140200}},
        Case{"all_gather(%x) {dim=1, group_size=4}", DType::kF32, {100, 701}, {100, 2804}},
        Case{"all_gather(%x) {form=\"shape\", group_size=4, shape=[400,701]}",
             DType::kU8,
             {70100},
             {400, 701}},
        Case{"broadcast(%x) {group_size=2, root=1}", DType::kF32, {400, 701}, {400, 701}},
        Case{"all_to_all(%x) {concat_dim=0, group_size=4, split_dim=1}",
             DType::kF32,
             {100, 2804},
             {400, 701}}})
    expect_as_interpreted(of, whole_numbers(of));
}

// Sums of halves are rounded once, also where a sum in f32 would have been rounded to a tie before.
TEST(Collective, RoundsHalvesOnce) {
  Case of{"all_reduce(%x) {op=\"sum\"}", DType::kF16, {4096}, {4096}};
  std::mt19937 random(3);
  std::vector<ReferenceTensor> inputs = whole_numbers(of);
  for (ReferenceTensor& input : inputs)
    for (double& value : input.values)
      value = ops::round_to(DType::kF16, std::ldexp(static_cast<double>(random() % 4096) - 2048.0,
                                                    static_cast<int>(random() % 26) - 23));
  const double tie[] = {2048, 1, 0x1p-24, 0};  // 2049 lies between 2048 and 2050
  for (size_t r = 0; r < 4; ++r) inputs[r].values[0] = tie[r];
  expect_as_interpreted(of, inputs);
  of.op = "all_reduce(%x) {op=\"mean\"}";
  expect_as_interpreted(of, inputs);
  of.op = "all_reduce(%x) {op=\"square_sum\"}";
  expect_as_interpreted(of, inputs);
}

TEST(Collective, GroupsMaySpanProcesses) {
  for (const char* group : kGroups) {
    const int64_t n = members_of(group);
    const std::string more = std::string(group) + "}";
    for (const Case& of :
         {Case{"all_reduce(%x) {op=\"sum\", " + more, DType::kF32, {33}, {33}},
          Case{"all_reduce(%x) {op=\"min\", " + more, DType::kI8, {33}, {33}},
          Case{"reduce_scatter(%x) {" + more, DType::kF16, {33}, {(33 + n - 1) / n}},
          Case{"all_gather(%x) {" + more, DType::kU16, {3, 4}, {3 * n, 4}},
          Case{"replica_slice(%x) {" + more, DType::kF32, {8}, {8 / n}},
          Case{"broadcast(%x) {root=0, " + more, DType::kBool, {5}, {5}},
          Case{"all_to_all(%x) {concat_dim=1, split_dim=0, " + more, DType::kF32, {8, 3}, {8 / n, 3 * n}}}) {
      SCOPED_TRACE(of.op);
      const std::vector<ReferenceTensor> inputs = whole_numbers(of);
      const std::vector<Bytes> expected = interpreted(of, inputs);
      EXPECT_EQ(run_as_job(of, inputs, 2), expected);
      EXPECT_EQ(run_as_job(of, inputs, 4), expected);
    }
  }
}

// Ctrl-C reaches that thread alone.
TEST(Collective, TheThreadOfTheRunExchanges) {
  const Case of{"all_reduce(%x) {}", DType::kF32, {2}, {2}, 8};
  const std::shared_ptr<const program::Program> program = compiled(of, 2);
  const std::vector<ReferenceTensor> inputs = whole_numbers(of);
  std::atomic<int> elsewhere{0};
  EngineOptions options;
  options.threads = 4;
  options.exchange = [&, caller = std::this_thread::get_id()](Bytes mine) {
    elsewhere += std::this_thread::get_id() != caller;
    const Bytes same = mine;
    mine.insert(mine.end(), same.begin(), same.end());
    return mine;
  };
  const std::vector<Bytes> expected = run(program, of, inputs, options);
  for (int again = 0; again < 200; ++again) EXPECT_EQ(run(program, of, inputs, options), expected);
  EXPECT_EQ(elsewhere, 0);
}

// Both give as many bytes: one value would be taken for another.
TEST(Collective, RefusesBytesOfAnotherCollective) {
  std::unique_ptr<ir::Module> module = ir::parse(R"(
module {replicas=2}
stream @x: f32[]
stream @y: f32[] {direction="device_to_host"}
entry main = @main
graph @main() -> () {
  %x = host_load() {stream=@x} : f32[]
  %sum = all_reduce(%x) : f32[]
  %y = all_reduce(%sum) {op="max"} : f32[]
  host_store(%y) {stream=@y}
  return
})");
  executable::CompileOptions compile_options;
  compile_options.processes = 2;
  EngineOptions options;
  options.threads = 1;
  Bytes late;
  options.exchange = [&](Bytes mine) {
    if (late.empty()) late = mine;
    mine.insert(mine.end(), late.begin(), late.end());
    return mine;
  };
  Engine engine(executable::compile(*module, target::find_system("pod16"), compile_options).program, options);
  float in = 1, out = 0;
  const StreamBinding bindings[] = {{reinterpret_cast<std::byte*>(&in), 1},
                                    {reinterpret_cast<std::byte*>(&out), 1}};
  const std::string message = message_of([&] { engine.run(bindings); });
  EXPECT_NE(
      message.find("exchange between processes failed [IPU-E407]: process 1 is at another collective, or "
                   "reads another variable, than process 0"),
      std::string::npos)
      << message;
}

// A meeting that fails, or that the user stops, leaves nothing behind.
TEST(Collective, MeetsAgainAfterAnError) {
  const Case of{"all_reduce(%x) {}", DType::kF32, {2}, {2}, 8};
  const std::shared_ptr<const program::Program> program = compiled(of, 2);
  for (int threads : {1, 4}) {
    int asked = 0;
    EngineOptions options;
    options.threads = threads;
    options.exchange = [&](Bytes mine) {
      if (++asked % 2 == 1) throw Error(ErrorCode::kExecution, "the other process is gone");
      const Bytes same = mine;
      mine.insert(mine.end(), same.begin(), same.end());
      return mine;
    };
    Engine engine(program, options);
    std::vector<float> in(8, 1.0f), out(8);
    const StreamBinding bindings[] = {{reinterpret_cast<std::byte*>(in.data()), 4},
                                      {reinterpret_cast<std::byte*>(out.data()), 4}};
    for (int again = 0; again < 50; ++again) {
      EXPECT_NE(message_of([&] { engine.run(bindings); }).find("the other process is gone"),
                std::string::npos);
      engine.run(bindings);
      EXPECT_EQ(out, std::vector<float>(8, 8.0f));
    }
  }
}

TEST(Collective, SaysWhatConnectsNoProcesses) {
  const Case of{"all_reduce(%x) {}", DType::kF32, {2}, {2}};
  const std::shared_ptr<const program::Program> program = compiled(of, 2);
  const std::vector<ReferenceTensor> inputs = whole_numbers(of);
  EXPECT_NE(
      message_of([&] { run(program, of, inputs, {}); })
          .find("no other processes [IPU-E407]: this collective is of replicas of 2 processes, and nothing "
                "connects them"),
      std::string::npos);
  EXPECT_NE(
      message_of([&] {
        EngineOptions options;
        options.exchange = [](Bytes mine) { return mine; };
        run(program, of, inputs, options);
      }).find("exchange between processes failed [IPU-E407]: it gave 24 bytes, 48 expected of 2 processes"),
      std::string::npos);
  EXPECT_EQ(message_of([&] {
              EngineOptions options;
              options.first_replica = 3;
              run(program, of, inputs, options);
            }),
            "no such process [IPU-E407]: replicas 3 to 4 of a job of 4");
}

// Also where no replicas meet: shards are counted from the first replica.
TEST(Collective, RefusesProcessesThatAreNotThere) {
  const Case of{"add(%x, %x)", DType::kF32, {2}, {2}};
  const std::shared_ptr<const program::Program> program = compiled(of, 2);
  for (int first : {-4, -2, 1, 4}) {
    EngineOptions options;
    options.first_replica = first;
    EXPECT_EQ(message_of([&] { Engine(program, options); }),
              "no such process [IPU-E407]: replicas " + std::to_string(first) + " to " +
                  std::to_string(first + 1) + " of a job of 4");
  }
}

// Whichever replica has it.
TEST(Collective, FindsTheNanOfEveryReplica) {
  for (DType dtype : {DType::kF32, DType::kF16})
    for (const char* op : {"min", "max"}) {
      const Case of{std::string("all_reduce(%x) {op=\"") + op + "\"}", dtype, {5}, {5}};
      std::vector<ReferenceTensor> inputs = whole_numbers(of);
      for (size_t r = 0; r < 4; ++r) inputs[r].values[r] = std::nan("");
      const std::vector<Bytes> expected = interpreted(of, inputs), given = run(compiled(of), of, inputs, {});
      for (const std::vector<Bytes>& results : {expected, given})
        for (const Bytes& result : results) {
          const ReferenceTensor y =
              ReferenceTensor::from_constant({dtype, {5}, {result.begin(), result.end()}});
          for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(std::isnan(y.values[i])) << of.op << " " << i;
          EXPECT_FALSE(std::isnan(y.values[4])) << of.op;
        }
    }
}

// Bytes of bools come from the host as they are.
TEST(Collective, TrueIsOne) {
  for (const char* op : {"and", "or"}) {
    const Case of{std::string("all_reduce(%x) {op=\"") + op + "\"}", DType::kBool, {4}, {4}, 2};
    Engine engine(compiled(of), {.threads = 1});
    unsigned char in[] = {2, 0, 1, 0, 4, 3, 2, 0}, out[8] = {};
    const StreamBinding bindings[] = {{reinterpret_cast<std::byte*>(in), 2},
                                      {reinterpret_cast<std::byte*>(out), 2}};
    engine.run(bindings);
    const std::vector<int> expected = std::string(op) == "and" ? std::vector<int>{1, 0, 1, 0, 1, 0, 1, 0}
                                                               : std::vector<int>{1, 1, 1, 0, 1, 1, 1, 0};
    EXPECT_EQ(std::vector<int>(out, out + 8), expected) << op;
  }
}

TEST(Collective, OverflowIsAFloatingPointException) {
  for (DType dtype : {DType::kF32, DType::kF16})
    for (int processes : {1, 2}) {
      const std::string stride = std::to_string(processes);  // 2: every group is in both processes
      const Case of{"all_reduce(%x) {group_size=2, group_stride=" + stride + "}", dtype, {3}, {3}};
      const std::shared_ptr<const program::Program> program = compiled(of, processes);
      std::vector<ReferenceTensor> inputs = whole_numbers(of);
      EngineOptions options;
      options.check_floating_point = true;
      options.exchange = [](Bytes mine) {  // the other process has the same values
        const Bytes same = mine;
        mine.insert(mine.end(), same.begin(), same.end());
        return mine;
      };
      run(program, of, inputs, options);
      for (size_t r : {0, 1}) inputs[r].values[2] = dtype == DType::kF32 ? 3e38 : 60000;
      const std::string message = message_of([&] { run(program, of, inputs, options); });
      EXPECT_NE(message.find("overflow or division by zero: a result is infinite"), std::string::npos)
          << message;
      EXPECT_NE(message.find("(collective all_reduce)"), std::string::npos) << message;
      for (size_t r : {0, 1}) inputs[r].values[2] = HUGE_VAL;  // what is infinite already does not overflow
      run(program, of, inputs, options);
    }
}

TEST(Collective, RefusesGroupsThatDoNotFit) {
  EXPECT_NE(
      message_of([] {
        compiled({"all_reduce(%x) {group_size=3}", DType::kF32, {2}, {2}});
      }).find("group does not fit [IPU-E407]: a group of size 3 and stride 1 does not divide 4 replicas."),
      std::string::npos);
  EXPECT_NE(message_of([] {
              compiled({"broadcast(%x) {root=4}", DType::kF32, {2}, {2}});
            }).find("broadcast has no root [IPU-E407]: member 4 of a group of 4."),
            std::string::npos);
}

// Replica 0 meets nobody: the others took the other branch.
TEST(Collective, WaitsForNobodyWhoDoesNotCome) {
  std::unique_ptr<ir::Module> module = ir::parse(R"(
module {replicas=2}
stream @x: f32[]
stream @y: f32[] {direction="device_to_host"}
entry main = @main
graph @main() -> () {
  %x = host_load() {stream=@x} : f32[]
  %zero = constant() {value=dense<f32[]: 0.0>} : f32[]
  %is_positive = greater(%x, %zero) : bool[]
  %y = if(%is_positive, %x) {else=@alone, then=@together} : f32[]
  host_store(%y) {stream=@y}
  return
}
graph @together(%x: f32[]) -> f32[] {
  %y = all_reduce(%x) : f32[]
  return %y
}
graph @alone(%x: f32[]) -> f32[] {
  return %x
})");
  executable::CompileOptions options;
  options.replicas = 2;
  const auto program = executable::compile(*module, target::find_system("pod16"), options).program;
  for (int threads : {1, 2}) {
    EngineOptions engine_options;
    engine_options.threads = threads;
    Engine engine(program, engine_options);
    float in[] = {1, -1}, out[2] = {};
    const StreamBinding bindings[] = {{reinterpret_cast<std::byte*>(in), 2},
                                      {reinterpret_cast<std::byte*>(out), 2}};
    const std::string message = message_of([&] { engine.run(bindings); });
    EXPECT_NE(message.find("deadlock"), std::string::npos) << message;
    EXPECT_NE(message.find("(collective all_reduce), op %y = all_reduce"), std::string::npos) << message;
    EXPECT_NE(message.find(", replica 0, for the others of its group"), std::string::npos) << message;
    in[1] = 2;  // and the engine runs again
    engine.run(bindings);
    EXPECT_EQ(out[0], 3);
    EXPECT_EQ(out[1], 3);
  }
}

}  // namespace
}  // namespace ipu::emulator
