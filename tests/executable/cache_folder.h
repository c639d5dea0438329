// A cache folder for tests, and small programs to put into it.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "executable/cache/cache.h"
#include "ops/definition/build.h"

namespace ipu::executable {

// y = tanh(x + c), c a constant of `count` elements.
inline std::unique_ptr<ir::Module> sample(float constant = 0.5f, std::string_view op = "tanh",
                                          const std::string& location = "a.py", int64_t count = 20) {
  auto module = std::make_unique<ir::Module>();
  ir::Graph* main = module->add_graph("main");
  module->entry_points["main"] = "main";
  ir::Builder b(main);
  ir::Stream x, y;
  x.name = "x";
  y.name = "y";
  x.type = y.type = {DType::kF32, {count}};
  y.direction = ir::StreamDirection::kDeviceToHost;
  ConstantData data{DType::kF32, {count}, std::vector<std::byte>(static_cast<size_t>(4 * count))};
  for (int64_t i = 0; i < count; ++i) {
    float value = constant + static_cast<float>(i);
    std::memcpy(data.bytes.data() + 4 * i, &value, 4);
  }
  b.location = std::make_shared<const ir::LocationData>(ir::LocationData{location, 3, ""});
  ir::Value* c = b.constant(std::make_shared<const ConstantData>(data));
  ir::Value* sum = ops::build(b, "add", {b.host_load(module->add_stream(x)), c});
  b.host_store(module->add_stream(y), ops::build(b, op, {sum}));
  return module;
}

class CacheFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("ipu_cache_test_" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Executable get(float constant = 0.5f) { return get(sample(constant)); }
  Executable get_wide() { return get(sample(0.5f, "tanh", "a.py", 5000)); }
  Executable get(std::unique_ptr<ir::Module> module) const {
    return compile_cached(*module, target::find_system("pod16"), {}, {folder_.string(), "1"});
  }
  std::string entry(float constant = 0.5f) const { return entry(*sample(constant)); }
  std::string entry_of_wide() const { return entry(*sample(0.5f, "tanh", "a.py", 5000)); }
  std::string entry(const ir::Module& module) const {
    return (folder_ / entry_name(cache_key(module, target::find_system("pod16"), {}, "1"))).string();
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& file : std::filesystem::directory_iterator(folder_))
      names.push_back(file.path().filename().string());
    return names;
  }
  static std::vector<std::byte> bytes_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
    return {bytes, bytes + text.size()};
  }
  static mode_t mode_of(const std::filesystem::path& path) {
    struct stat info {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0);
    return info.st_mode & 0777;
  }

  std::filesystem::path folder_;
};

}  // namespace ipu::executable
