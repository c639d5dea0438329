// Hostile files: mutated bytes, and mutated sections under fresh checksums, as somebody who wants harm would
// write them. Reading gives an executable or an Error; what is read can be prepared for running or is
// refused. IPU_FUZZ_SECONDS (default 2) and IPU_FUZZ_SEED.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdlib>

#include "emulator/engine.h"
#include "tests/executable/sample_file.h"

namespace ipu::executable {
namespace {

double setting(const char* name, double fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtod(text, nullptr);
}

class Clock {
 public:
  bool runs() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count() <
           setting("IPU_FUZZ_SECONDS", 2);
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// Small enough that preparing it is no test of the host's memory.
bool is_small(const program::Program& program) {
  int64_t bytes = 0;
  for (const program::IpuProgram& ipu : program.ipus) bytes += ipu.arena_bytes;
  for (const program::Variable& v : program.variables) bytes += v.spec.stored_bytes() * program.replicas;
  for (const program::Ring& q : program.rings) bytes += q.bytes * q.capacity * program.replicas;
  return bytes < (int64_t{64} << 20) && program.replicas <= 16;
}

void feed(std::vector<std::byte> bytes) {
  try {
    Container container = Container::parse(std::move(bytes), "FILE");
    Executable executable = read_executable(container);
    read_signature(container, executable.program.get());
    if (executable.program == nullptr || !is_small(*executable.program)) return;
    emulator::EngineOptions options;
    options.threads = 1;
    emulator::Engine engine(executable.program, options);
  } catch (const Error&) {
  }
}

TEST(ExecutableFuzz, mutated_bytes_are_read_or_refused) {
  std::mt19937_64 random(static_cast<uint64_t>(setting("IPU_FUZZ_SEED", 11)));
  const std::vector<std::byte> good = sample_bytes(7);
  for (Clock clock; clock.runs();) {
    std::vector<std::byte> bytes = good;
    for (int edits = 1 + static_cast<int>(random() % 4); edits > 0; --edits) {
      size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0:
          bytes[at] = static_cast<std::byte>(random());
          break;
        case 1:
          bytes.resize(at + 1);
          break;
        case 2:
          bytes.insert(bytes.begin() + static_cast<ptrdiff_t>(at), 1 + random() % 9, std::byte{'9'});
          break;
        default:
          bytes[random() % std::min<size_t>(bytes.size(), 4000)] = static_cast<std::byte>(random());
          break;
      }
    }
    feed(std::move(bytes));
  }
}

TEST(ExecutableFuzz, mutated_sections_under_fresh_checksums_are_read_or_refused) {
  std::mt19937_64 random(static_cast<uint64_t>(setting("IPU_FUZZ_SEED", 12)));
  std::vector<Container> samples;
  for (uint64_t seed = 1; seed <= 12; ++seed) samples.push_back(Container::parse(sample_bytes(seed), "FILE"));
  static const std::string kNumbers[] = {
      "0", "-1", "1", "2", "7", "63", "64", "65", "255", "1000", "2147483647", "9223372036854775807", "1e9"};
  for (Clock clock; clock.runs();) {
    const Container& container = samples[random() % samples.size()];
    const std::string section =
        std::array{"program", "program", "program", "signature", "executable"}[random() % 5];
    std::string text(container.section(section));
    for (int edits = 1 + static_cast<int>(random() % 3); edits > 0; --edits) {
      size_t at = text.find_first_of(random() % 3 == 0 ? "\"{[:" : "0123456789", random() % text.size());
      if (at == std::string::npos) continue;
      switch (random() % 6) {
        case 0:
          text[at] = static_cast<char>(' ' + random() % 95);
          break;
        case 1:
          text.erase(at, 1 + random() % 12);
          break;
        case 2:
          text.insert(at, text.substr(random() % text.size(), random() % 40));
          break;
        default: {
          size_t end = text.find_first_not_of("0123456789", at);
          if (end != std::string::npos && end > at)
            text.replace(at, end - at, kNumbers[random() % std::size(kNumbers)]);
          break;
        }
      }
    }
    feed(resealed(container, section, text));
  }
}

}  // namespace
}  // namespace ipu::executable
