#include "support/interruption.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/thrown.h"

namespace ipu {
namespace {

// Polls for `milliseconds`.
void work(int milliseconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  while (std::chrono::steady_clock::now() < end) poll_interruption();
}

TEST(Interruption, WorkEndsSoonAfterTheQuestionIsAnsweredWithYes) {
  bool wanted = false;
  int questions = 0;
  Interruptible scope([&] {
    ++questions;
    return wanted;
  });
  work(200);
  EXPECT_GE(questions, 3);
  EXPECT_LE(questions, 12);
  wanted = true;
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(message_of([] { work(5000); }), "interrupted [IPU-E408]: while compiling");
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(500));
}

TEST(Interruption, OnlyTheThreadAndTheInnermostScopeCount) {
  work(50);  // nobody to ask
  Interruptible scope([] { return true; });
  std::thread([] { work(100); }).join();
  {
    Interruptible inner(nullptr);
    work(100);
  }
  EXPECT_EQ(message_of([] { work(5000); }), "interrupted [IPU-E408]: while compiling");
}

}  // namespace
}  // namespace ipu
