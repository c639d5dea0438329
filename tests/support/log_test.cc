// The native log: levels, line format, destinations, repeated lines.
#include "support/log.h"

#include <gtest/gtest.h>

// GCC bug 105562: a false alarm under sanitizers.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <regex>
#pragma GCC diagnostic pop

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "support/error.h"

namespace ipu {
namespace {

class LogTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "log_test_" + std::to_string(getpid()) + ".txt";
    std::remove(path_.c_str());
    set_log_destination(path_);
  }
  void TearDown() override {
    set_log_destination("stderr");
    std::remove(path_.c_str());
    set_log_level(LogLevel::kWarn);
    set_max_repeat_logs(std::numeric_limits<uint64_t>::max());
  }
  std::vector<std::string> lines() const {
    std::ifstream file(path_);
    std::vector<std::string> all;
    for (std::string line; std::getline(file, line);) all.push_back(line);
    return all;
  }
  std::string path_;
};

TEST_F(LogTest, WritesTimeComponentLevelAndMessage) {
  log(LogLevel::kWarn, "a message");
  ASSERT_EQ(lines().size(), 1u);
  EXPECT_TRUE(std::regex_match(
      lines()[0], std::regex(R"(\[\d\d:\d\d:\d\d\.\d\d\d\] \[poptorch:cpp\] \[warning\] a message)")))
      << lines()[0];
}

TEST_F(LogTest, WritesOnlyEnabledLevels) {
  for (LogLevel level :
       {LogLevel::kTrace, LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarn, LogLevel::kError})
    log(level, "one");
  EXPECT_EQ(lines().size(), 2u);
  set_log_level(LogLevel::kOff);
  log(LogLevel::kError, "two");
  EXPECT_EQ(lines().size(), 2u);
  set_log_level(LogLevel::kTrace);
  log(LogLevel::kTrace, "three");
  EXPECT_EQ(lines().size(), 3u);
}

TEST_F(LogTest, LeavesOutRepeatedLinesAndSaysHowMany) {
  set_max_repeat_logs(2);
  for (int i = 0; i < 10; ++i) log(LogLevel::kWarn, "again");
  log(LogLevel::kWarn, "next");
  ASSERT_EQ(lines().size(), 4u);
  EXPECT_NE(lines()[1].find("again"), std::string::npos);
  EXPECT_NE(lines()[2].find("(the line above was repeated 8 more times)"), std::string::npos);
  EXPECT_NE(lines()[3].find("next"), std::string::npos);
}

TEST_F(LogTest, AnotherLimitBeginsAnotherCount) {
  set_max_repeat_logs(2);
  for (int i = 0; i < 3; ++i) log(LogLevel::kWarn, "again");
  set_max_repeat_logs(2);  // the same: the count goes on
  log(LogLevel::kWarn, "again");
  ASSERT_EQ(lines().size(), 2u);
  set_max_repeat_logs(3);
  ASSERT_EQ(lines().size(), 3u);
  EXPECT_NE(lines()[2].find("(the line above was repeated 2 more times)"), std::string::npos);
  log(LogLevel::kWarn, "again");
  EXPECT_EQ(lines().size(), 4u);
}

TEST_F(LogTest, DestinationThatCannotBeWrittenIsAnError) {
  try {
    set_log_destination("/nowhere/at/all/log.txt");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kEnvironment);
    EXPECT_EQ(e.message(),
              "cannot write the log [IPU-E503]: '/nowhere/at/all/log.txt': No such file or directory. "
              "POPTORCH_LOG_DEST is stderr, stdout or the name of a file");
  }
}

}  // namespace
}  // namespace ipu
