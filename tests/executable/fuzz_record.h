// What a fuzzer leaves behind: when the process dies, by a sanitizer, a signal or the watchdog, the round and
// the file that did it; else counts.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

extern "C" {
// The sanitizers' runtime defines these; other builds lack them.
__attribute__((weak)) void __sanitizer_set_death_callback(void (*)());
__attribute__((weak)) void __sanitizer_print_stack_trace();
}

namespace ipu::testing_hostile {

class FuzzRecord {
 public:
  static constexpr int kProcessorSeconds = 10;  // a round may take; on a busy machine that lasts longer
  static constexpr int kWallSeconds = 300;      // for a round that sleeps

  static FuzzRecord& instance() {
    static FuzzRecord record;
    return record;
  }

  // From here on `file` is what the process works on; both stay the caller's until the next call.
  void begin_round(uint64_t seed, int64_t round, const std::vector<std::byte>* file) {
    seed_ = seed;
    round_ = round;
    file_ = file;
    watch(kProcessorSeconds, kWallSeconds);
  }
  void end() {
    watch(0, 0);
    file_ = nullptr;
  }

  // A finding after which the process goes on. False: one like it was told before.
  bool tell(const std::string& what) {
    std::string kind;
    for (char c : what)
      if (c < '0' || c > '9') kind += c;
    if (++told_[kind] > 1) return false;
    print(what.c_str());
    keep();
    return true;
  }

 private:
  FuzzRecord() {
    if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback([] { instance().died(); });
    for (int number : {SIGABRT, SIGALRM, SIGPROF}) handle(number);
    if (__sanitizer_set_death_callback == nullptr)
      for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) handle(number);
  }
  static void handle(int number) {
    struct sigaction action = {};
    action.sa_handler = [](int signal_number) {
      signal(SIGABRT, SIG_DFL);
      watch(0, 0);
      instance().print(signal_number == SIGALRM || signal_number == SIGPROF ? "a round takes too long"
                                                                            : "a signal");
      if (__sanitizer_print_stack_trace != nullptr) __sanitizer_print_stack_trace();
      instance().keep();
      _exit(100 + signal_number);
    };
    action.sa_flags = SA_NODEFER;
    sigaction(number, &action, nullptr);
  }
  static void watch(int processor_seconds, int wall_seconds) {
    itimerval timer = {};
    timer.it_value.tv_sec = processor_seconds;
    setitimer(ITIMER_PROF, &timer, nullptr);
    alarm(static_cast<unsigned>(wall_seconds));
  }
  void died() {
    watch(0, 0);  // reports take their time
    print("the process dies");
    keep();
  }
  void print(const char* what) const {
    std::fprintf(stderr, "\nfinding: %s\n  again with: IPU_FUZZ_SEED=%llu IPU_FUZZ_FIRST=%lld\n", what,
                 static_cast<unsigned long long>(seed_), static_cast<long long>(round_));
  }
  void keep() const {
    const char* folder = std::getenv("IPU_FUZZ_KEEP");
    if (folder == nullptr || file_ == nullptr) return;
    char path[512];
    std::snprintf(path, sizeof path, "%s/%llu-%lld.poptorch", folder, static_cast<unsigned long long>(seed_),
                  static_cast<long long>(round_));
    const int to = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (to < 0) return;
    if (write(to, file_->data(), file_->size()) >= 0) std::fprintf(stderr, "  kept in: %s\n", path);
    close(to);
  }

  uint64_t seed_ = 0;
  int64_t round_ = 0;
  const std::vector<std::byte>* file_ = nullptr;
  std::map<std::string, int> told_;
};

// Messages by kind: without numbers, names in quotes, and where in the program.
class ReasonCounts {
 public:
  void add(const std::string& message) { ++counts_[kind_of(message)]; }
  void print(size_t most) const {
    std::multimap<int64_t, std::string, std::greater<>> by_count;
    for (const auto& [kind, count] : counts_) by_count.emplace(count, kind);
    for (const auto& [count, kind] : by_count) {
      if (most-- == 0) break;
      std::printf("  %8lld  %s\n", static_cast<long long>(count), kind.c_str());
    }
  }

 private:
  static std::string kind_of(const std::string& message) {
    std::string kind;
    bool quoted = false;
    for (char c : message.substr(0, message.find('\n'))) {
      if (c == '\'') quoted = !quoted;
      if (quoted || (c >= '0' && c <= '9')) continue;
      kind += c;
    }
    return kind.substr(0, 150);
  }
  std::map<std::string, int64_t> counts_;
};

}  // namespace ipu::testing_hostile
