// Bytes of strangers become a text that Python takes and a terminal shows.
#include "support/foreign_text.h"

#include <gtest/gtest.h>

#include <random>

namespace ipu {
namespace {

TEST(ForeignText, keeps_what_can_be_printed) {
  const std::string text = "weights: \xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80 \"x\"";
  EXPECT_EQ(printable(text), text);
  EXPECT_EQ(quotation(text), text);
  EXPECT_EQ(printable("a\n\tb"), "a\n\tb");
}

TEST(ForeignText, escapes_what_is_no_character) {
  EXPECT_EQ(printable("\xff"), "\\xff");
  EXPECT_EQ(printable("\xc3"), "\\xc3");                             // cut off
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");                    // overlong
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // half a surrogate pair
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // beyond Unicode
  EXPECT_FALSE(is_utf8("\xed\xa0\x80"));
  EXPECT_TRUE(is_utf8("\x01\xc3\xa4"));
}

TEST(ForeignText, escapes_what_a_terminal_obeys) {
  EXPECT_EQ(printable(std::string_view("\x1b[31m\0\x7f\r", 8)), "\\x1b[31m\\x00\\x7f\\x0d");
  EXPECT_EQ(printable("\xe2\x80\xae"), "\\xe2\\x80\\xae");  // turns the direction of what follows
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");           // a control sequence in one character
}

TEST(ForeignText, quotations_are_one_short_line) {
  EXPECT_EQ(quotation("a\n  b\tc"), "a b c");
  EXPECT_EQ(quotation(std::string(1000, 'x'), 5), "xxxxx... (1000 bytes)");
  EXPECT_EQ(quotation("ab\xc3\xa4 cd", 3), "ab... (7 bytes)");  // not within a character
}

TEST(ForeignText, any_bytes_become_utf8) {
  std::mt19937 random(5);
  for (int i = 0; i < 20000; ++i) {
    std::string bytes(random() % 12, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    ASSERT_TRUE(is_utf8(printable(bytes)));
    ASSERT_TRUE(is_utf8(quotation(bytes, 5)));
  }
}

}  // namespace
}  // namespace ipu
