#include "support/huge_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

namespace ipu {
namespace {

// Whether the system marked the mapping that holds `at` for huge pages: "hg" among its flags.
bool is_marked(const void* at) {
  std::ifstream maps("/proc/self/smaps");
  const auto wanted = reinterpret_cast<uintptr_t>(at);
  std::string line;
  bool is_inside = false;
  while (std::getline(maps, line)) {
    uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::istringstream head(line);
    if (line.find('-') != std::string::npos && head >> std::hex >> begin >> dash >> end && dash == '-')
      is_inside = begin <= wanted && wanted < end;
    else if (is_inside && line.starts_with("VmFlags:"))
      return (line + " ").find(" hg ") != std::string::npos;
  }
  return false;
}

class HugePages : public testing::Test {
 protected:
  void SetUp() override {
    if (access("/sys/kernel/mm/transparent_hugepage/enabled", R_OK) != 0)
      GTEST_SKIP() << "the system has no huge pages";
    at_ = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(at_, MAP_FAILED);
  }
  void TearDown() override {
    if (at_ != MAP_FAILED) munmap(at_, kBytes);
  }

  static constexpr size_t kBytes = 8 * static_cast<size_t>(kHugePage);
  void* at_ = MAP_FAILED;
};

TEST_F(HugePages, MarksWholePagesInside) {
  auto* const odd = static_cast<std::byte*>(at_) + 100;
  ask_for_huge_pages(odd, static_cast<int64_t>(kBytes) - 200);
  EXPECT_TRUE(is_marked(static_cast<std::byte*>(at_) + kBytes / 2));
}

TEST_F(HugePages, LeavesSmallBlocksAlone) {
  ask_for_huge_pages(at_, 2 * kHugePage - 1);
  EXPECT_FALSE(is_marked(at_));
}

}  // namespace
}  // namespace ipu
