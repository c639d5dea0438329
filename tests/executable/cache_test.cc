// The executable cache: what its key depends on, hits, damaged entries, several threads at once.
#include "executable/cache.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "executable/container.h"
#include "ops/build.h"
#include "program/program.h"
#include "support/error.h"

namespace ipu::executable {
namespace {

namespace fs = std::filesystem;

// y = tanh(x + c), c a constant of 20 elements.
std::unique_ptr<ir::Module> sample(float constant = 0.5f, std::string_view op = "tanh",
                                   const std::string& location = "a.py") {
  auto module = std::make_unique<ir::Module>();
  ir::Graph* main = module->add_graph("main");
  module->entry_points["main"] = "main";
  ir::Builder b(main);
  ir::Stream x, y;
  x.name = "x";
  y.name = "y";
  x.type = y.type = {DType::kF32, {20}};
  y.direction = ir::StreamDirection::kDeviceToHost;
  ConstantData data{DType::kF32, {20}, std::vector<std::byte>(80)};
  for (int i = 0; i < 20; ++i) {
    float value = constant + static_cast<float>(i);
    std::memcpy(data.bytes.data() + 4 * i, &value, 4);
  }
  b.location = std::make_shared<const ir::LocationData>(ir::LocationData{location, 3, ""});
  ir::Value* c = b.constant(std::make_shared<const ConstantData>(data));
  ir::Value* sum = ops::build(b, "add", {b.host_load(module->add_stream(x)), c});
  b.host_store(module->add_stream(y), ops::build(b, op, {sum}));
  return module;
}

std::vector<std::string> differing(const CacheKey& a, const CacheKey& b) {
  std::vector<std::string> parts;
  for (const auto& [part, value] : a)
    if (b.at(part) != value) parts.push_back(part);
  return parts;
}

TEST(ExecutableCache, the_key_has_a_part_for_everything_that_decides) {
  using Parts = std::vector<std::string>;
  const target::System& pod16 = target::find_system("pod16");
  CompileOptions options, more;
  more.device_iterations = 3;
  const CacheKey key = cache_key(*sample(), pod16, options, "1");
  EXPECT_EQ(differing(key, cache_key(*sample(), pod16, options, "1")), Parts{});
  EXPECT_EQ(differing(key, cache_key(*sample(0.5f, "tanh", "b.py"), pod16, options, "1")), Parts{});
  EXPECT_EQ(differing(key, cache_key(*sample(0.75f), pod16, options, "1")), Parts{"constants"});
  EXPECT_EQ(differing(key, cache_key(*sample(0.5f, "sin"), pod16, options, "1")), Parts{"graph"});
  EXPECT_EQ(differing(key, cache_key(*sample(), pod16, more, "1")), Parts{"options"});
  EXPECT_EQ(differing(key, cache_key(*sample(), target::find_system("pod4"), options, "1")),
            Parts{"machine"});
  EXPECT_EQ(differing(key, cache_key(*sample(), pod16, options, "2")), Parts{"version"});
}

class ExecutableCacheFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("ipu_cache_test_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  Executable get(float constant = 0.5f) {
    return compile_cached(*sample(constant), target::find_system("pod16"), {}, {folder_.string(), "1"});
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& file : fs::directory_iterator(folder_)) names.push_back(file.path().filename().string());
    return names;
  }
  fs::path folder_;
};

TEST_F(ExecutableCacheFolder, the_second_time_is_a_hit_with_the_same_program) {
  Executable first = get(), second = get(), other = get(2.0f);
  EXPECT_FALSE(first.from_cache);
  EXPECT_TRUE(second.from_cache);
  EXPECT_FALSE(other.from_cache);
  EXPECT_EQ(program::print(*first.program), program::print(*second.program));
  EXPECT_EQ(first.ir_text, second.ir_text);
  EXPECT_EQ(files().size(), 2u);  // no locks and no temporary files stay
}

TEST_F(ExecutableCacheFolder, a_damaged_entry_is_compiled_and_written_again) {
  get();
  const fs::path entry = folder_ / files().at(0);
  fs::resize_file(entry, fs::file_size(entry) / 2);
  EXPECT_FALSE(get().from_cache);
  EXPECT_TRUE(get().from_cache);
}

TEST_F(ExecutableCacheFolder, threads_at_once_compile_once) {
  std::vector<char> hits(4, 0);
  std::vector<std::thread> threads;
  for (char& hit : hits) threads.emplace_back([&] { hit = get().from_cache ? 1 : 0; });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::count(hits.begin(), hits.end(), 0), 1);
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(ExecutableCacheFolder, a_lock_that_a_dead_process_left_is_no_obstacle) {
  const CacheKey key = cache_key(*sample(), target::find_system("pod16"), {}, "1");
  fs::create_directories(folder_);
  std::ofstream(folder_ / (fs::path(entry_name(key)).stem().string() + ".lock")) << "";
  EXPECT_FALSE(get().from_cache);
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(ExecutableCacheFolder, a_folder_that_cannot_be_made_is_an_error) {
  std::ofstream(folder_.string()) << "a file";
  try {
    get();
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("cannot write file [IPU-E504]: the folder of the executable cache, " +
                                   folder_.string()),
              std::string::npos)
        << error.message();
  }
}

}  // namespace
}  // namespace ipu::executable
