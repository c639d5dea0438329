#include "support/interruption.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>

#include "tests/thrown.h"

namespace ipu {
namespace {

// Polls for some intervals; a minute is for hangs.
void work(int64_t intervals) {
  const int64_t end = coarse_now_ns() + intervals * kInterruptionInterval;
  while (coarse_now_ns() < end) poll_interruption();
}
constexpr int64_t kMinute = 60'000'000'000 / kInterruptionInterval;

TEST(Interruption, QuestionsAreAnIntervalApartAndTheFirstYesEndsTheWork) {
  int questions = 0;
  const int64_t begin = coarse_now_ns();
  Interruptible scope([&] {
    ++questions;
    EXPECT_GE(coarse_now_ns() - begin, questions * kInterruptionInterval);
    return questions == 5;
  });
  EXPECT_EQ(message_of([] { work(kMinute); }), "interrupted [IPU-E408]: while compiling");
  EXPECT_EQ(questions, 5);
}

TEST(Interruption, OnlyTheThreadAndTheInnermostScopeCount) {
  work(3);  // nobody to ask
  Interruptible scope([] { return true; });
  std::thread([] { work(5); }).join();
  {
    Interruptible inner(nullptr);
    work(5);
  }
  EXPECT_EQ(message_of([] { work(kMinute); }), "interrupted [IPU-E408]: while compiling");
}

}  // namespace
}  // namespace ipu
