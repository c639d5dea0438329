// Hostile folders: entries of a dozen programs are damaged, exchanged and forged under fresh checksums. What
// comes out is the right program, or at least one that meets its host where the right one does.
// IPU_FUZZ_SECONDS (default 2) and IPU_FUZZ_SEED.
#include <array>
#include <chrono>
#include <cstdlib>
#include <random>

#include "executable/format/container.h"
#include "program/program.h"
#include "support/error.h"
#include "support/log.h"
#include "tests/executable/cache_folder.h"

namespace ipu::executable {
namespace {

double setting(const char* name, double fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtod(text, nullptr);
}

class ExecutableFuzzCache : public CacheFolder {
 protected:
  static constexpr int kPrograms = 12;
  // Programs differ in a constant, an operation, or the size of their streams.
  static std::unique_ptr<ir::Module> source(int i) {
    static constexpr std::array<std::string_view, 3> kOps{"tanh", "sin", "exp"};
    return sample(0.25f * static_cast<float>(i / 6), kOps[static_cast<size_t>(i) % 3], "a.py",
                  i % 2 == 0 ? 20 : 300);
  }
  void SetUp() override {
    CacheFolder::SetUp();
    level_ = log_level();
    set_log_level(LogLevel::kError);
    for (int i = 0; i < kPrograms; ++i) {
      right_.push_back(program::print(*get(source(i)).program));
      good_.push_back(bytes_of(entry(*source(i))));
    }
  }
  void TearDown() override {
    set_log_level(level_);
    CacheFolder::TearDown();
  }
  void put(int i, const std::vector<std::byte>& bytes) const {
    std::ofstream file(entry(*source(i)), std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  static std::string host_side(const program::Program& p) {
    std::string text;
    for (const program::Stream& s : p.streams)
      text += s.name + to_string(std::span<const int64_t>(s.spec.shape)) +
              std::to_string(static_cast<int>(s.mode)) + " ";
    return text;
  }

  LogLevel level_ = LogLevel::kWarn;
  std::vector<std::string> right_;
  std::vector<std::vector<std::byte>> good_;
};

TEST_F(ExecutableFuzzCache, mutated_entries_never_change_what_is_compiled) {
  std::mt19937_64 random(static_cast<uint64_t>(setting("IPU_FUZZ_SEED", 13)));
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(setting("IPU_FUZZ_SECONDS", 2));
  while (std::chrono::steady_clock::now() < end) {
    const int i = static_cast<int>(random() % kPrograms), other = static_cast<int>(random() % kPrograms);
    bool must_be_right = true;
    std::vector<std::byte> bytes = good_[static_cast<size_t>(i)];
    switch (random() % 3) {
      case 0:
        for (uint64_t edits = 1 + random() % 4; edits > 0; --edits)
          bytes[random() % bytes.size()] = static_cast<std::byte>(random());
        if (random() % 4 == 0) bytes.resize(random() % bytes.size());
        break;
      case 1:
        bytes = good_[static_cast<size_t>(other)];
        break;
      default: {  // under fresh checksums, with the key of `i` now and then
        const Container from = Container::parse(good_[static_cast<size_t>(other)], "FILE");
        const Container key = Container::parse(good_[static_cast<size_t>(i)], "FILE");
        ContainerWriter writer;
        for (const auto& [name, value] : (random() % 2 == 0 ? key : from).metadata())
          if (!name.starts_with("digest:")) writer.metadata[name] = value;
        const std::string section = std::array{"program", "executable", "signature"}[random() % 3];
        std::string text(from.section(section));
        for (uint64_t edits = random() % 4; edits > 0; --edits) {
          const size_t at = text.find_first_of("0123456789", random() % text.size());
          if (at != std::string::npos) text[at] = static_cast<char>('0' + random() % 10);
        }
        for (const auto& [name, blob] : from.blobs())
          if (name != section) writer.add(name, blob);
        writer.add_section(section, text);
        bytes = writer.bytes();
        must_be_right = false;
      }
    }
    put(i, bytes);
    Executable got = get(source(i));
    const std::string wanted = right_[static_cast<size_t>(i)], got_text = program::print(*got.program);
    if (must_be_right || !got.from_cache) {
      ASSERT_EQ(got_text, wanted);
    }
    Executable fresh = compile(*source(i), target::find_system("pod16"), {});
    ASSERT_EQ(host_side(*got.program), host_side(*fresh.program));
    if (got_text != wanted) put(i, good_[static_cast<size_t>(i)]);
  }
}

}  // namespace
}  // namespace ipu::executable
