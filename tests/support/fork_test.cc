// What a forked child finds: mutexes of the process free, objects of the parent refused.
#include "support/fork.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/thrown.h"

namespace ipu {
namespace {

// Exit code of a child that does `work`.
template <typename Work>
int in_child(Work work) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(work());
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(Fork, AMutexThatAnotherThreadHoldsIsFreeInTheChildAndWhatItGuardsIsWhole) {
  static auto& mutex = *new ForkSafe<std::mutex>;
  static int64_t one = 0, other = 0;
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) {
      std::lock_guard lock(mutex);
      ++one;
      for (int spins = 0; spins < 1000; ++spins) asm volatile("");
      ++other;
    }
  });
  for (int fork = 0; fork < 50; ++fork) {
    EXPECT_EQ(in_child([] {
                std::lock_guard lock(mutex);
                return one == other ? 0 : 1;
              }),
              0);
  }
  stop = true;
  busy.join();
}

TEST(Fork, NestedMutexesDoNotLockUpTheFork) {
  static auto& outer = *new ForkSafe<std::mutex>;
  static auto& inner = *new ForkSafe<std::shared_mutex>;
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    for (bool turn = false; !stop; turn = !turn) {  // one way at a time, as a program does
      std::lock_guard first(outer);
      std::shared_lock second(inner);
    }
  });
  for (int fork = 0; fork < 50; ++fork) {
    EXPECT_EQ(in_child([] {
                std::lock_guard first(outer);
                std::lock_guard second(inner);
                return 0;
              }),
              0);
  }
  stop = true;
  busy.join();
}

int renewed = 0;

TEST(Fork, OnlyChildrenRenew) {
  in_forked_child([] { ++renewed; });
  EXPECT_EQ(in_child([] { return in_child([] { return renewed; }); }), 2);
  EXPECT_EQ(renewed, 0);
}

TEST(Fork, AnObjectBelongsToTheProcessThatMadeIt) {
  const OwnProcess mine;
  EXPECT_TRUE(mine.is_here());
  mine.require("the test");
  const std::string parent = std::to_string(getpid());
  EXPECT_EQ(in_child([&] {
              if (mine.is_here() || !OwnProcess().is_here()) return 1;
              const std::string expected =
                  "in a forked process [IPU-E407]: the test belongs to process " + parent +
                  ", which this process (" + std::to_string(getpid()) +
                  ") was forked from. The threads that serve it stayed there.\n"
                  "  try:      make the wrapper in this process, or start processes with 'spawn' instead of "
                  "'fork'";
              const std::string given = message_of([&] { mine.require("the test"); });
              if (given != expected) std::fprintf(stderr, "%s\n", given.c_str());
              return given == expected ? 0 : 2;
            }),
            0);
}

}  // namespace
}  // namespace ipu
