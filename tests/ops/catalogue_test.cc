#include "ops/catalogue.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "tests/source_tree.h"

namespace ipu::ops {
namespace {

TEST(Catalogue, PageIsCurrent) {
  std::ifstream file(source_tree() / "docs" / "ops.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(page == catalogue())
      << "docs/ops.md is out of date. Renew it: build/core/ipu-ops --catalogue > docs/ops.md";
}

TEST(Catalogue, ShowsSignatureGradientTraitsAndImporters) {
  const std::string text = catalogue();
  EXPECT_NE(text.find("### leaky_relu\n\n`leaky_relu(x: float) {slope=0.01} -> y`\n\nx where x > 0, slope * "
                      "x elsewhere.\n\n"
                      "- gradient: yes\n- traits: elementwise, may reuse its first operand\n"
                      "- imported from: `leaky_relu`\n"),
            std::string::npos);
}

}  // namespace
}  // namespace ipu::ops
