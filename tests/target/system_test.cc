#include "target/system.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "support/error.h"
#include "tests/thrown.h"

namespace ipu::target {
namespace {

class EmulatedSystem : public testing::Test {
 protected:
  void SetUp() override {
    const char* value = std::getenv("POPTORCH_EMULATED_SYSTEM");
    if (value != nullptr) saved_ = value;
  }
  void TearDown() override {
    saved_.empty() ? unsetenv("POPTORCH_EMULATED_SYSTEM")
                   : setenv("POPTORCH_EMULATED_SYSTEM", saved_.c_str(), 1);
  }
  static void use(const char* name) { setenv("POPTORCH_EMULATED_SYSTEM", name, 1); }

 private:
  std::string saved_;
};

TEST_F(EmulatedSystem, is_a_pod16_unless_the_environment_says_otherwise) {
  unsetenv("POPTORCH_EMULATED_SYSTEM");
  EXPECT_EQ(attached_system().name, "pod16");
  EXPECT_EQ(attached_system().num_ipus, 16);
  use("");
  EXPECT_EQ(attached_system().name, "pod16");
  use("mk1-16");
  EXPECT_EQ(attached_system().ipu_version, 1);
  EXPECT_EQ(attached_system().tiles_per_ipu, 1216);
  use("bow-pod16");
  EXPECT_EQ(attached_system().ipu_version, 21);
}

TEST_F(EmulatedSystem, an_unknown_name_is_refused_with_the_known_ones) {
  EXPECT_EQ(message_of([] { find_system("pod8"); }),
            "unknown system 'pod8' [IPU-E503]: known are bow-pod16, mk1-16, pod16, pod4, pod64. "
            "POPTORCH_EMULATED_SYSTEM says which one is emulated.");
  EXPECT_EQ(system_names().size(), 5u);
}

TEST_F(EmulatedSystem, groups_are_the_lowest_free_aligned_ones) {
  use("pod16");
  DevicePool& pool = DevicePool::instance();
  ASSERT_EQ(pool.free_count(), 16);
  EXPECT_EQ(pool.acquire(1), 0);
  EXPECT_EQ(pool.acquire(2), 2);
  EXPECT_EQ(pool.acquire(3), 4);  // rounded up to 4, aligned to 4
  EXPECT_EQ(pool.acquire(1), 1);
  EXPECT_EQ(pool.free_count(), 8);
  pool.release(4, 3);
  EXPECT_EQ(pool.acquire(4), 4);
  for (auto [first, count] : {std::pair{0, 1}, {1, 1}, {2, 2}, {4, 4}}) pool.release(first, count);
  EXPECT_EQ(pool.free_count(), 16);
}

TEST_F(EmulatedSystem, a_full_system_is_the_documented_error_and_usable_afterwards) {
  use("pod4");
  DevicePool& pool = DevicePool::instance();
  EXPECT_EQ(pool.acquire(2), 0);
  EXPECT_EQ(message_of([&] { pool.acquire(4); }),
            "Failed to acquire 4 IPU(s) [IPU-E404]: the emulated system 'pod4' has 4, of which 2 are free; "
            "IPUs are given "
            "in aligned groups of a power of two. Detach a model that is not in use, or choose a larger "
            "system with "
            "POPTORCH_EMULATED_SYSTEM (bow-pod16, mk1-16, pod16, pod4, pod64).");
  EXPECT_THROW(pool.acquire(5), Error);
  EXPECT_THROW(pool.acquire(0), Error);
  EXPECT_EQ(pool.acquire(2), 2);
  pool.release(0, 2);
  pool.release(2, 2);
  EXPECT_EQ(pool.free_count(), 4);
}

TEST_F(EmulatedSystem, releasing_what_was_not_acquired_is_an_internal_error) {
  EXPECT_THROW(DevicePool::instance().release(0, 1), Error);
}

}  // namespace
}  // namespace ipu::target
