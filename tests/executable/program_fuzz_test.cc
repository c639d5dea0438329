// Sealed files with hostile programs: legal ones edited at the level of their data (program_mutator.h),
// written with right checksums, read, and where the reader takes them, run (hostile_run.h) under whatever
// sanitizer the build has. Each round ends with a refusal, an Error, or the end of the run.
//
//   IPU_FUZZ_SECONDS (2)  how long            IPU_FUZZ_PROGRAMS  folder of programs (make_programs.py)
//   IPU_FUZZ_SEED (1)     which rounds        IPU_FUZZ_KEEP      folder for files of findings
//   IPU_FUZZ_FIRST (0)    first round         IPU_FUZZ_REPLAY    only this file, a few times
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <ctime>

#include "ops/custom/custom_op.h"
#include "tests/custom_op_libraries.h"
#include "tests/executable/fuzz_record.h"
#include "tests/executable/hostile_run.h"
#include "tests/executable/program_samples.h"

// Read by the sanitizer when the process begins: an end that FuzzRecord sees.
extern "C" const char* __ubsan_default_options() { return "abort_on_error=1:print_stacktrace=1"; }

namespace ipu::testing_hostile {
namespace {

using Clock = std::chrono::steady_clock;

double setting(const char* name, double fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtod(text, nullptr);
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// What a stranger's file may never bring about, beside what a sanitizer finds. Empty: all is well.
std::string complaint(const Verdict& verdict) {
  return verdict.outcome != Outcome::kRan && verdict.outcome != Outcome::kTooLarge &&
                 verdict.code == ErrorCode::kInternal
             ? "a file reaches a broken invariant: " + verdict.message
             : "";
}

const std::vector<Sample>& samples() {
  static const std::vector<Sample> made = all_samples(
      std::getenv("IPU_FUZZ_PROGRAMS"), ops::load_custom_ops(custom_op_library("custom_ops_example")));
  return made;
}

// Whole models half of the time; the longer a program, the rarer, because a round takes longer.
const Sample& any_sample(std::mt19937_64& random) {
  static const std::vector<const Sample*> models = [] {
    std::vector<const Sample*> list;
    for (const Sample& sample : samples())
      if (sample.program.ipus[0].instructions.size() > 8) list.push_back(&sample);
    return list;
  }();
  if (random() % 2 == 0 || models.empty()) return samples()[random() % samples().size()];
  const Sample* chosen = nullptr;
  for (int tries = 0; tries < 3; ++tries) {
    const Sample* sample = models[random() % models.size()];
    if (chosen == nullptr ||
        sample->program.ipus[0].instructions.size() < chosen->program.ipus[0].instructions.size())
      chosen = sample;
  }
  return *chosen;
}

TEST(ProgramFuzz, every_sample_is_accepted_as_it_is) {
  HostileRun feed;
  for (const Sample& sample : samples()) {
    SCOPED_TRACE(sample.name);
    const std::vector<std::byte> file = bytes_of(sample, sample.program, sample.signature);
    for (int threads : {1, 2}) {
      const Verdict verdict = feed(file, threads, 10'000);
      // Among the random values are indices out of range and integers of more than 32 bits, which the run
      // says, and numbers at which `abort` or `assertion` ends it.
      EXPECT_TRUE(verdict.outcome == Outcome::kRan ||
                  verdict.message.find("index out of range") != std::string::npos ||
                  verdict.message.find("integer does not fit") != std::string::npos ||
                  verdict.message.find("an abort of the model was reached") != std::string::npos ||
                  verdict.message.find("assertion failed") != std::string::npos)
          << static_cast<int>(verdict.outcome) << " " << verdict.message;
    }
  }
}

TEST(ProgramFuzz, edited_programs_are_refused_or_run_within_their_memory) {
  if (std::getenv("IPU_FUZZ_REPLAY") != nullptr) GTEST_SKIP();
  const auto seed = static_cast<uint64_t>(setting("IPU_FUZZ_SEED", 1));
  const auto first = static_cast<int64_t>(setting("IPU_FUZZ_FIRST", 0));
  const double limit = setting("IPU_FUZZ_SECONDS", 2);
  FuzzRecord& record = FuzzRecord::instance();
  HostileRun feed;
  std::map<Outcome, int64_t> outcomes;
  ReasonCounts refused, failed;
  double slowest = 0;
  samples();
  const Clock::time_point begin = Clock::now();
  const std::clock_t begin_processor = std::clock();
  int64_t round = first;
  for (; seconds_since(begin) < limit; ++round) {
    std::seed_seq sequence{seed, static_cast<uint64_t>(round)};
    std::mt19937_64 random(sequence);
    feed.reseed(random());
    const Sample& sample = any_sample(random);
    program::Program program = sample.program;
    executable::Signature signature = sample.signature;
    record.begin_round(seed, round, nullptr);
    Mutator(samples(), random).edit(program, signature);
    std::vector<std::byte> file;
    try {
      file = bytes_of(sample, program, signature);
    } catch (const Error&) {
      continue;  // not even a writer of hostile files could write it
    }
    record.begin_round(seed, round, &file);
    const Clock::time_point round_begin = Clock::now();
    const Verdict verdict = feed(file, random() % 16 == 0 ? 2 : 1);
    slowest = std::max(slowest, seconds_since(round_begin));
    ++outcomes[verdict.outcome];
    if (verdict.outcome == Outcome::kRefused) refused.add(verdict.message);
    if (verdict.outcome == Outcome::kFailed) failed.add(verdict.message);
    const std::string what = complaint(verdict);
    if (!what.empty() && record.tell(what)) ADD_FAILURE() << what;
  }
  record.end();
  const int64_t rounds = round - first;
  std::printf(
      "%zu samples; %lld programs: %lld refused, %lld too large, %lld ran, %lld failed, %lld stopped; "
      "%.0f a second, %.0f a second of processor time, the slowest took %.2f s\n",
      samples().size(), static_cast<long long>(rounds), static_cast<long long>(outcomes[Outcome::kRefused]),
      static_cast<long long>(outcomes[Outcome::kTooLarge]), static_cast<long long>(outcomes[Outcome::kRan]),
      static_cast<long long>(outcomes[Outcome::kFailed]), static_cast<long long>(outcomes[Outcome::kStopped]),
      static_cast<double>(rounds) / seconds_since(begin),
      static_cast<double>(rounds) * CLOCKS_PER_SEC / static_cast<double>(std::clock() - begin_processor),
      slowest);
  const auto lines = static_cast<size_t>(setting("IPU_FUZZ_REASONS", 0));
  if (lines > 0) {
    std::printf("refused:\n");
    refused.print(lines);
    std::printf("failed:\n");
    failed.print(lines);
  }
}

TEST(ProgramFuzz, the_file_in_IPU_FUZZ_REPLAY_harms_nothing) {
  const char* path = std::getenv("IPU_FUZZ_REPLAY");
  if (path == nullptr) GTEST_SKIP() << "no IPU_FUZZ_REPLAY";
  executable::ContainerWriter copy;
  const executable::Container container = executable::Container::read(path);
  for (const auto& [name, value] : container.metadata())
    if (!name.starts_with("digest:")) copy.metadata[name] = value;
  for (const auto& [name, blob] : container.blobs()) copy.add(name, blob);
  const std::vector<std::byte> file = copy.bytes();
  if (setting("IPU_FUZZ_PRINT", 0) != 0)
    std::printf("%s\n", program::print(*executable::read_executable(container).program).c_str());
  HostileRun feed;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    FuzzRecord::instance().begin_round(seed, 0, nullptr);
    feed.reseed(seed);
    const Verdict verdict = feed(file, seed % 4 == 3 ? 2 : 1);
    EXPECT_EQ(complaint(verdict), "");
    if (seed == 0) std::printf("outcome %d %s\n", static_cast<int>(verdict.outcome), verdict.message.c_str());
  }
  FuzzRecord::instance().end();
}

}  // namespace
}  // namespace ipu::testing_hostile
