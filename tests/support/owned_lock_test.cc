#include "support/owned_lock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "support/error.h"
#include "tests/thrown.h"

namespace ipu {
namespace {

using Again = OwnedLock::Again;
using namespace std::chrono_literals;

// Until `condition`, at most ten seconds.
template <typename Condition>
bool soon(Condition condition) {
  for (int k = 0; k < 10'000 && !condition(); ++k) std::this_thread::sleep_for(1ms);
  return condition();
}

TEST(OwnedLock, OneThreadAtATime) {
  OwnedLock lock("the counter", Again::kRefused);
  int counter = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int k = 0; k < 5000; ++k) {
        OwnedLock::Hold hold(lock);
        ++counter;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(counter, 20'000);
}

TEST(OwnedLock, ItsHolderMayTakeItAgainOrIsRefused) {
  OwnedLock again("the wrapper", Again::kAllowed), once("the device", Again::kRefused);
  {
    OwnedLock::Hold outer(again);
    OwnedLock::Hold inner(again);
  }
  OwnedLock::Hold outer(once);
  EXPECT_EQ(message_of([&] { OwnedLock::Hold inner(once); }),
            "call inside a call [IPU-E416]: the device is in use by this very thread, which was interrupted "
            "(a signal "
            "handler, an exchange of gradients).\n"
            "  try:      set a flag in the handler and act on it after the call");
  std::atomic<bool> free{false};
  std::thread([&] {
    OwnedLock::Hold other(again);  // both holds of the block above are gone
    free = true;
  }).join();
  EXPECT_TRUE(free);
}

TEST(OwnedLock, ACircleIsRefusedToWhoWouldCloseIt) {
  OwnedLock a("the first model", Again::kAllowed), b("the second model", Again::kAllowed);
  std::atomic<bool> has_b{false}, waits{false};
  std::string other = "not reached";
  a.acquire();
  std::thread thread([&] {
    OwnedLock::Hold hold(b);
    has_b = true;
    waits = true;
    other = message_of([&] { OwnedLock::Hold hold(a); });
  });
  ASSERT_TRUE(soon([&] { return has_b.load() && waits.load(); }));
  std::this_thread::sleep_for(100ms);  // it waits for the first one now
  EXPECT_EQ(
      message_of([&] { OwnedLock::Hold hold(b); }),
      "threads wait for each other [IPU-E416]: the second model is in use by a thread that waits for what "
      "this "
      "one holds.\n  try:      call again; call models that share weights or an optimizer from one thread");
  a.release();
  thread.join();
  EXPECT_EQ(other, "no error");  // the others go on
}

TEST(OwnedLock, WhoComesFirstIsServedFirst) {
  OwnedLock lock("the device", Again::kRefused);
  std::atomic<bool> stop{false}, started{false};
  std::atomic<int> rounds{0};
  std::thread busy([&] {
    while (!stop) {
      OwnedLock::Hold hold(lock);
      started = true;
      std::this_thread::sleep_for(2ms);
      ++rounds;
    }
  });
  ASSERT_TRUE(soon([&] { return started.load(); }));
  for (int k = 0; k < 10; ++k) {
    const int before = rounds;
    OwnedLock::Hold hold(lock);
    EXPECT_LE(rounds - before, 2);
  }
  stop = true;
  busy.join();
}

bool interrupt_now() { return true; }
std::mutex interpreter;
void outside(const std::function<void()>& wait) {
  interpreter.unlock();
  wait();
  interpreter.lock();
}
struct Hooks {
  explicit Hooks(WaitHooks hooks) { set_wait_hooks(hooks); }
  ~Hooks() { set_wait_hooks({}); }
};

TEST(OwnedLock, WaitingEndsWhenTheUserInterrupts) {
  OwnedLock lock("the device", Again::kRefused);
  lock.acquire();
  std::string message;
  {
    Hooks hooks({nullptr, &interrupt_now});
    std::thread([&] { message = message_of([&] { OwnedLock::Hold hold(lock); }); }).join();
  }
  lock.release();
  EXPECT_EQ(message, "interrupted [IPU-E408]: while waiting for the device");
  OwnedLock::Hold hold(lock);  // nothing is left of the one that gave up
}

TEST(OwnedLock, NobodyWaitsInsideTheInterpreter) {
  Hooks hooks({&outside, nullptr});
  OwnedLock lock("the device", Again::kRefused);
  std::atomic<bool> has_lock{false}, asks{false};
  std::thread holder([&] {
    OwnedLock::Hold hold(lock);
    has_lock = true;
    soon([&] { return asks.load(); });
    std::lock_guard gil(interpreter);  // as a run that looks for signals
  });
  ASSERT_TRUE(soon([&] { return has_lock.load(); }));
  interpreter.lock();
  asks = true;
  { OwnedLock::Hold hold(lock); }
  interpreter.unlock();
  holder.join();
}

TEST(OwnedLock, ManyLocksAndThreadsInAllOrdersEndWithLocksOrErrors) {
  OwnedLock locks[3] = {{"a", Again::kAllowed}, {"b", Again::kAllowed}, {"c", Again::kRefused}};
  std::atomic<int> held{0}, refused{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int k = 0; k < 2000; ++k) {
        try {
          OwnedLock::Hold first(locks[(t + k) % 3]);
          OwnedLock::Hold second(locks[(t * k + 1) % 3]);
          ++held;
        } catch (const Error& error) {
          if (error.code() == ErrorCode::kBusy) ++refused;
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(held + refused, 8000);
}

}  // namespace
}  // namespace ipu
