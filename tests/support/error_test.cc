// Errors carry code, text, kind and the user's line as fields; what is added later stands in all of them.
#include "support/error.h"

#include <gtest/gtest.h>

#include "support/device_error.h"

namespace ipu {
namespace {

TEST(Error, the_code_stands_behind_the_key_phrase) {
  const Error error(ErrorCode::kParse, "not a number: 'x'. Write digits.");
  EXPECT_EQ(error.text(), "not a number: 'x'. Write digits.");
  EXPECT_EQ(error.message(), "not a number [IPU-E203]: 'x'. Write digits.");
  EXPECT_STREQ(error.what(), error.message().c_str());
  EXPECT_EQ(error.type(), kCppError);
  EXPECT_EQ(Error(ErrorCode::kParse, "no end").message(), "no end [IPU-E203]");
}

TEST(Error, lines_are_added_behind_the_text_and_the_code_stays_in_place) {
  Error error(ErrorCode::kParse, "no end");
  error.add("\n  in: a file");
  EXPECT_EQ(error.text(), "no end\n  in: a file");
  EXPECT_EQ(error.message(), "no end [IPU-E203]\n  in: a file");
  EXPECT_STREQ(error.what(), error.message().c_str());
  const Error anew(error.code(), error.text() + "\n  try:      again", error.type());
  EXPECT_EQ(anew.message(), "no end [IPU-E203]\n  in: a file\n  try:      again");
}

TEST(Error, a_known_line_is_not_replaced_by_an_unknown_one) {
  Error error(ErrorCode::kParse, "no end");
  error.at("model.py:12").at("");
  EXPECT_EQ(error.user_line(), "model.py:12");
}

TEST(Error, the_context_is_that_of_the_thread_that_raises) {
  ErrorContext outer("compiling");
  ErrorContext inner("lowering");
  EXPECT_EQ(Error(ErrorCode::kParse, "no end").context(),
            (std::vector<std::string>{"lowering", "compiling"}));
}

TEST(Error, errors_of_the_device_name_what_makes_it_usable) {
  EXPECT_EQ(DeviceError("link down: IPU 0", "IPU_RESET").type(), kRecoverableError);
  EXPECT_EQ(DeviceError("link down: IPU 0", "").type(), kUnrecoverableError);
}

}  // namespace
}  // namespace ipu
