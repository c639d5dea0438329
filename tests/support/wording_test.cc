#include "support/wording.h"

#include <gtest/gtest.h>

namespace ipu {
namespace {

Error refused() {
  return worded(ErrorCode::kOption, "few_rings", "few rings: {rings} of {ring} {{}}",
                {{"rings", 3}, {"ring", "a {brace}"}}, kPopartException);
}

TEST(Wording, ParametersStandForTheirFields) {
  const Error error = refused();
  EXPECT_EQ(error.message(), "few rings [IPU-E414]: 3 of a {brace} {}");
  EXPECT_EQ(error.reason(), "few_rings");
  EXPECT_EQ(error.parameters().size(), 2u);
  EXPECT_EQ(error.type(), kPopartException);
}

TEST(Wording, ARowOfTheReasonReplacesTheText) {
  const Wording rows[] = {{"other", "no"}, {"few_rings", "{text}. Set rings({rings})"}};
  const Error error = reworded(refused().at("model.py:3"), rows);
  EXPECT_EQ(error.message(), "few rings [IPU-E414]: 3 of a {brace} {}. Set rings(3)");
  EXPECT_EQ(error.user_line(), "model.py:3");
  EXPECT_EQ(error.reason(), "few_rings");
}

TEST(Wording, AnErrorWithoutARowStaysAsItIs) {
  const Wording rows[] = {{"few_rings", "no"}};
  EXPECT_EQ(reworded(Error(ErrorCode::kOption, "{as} it is"), rows).text(), "{as} it is");
}

}  // namespace
}  // namespace ipu
