#include "runtime/device_pool.h"

#include <gtest/gtest.h>

#include <utility>

#include "support/error.h"
#include "tests/support/scoped_variable.h"
#include "tests/thrown.h"

namespace ipu::runtime {
namespace {

TEST(DevicePool, GivesTheLowestFreeAlignedGroup) {
  ScopedVariable system("POPTORCH_EMULATED_SYSTEM", "pod16");
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

TEST(DevicePool, RefusesWhenFullAndIsUsableAfterwards) {
  ScopedVariable system("POPTORCH_EMULATED_SYSTEM", "pod4");
  DevicePool& pool = DevicePool::instance();
  EXPECT_EQ(pool.acquire(2), 0);
  EXPECT_EQ(
      message_of([&] { pool.acquire(4); }),
      "Failed to acquire 4 IPU(s) [IPU-E404]: the emulated system 'pod4' has 4, of which 2 are free; "
      "IPUs are given "
      "in aligned groups of a power of two. Detach a model that is not in use, or choose a larger "
      "system with "
      "POPTORCH_EMULATED_SYSTEM (bow, bow-pod16, bow-pod64, c600, gc2, gc200, mk1-16, pod16, pod4, pod64, toy).");
  EXPECT_THROW(pool.acquire(5), Error);
  EXPECT_THROW(pool.acquire(0), Error);
  EXPECT_EQ(pool.acquire(2), 2);
  pool.release(0, 2);
  pool.release(2, 2);
  EXPECT_EQ(pool.free_count(), 4);
}

TEST(DevicePool, ReleasingWhatWasNotAcquiredIsAnInternalError) {
  EXPECT_THROW(DevicePool::instance().release(0, 1), Error);
}

}  // namespace
}  // namespace ipu::runtime
