#include "support/error_category.h"

#include <gtest/gtest.h>

namespace ipu {
namespace {

TEST(ErrorCategory, follows_the_code) {
  EXPECT_EQ(category_of(Error(ErrorCode::kInterrupted, "")), ErrorCategory::kCancelled);
  EXPECT_EQ(category_of(Error(ErrorCode::kTypeMismatch, "")), ErrorCategory::kInvalidArgument);
  EXPECT_EQ(category_of(Error(ErrorCode::kAnchor, "")), ErrorCategory::kNotFound);
  EXPECT_EQ(category_of(Error(ErrorCode::kHostMemory, "")), ErrorCategory::kResourceExhausted);
  EXPECT_EQ(category_of(Error(ErrorCode::kBusy, "")), ErrorCategory::kFailedPrecondition);
  EXPECT_EQ(category_of(Error(ErrorCode::kUnsupportedOps, "")), ErrorCategory::kUnimplemented);
  EXPECT_EQ(category_of(Error(ErrorCode::kExecution, "")), ErrorCategory::kInternal);
}

TEST(ErrorCategory, follows_the_reason_where_errors_of_a_code_are_of_several_kinds) {
  const auto of_run = [](const char* reason) {
    return category_of(Error(ErrorCode::kExecution, "").because(reason));
  };
  EXPECT_EQ(of_run("stream_ended"), ErrorCategory::kOutOfRange);
  EXPECT_EQ(of_run("no_variable"), ErrorCategory::kNotFound);
  EXPECT_EQ(of_run("not_attached"), ErrorCategory::kFailedPrecondition);
  EXPECT_EQ(of_run("index_out_of_range"), ErrorCategory::kInvalidArgument);
  EXPECT_EQ(of_run("another"), ErrorCategory::kInternal);
}

TEST(ErrorCategory, has_the_numbers_of_statuses) {
  EXPECT_EQ(static_cast<int>(ErrorCategory::kInvalidArgument), 3);
  EXPECT_EQ(static_cast<int>(ErrorCategory::kNotFound), 5);
  EXPECT_EQ(static_cast<int>(ErrorCategory::kResourceExhausted), 8);
  EXPECT_EQ(static_cast<int>(ErrorCategory::kFailedPrecondition), 9);
  EXPECT_EQ(static_cast<int>(ErrorCategory::kOutOfRange), 11);
  EXPECT_EQ(static_cast<int>(ErrorCategory::kUnimplemented), 12);
  EXPECT_EQ(static_cast<int>(ErrorCategory::kInternal), 13);
}

}  // namespace
}  // namespace ipu
