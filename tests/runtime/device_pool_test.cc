#include "runtime/device_pool.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <utility>

#include "runtime/device_lease.h"
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

TEST(DevicePool, NumbersAllGroupsTheSmallestFirst) {
  ScopedVariable system("POPTORCH_EMULATED_SYSTEM", "pod4");
  int id = 0;
  for (const auto& [first, count] : {std::pair{0, 1}, {1, 1}, {2, 1}, {3, 1}, {0, 2}, {2, 2}, {0, 4}}) {
    const std::optional<DeviceGroup> group = DeviceGroup::of_id(id);
    ASSERT_TRUE(group.has_value());
    EXPECT_EQ(std::pair(group->first, group->count), std::pair(first, count));
    EXPECT_EQ(group->id(), id++);
  }
  EXPECT_FALSE(DeviceGroup::of_id(id).has_value());
  EXPECT_FALSE(DeviceGroup::of_id(-1).has_value());
}

TEST(DeviceLease, IsOfTheIpusThatAreAskedForWhileSomebodyHasIt) {
  ScopedVariable system("POPTORCH_EMULATED_SYSTEM", "pod4");
  DevicePool& pool = DevicePool::instance();
  std::shared_ptr<DeviceLease> pair = DeviceLease::take({2, 2}, 0, nullptr), other = pair;
  ASSERT_NE(pair, nullptr);
  EXPECT_EQ(pair->first_ipu(), 2);
  EXPECT_EQ(pair->id(), 5);
  EXPECT_EQ(DeviceLease::take({3, 1}, 0.001, nullptr), nullptr);
  EXPECT_EQ(DeviceLease::take({4, 1}, 0, nullptr), nullptr);  // there is none
  EXPECT_EQ(message_of([] {
              DeviceLease::take({3, 1}, 1000, [] { return true; });
            }),
            "interrupted [IPU-E408]: while waiting for IPUs");
  pair.reset();
  EXPECT_EQ(pool.free_count(), 2);
  std::thread later([&] { other.reset(); });
  EXPECT_NE(DeviceLease::take({3, 1}, 1000, nullptr), nullptr);
  later.join();
  EXPECT_EQ(pool.free_count(), 4);
}

TEST(DevicePool, ReleasingWhatWasNotAcquiredIsAnInternalError) {
  EXPECT_THROW(DevicePool::instance().release(0, 1), Error);
}

}  // namespace
}  // namespace ipu::runtime
