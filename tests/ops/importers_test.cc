// The registry of importers: by domain, type and version.
#include "ops/definition/importers.h"

#include <gtest/gtest.h>

#include "tests/thrown.h"

namespace ipu::ops {
namespace {

const NodeImporter kNothing = [](NodeImportCall&) {};

TEST(Importers, AreFoundInTheirVersionsAlone) {
  register_importer({"test.range", "Thing", {3, 5}, kNothing});
  register_importer({"test.range", "Thing", {8, 8}, kNothing});
  for (const int version : {3, 4, 5}) {
    const Importer* found = find_importer("test.range", "Thing", version);
    ASSERT_NE(found, nullptr) << version;
    EXPECT_EQ(found->versions.since, 3);
  }
  EXPECT_EQ(find_importer("test.range", "Thing", 8)->versions.since, 8);
  for (const int version : {2, 6, 7, 9})
    EXPECT_EQ(find_importer("test.range", "Thing", version), nullptr) << version;
  EXPECT_EQ(find_importer("test.range", "Other", 3), nullptr);
  EXPECT_EQ(find_importer("test.other", "Thing", 3), nullptr);
  EXPECT_EQ(importers_of("test.range", "Thing").size(), 2U);
}

TEST(Importers, OfOneOperatorMayNotShareAVersion) {
  register_importer({"test.overlap", "Thing", {3, 5}, kNothing});
  const auto refused = [](VersionRange range) {
    return message_of([&] { register_importer({"test.overlap", "Thing", range, kNothing}); });
  };
  EXPECT_NE(
      refused({5, 9}).find("test.overlap::Thing has two importers: one for versions 3 to 5, one for 5 to 9"),
      std::string::npos);
  EXPECT_NE(refused({1, 3}).find("two importers"), std::string::npos);
  EXPECT_NE(refused({4, 4}).find("two importers"), std::string::npos);
  EXPECT_NE(refused({1, 9}).find("two importers"), std::string::npos);
  EXPECT_NE(refused({9, 8}).find("is for versions 9 to 8"), std::string::npos);
  register_importer({"test.overlap", "Thing", {1, 2}, kNothing});
  register_importer({"test.overlap", "Thing", {6, 6}, kNothing});
  EXPECT_EQ(find_importer("test.overlap", "Thing", 6)->versions.since, 6);
}

TEST(Importers, OfOnnxAreFoundByBothNamesOfItsDomain) {
  const Importer* named = find_importer("ai.onnx", "Relu", 13);
  ASSERT_NE(named, nullptr);
  EXPECT_EQ(find_importer("", "Relu", 13), named);
  EXPECT_EQ(find_importer("ai.onnx", "Relu", kNewestOnnx + 1), nullptr);
  EXPECT_NE(message_of([] {
              register_importer({"", "Relu", {13, 13}, kNothing});
            }).find("::Relu has two importers"),
            std::string::npos);
}

TEST(Importers, OfTorchStandInTheSameTableAndHaveNoVersion) {
  EXPECT_NE(find_aten_importer("add.Tensor"), nullptr);
  EXPECT_EQ(find_aten_importer("add.Nothing"), nullptr);
  EXPECT_TRUE(std::holds_alternative<AtenImporter>(find_importer("aten", "add.Tensor", 0)->import));
  EXPECT_EQ(find_importer("aten", "add.Tensor", 1), nullptr);
  EXPECT_NE(message_of([] {
              register_aten_importer("add.Tensor", [](AtenImportCall&) {});
            }).find("aten::add.Tensor has two importers"),
            std::string::npos);
}

}  // namespace
}  // namespace ipu::ops
