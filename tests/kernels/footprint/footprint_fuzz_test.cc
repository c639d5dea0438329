// Changes steps at random and runs those that their kernel's statement accepts, with random bytes as
// contents, on memory of which exactly the stated bytes may be touched. A wrong statement ends in a fault of
// memory; the step is printed then. IPU_FUZZ_SECONDS (2), IPU_FUZZ_SEED, IPU_FUZZ_KERNEL (ids that begin so).
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <thread>

#include "support/error.h"
#include "tests/kernels/footprint/accepted_steps.h"
#include "tests/kernels/footprint/guarded_memory.h"
#include "tests/kernels/footprint/sample_steps.h"
#include "tests/kernels/footprint/step_mutations.h"

// There when a sanitizer is.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace ipu::kernels {
namespace {

using kernel_tests::Guard;
using kernel_tests::GuardedMemory;
using kernel_tests::KernelStep;
using kernel_tests::Mutator;
using Clock = std::chrono::steady_clock;

constexpr int64_t kMostBytes = 16 << 20, kMostScratch = 64 << 20;
constexpr size_t kRegions = 12;

// What is run, for whoever finds the process dead.
std::string& current() {
  static std::string step;
  return step;
}
void say() {
  for (const char* text : {"\nthe step that died: ", current().c_str(), "\n"})
    if (write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
}
void say_and_die(int signal) {
  say();
  std::signal(signal, SIG_DFL);
}

class SignalHandlers {
 public:
  SignalHandlers() {
    if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(say);
    for (size_t k = 0; k < std::size(kSignals); ++k) old_[k] = std::signal(kSignals[k], say_and_die);
  }
  ~SignalHandlers() {
    for (size_t k = 0; k < std::size(kSignals); ++k) std::signal(kSignals[k], old_[k]);
  }

 private:
  static constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE};
  void (*old_[std::size(kSignals)])(int);
};

class StopLater final : public StopSignal {
 public:
  explicit StopLater(int milliseconds) : end_(Clock::now() + std::chrono::milliseconds(milliseconds)) {}
  bool raised() override { return Clock::now() >= end_; }

 private:
  Clock::time_point end_;
};

class Fuzzer {
 public:
  struct Count {
    int64_t tried = 0, accepted = 0, run = 0;
  };

  Fuzzer() : scratch_(kMostScratch) {
    for (size_t k = 0; k < kRegions; ++k) regions_.push_back(std::make_unique<GuardedMemory>(kMostBytes));
  }

  void try_one(const KernelStep& step, Mutator& mutator) {
    Count& count = counts_[step.id];
    ++count.tried;
    const KernelDef* def = find_kernel(step.id);
    current() = to_string(step);
    Footprint footprint;
    try {
      footprint = def->footprint(step.request());
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kInvalidProgram) << error.what() << "\n" << current();
      return;
    }
    ++count.accepted;
    ASSERT_EQ(footprint.operands.size(), step.operands.size()) << current();
    ASSERT_EQ(footprint.results.size(), step.results.size()) << current();
    Checked bytes = 0;
    for (const std::vector<Extent>* list : {&footprint.operands, &footprint.results})
      for (const Extent& extent : *list) {
        ASSERT_LE(extent.begin, extent.end) << current();
        bytes += Checked(extent.end) - extent.begin;
      }
    if (step.operands.size() + step.results.size() > kRegions) return;
    const auto begin = Clock::now();
    const std::unique_ptr<PreparedKernel> kernel = def->prepare(step.request());
    ASSERT_LT(Clock::now() - begin, std::chrono::seconds(20)) << "slow to prepare: " << current();
    if (kernel == nullptr) return;
    ASSERT_GE(kernel->lanes(), 1) << current();
    ASSERT_LE(kernel->lanes(), 65535) << current();
    ASSERT_GE(kernel->scratch_bytes(), 0) << current();
    if (bytes > kMostBytes || kernel->scratch_bytes() > kMostScratch) return;
    ++count.run;
    run(*kernel, footprint, mutator);
  }

  const std::map<std::string, Count>& counts() const { return counts_; }

 private:
  void run(const PreparedKernel& kernel, const Footprint& footprint, Mutator& mutator) {
    const Guard guard = mutator.below(2) == 0 ? Guard::kBehind : Guard::kBefore;
    const bool shared = mutator.below(8) == 0;  // all operands and results in one memory
    std::vector<std::byte*> operands, results;
    size_t region = 0;
    auto place = [&](const Extent& extent, std::vector<std::byte*>& pointers) {
      const GuardedMemory& memory = *regions_[shared ? 0 : region++];
      pointers.push_back(extent == Extent{} ? nullptr : memory.place(extent, guard));
      fill(memory.place(extent.end - extent.begin, guard), extent.end - extent.begin, mutator);
    };
    for (const Extent& extent : footprint.operands) place(extent, operands);
    for (const Extent& extent : footprint.results) place(extent, results);
    const int64_t bytes = kernel.scratch_bytes(), rounded = (bytes + 63) / 64 * 64;
    std::byte* scratch = scratch_.place(rounded, Guard::kBehind);
    std::memset(scratch, 0x7f, static_cast<size_t>(rounded));
    KernelFault fault;
    StopLater stop(50);
    const auto begin = Clock::now();
    try {
      for (int lane = 0; lane < kernel.lanes(); ++lane)
        kernel.run({operands.data(), results.data(), scratch, &fault, &stop}, lane);
    } catch (const Error& error) {  // what `abort` and `assertion` are for
      EXPECT_TRUE(error.text().find("an abort of the model was reached") != std::string::npos ||
                  error.reason() == "assertion")
          << error.what();
    }
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(20)) << "does not stop: " << current();
    for (int64_t k = bytes; k < rounded; ++k)
      ASSERT_EQ(scratch[k], std::byte{0x7f}) << "beyond its scratch memory: " << current();
  }

  // Any bytes, or integers that may be indices.
  void fill(std::byte* to, int64_t bytes, Mutator& mutator) {
    const int kind = mutator.below(4), most = 1 + mutator.below(300);
    if (kind == 0) return void(std::memset(to, mutator.below(2) == 0 ? 0 : 0xff, static_cast<size_t>(bytes)));
    uint64_t state = mutator.random()();
    for (int64_t k = 0; k < bytes; k += 4) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      auto word = static_cast<uint32_t>(state >> 32);
      if (kind < 3) word %= static_cast<uint32_t>(most);
      std::memcpy(to + k, &word, static_cast<size_t>(std::min<int64_t>(4, bytes - k)));
    }
  }

  std::vector<std::unique_ptr<GuardedMemory>> regions_;
  GuardedMemory scratch_;
  std::map<std::string, Count> counts_;
};

double number_from_environment(const char* name, double fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::atof(text);
}

TEST(FootprintFuzz, WhatAStatementAcceptsTouchesNothingElse) {
  const double seconds = number_from_environment("IPU_FUZZ_SECONDS", 2);
  auto seed = static_cast<uint64_t>(number_from_environment("IPU_FUZZ_SEED", 1));
  const char* only = std::getenv("IPU_FUZZ_KERNEL");
  std::map<std::string, std::vector<KernelStep>> seeds;
  std::vector<KernelStep> all = kernel_tests::steps_of_samples();
  for (KernelStep& step : kernel_tests::accepted_steps()) all.push_back(std::move(step));
  all.push_back(kernel_tests::layer_norm_gradient());
  for (KernelStep& step : all)
    if (find_kernel(step.id)->footprint != nullptr && (only == nullptr || step.id.starts_with(only)))
      seeds[step.id].push_back(step);
  ASSERT_FALSE(seeds.empty());
  const SignalHandlers handlers;
  Fuzzer fuzzer;
  for (const auto& [id, steps] : seeds) {  // as they are: every kernel has a step that it accepts
    for (const KernelStep& step : steps) {
      Mutator mutator(seed++);
      fuzzer.try_one(step, mutator);
      if (HasFatalFailure()) return;
    }
    EXPECT_GT(fuzzer.counts().at(id).accepted, 0) << id << ": no step to begin from is accepted";
  }
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (Clock::now() < end)
    for (const auto& [id, steps] : seeds) {
      Mutator mutator(seed++);
      KernelStep step = id == "pointwise" && mutator.below(2) == 0
                            ? mutator.random_pointwise()
                            : steps[static_cast<size_t>(mutator.below(std::ssize(steps)))];
      if (mutator.below(20) > 0 && (id != "pointwise" || mutator.below(2) == 0)) mutator.mutate(step);
      fuzzer.try_one(step, mutator);
      if (HasFatalFailure()) return;
    }
  if (seconds > 10)
    for (const auto& [id, count] : fuzzer.counts())
      std::printf("%-28s tried %8ld accepted %8ld run %8ld\n", id.c_str(), static_cast<long>(count.tried),
                  static_cast<long>(count.accepted), static_cast<long>(count.run));
}

TEST(GuardedMemory, EndsTheProcessOneByteBehindAndBefore) {
  GuardedMemory memory(100);
  for (Guard guard : {Guard::kBehind, Guard::kBefore}) {
    volatile std::byte* bytes = memory.place(Extent{-40, 60}, guard);
    bytes[-40] = std::byte{1};
    bytes[59] = std::byte{1};
    EXPECT_DEATH(bytes[guard == Guard::kBehind ? 60 : -41] = std::byte{1}, "");
  }
}

// The values of index operands, and all others, change while a kernel runs.
TEST(FootprintFuzz, ValuesThatChangeMeanwhileMoveNoAccess) {
  auto f = [](DType dtype, Shape shape) { return TensorSpec::plain(dtype, std::move(shape)); };
  const std::vector<KernelStep> steps{
      {"embedding", {f(DType::kF32, {64, 16}), f(DType::kI32, {2000})}, {f(DType::kF32, {2000, 16})}, {}},
      {"embedding_gradient",
       {f(DType::kF16, {2000, 16}), f(DType::kI32, {2000})},
       {f(DType::kF16, {64, 16})},
       {}},
      {"embedding_gradient",
       {f(DType::kF32, {2000, 16}), f(DType::kI32, {2000})},
       {f(DType::kF32, {64, 16})},
       {}},
      {"gather",
       {f(DType::kF32, {64, 40}), f(DType::kI32, {500, 40})},
       {f(DType::kF32, {500, 40})},
       {{"dim", int64_t{0}}}},
      {"scatter_add",
       {f(DType::kF32, {64, 40}), f(DType::kI32, {500, 40}), f(DType::kF32, {500, 40})},
       {f(DType::kF32, {64, 40})},
       {{"dim", int64_t{0}}}},
      {"index_select",
       {f(DType::kF32, {64, 16}), f(DType::kI32, {2000})},
       {f(DType::kF32, {2000, 16})},
       {{"dim", int64_t{0}}}},
      {"index_select",
       {f(DType::kF32, {64, 16}), f(DType::kI32, {300})},
       {f(DType::kF32, {64, 300})},
       {{"dim", int64_t{1}}}},
      {"index_add",
       {f(DType::kF32, {64, 16}), f(DType::kI32, {2000}), f(DType::kF32, {2000, 16})},
       {f(DType::kF32, {64, 16})},
       {{"dim", int64_t{0}}}},
      {"one_hot", {f(DType::kI32, {2000})}, {f(DType::kF32, {2000, 64})}, {{"classes", int64_t{64}}}},
      {"argmax", {f(DType::kF32, {50, 1500})}, {f(DType::kI32, {50})}, {{"dim", int64_t{1}}}},
      {"sort",
       {f(DType::kF32, {20, 1500})},
       {f(DType::kF32, {20, 1500}), f(DType::kI32, {20, 1500})},
       {{"dim", int64_t{1}}}},
  };
  for (const KernelStep& step : steps) {
    const KernelDef* def = find_kernel(step.id);
    const Footprint footprint = def->footprint(step.request());
    const std::unique_ptr<PreparedKernel> kernel = def->prepare(step.request());
    ASSERT_NE(kernel, nullptr) << step.id;
    std::vector<std::unique_ptr<GuardedMemory>> memory;
    std::vector<std::byte*> operands, results;
    for (const auto& [extents, pointers] :
         {std::pair{&footprint.operands, &operands}, {&footprint.results, &results}})
      for (const Extent& extent : *extents) {
        memory.push_back(std::make_unique<GuardedMemory>(extent.end));
        pointers->push_back(memory.back()->place(extent, Guard::kBehind));
      }
    GuardedMemory scratch(kernel->scratch_bytes() + 64);
    std::atomic<bool> done{false};
    std::thread writer([&] {
      Mutator mutator(5);
      while (!done)
        for (size_t k = 0; k < operands.size(); ++k) {
          const int64_t words = footprint.operands[k].end / 4;
          for (int64_t i = 0; i < words; ++i) {
            const uint32_t word = mutator.below(3) == 0 ? static_cast<uint32_t>(mutator.random()())
                                                        : static_cast<uint32_t>(mutator.below(64));
            __atomic_store_n(reinterpret_cast<uint32_t*>(operands[k]) + i, word, __ATOMIC_RELAXED);
          }
        }
    });
    const auto end = Clock::now() + std::chrono::milliseconds(30);
    while (Clock::now() < end) {
      KernelFault fault;
      for (int lane = 0; lane < kernel->lanes(); ++lane)
        kernel->run({operands.data(), results.data(),
                     scratch.place((kernel->scratch_bytes() + 63) / 64 * 64, Guard::kBehind), &fault},
                    lane);
    }
    done = true;
    writer.join();
  }
}

}  // namespace
}  // namespace ipu::kernels
