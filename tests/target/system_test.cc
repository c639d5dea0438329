#include "target/system.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "support/error.h"
#include "tests/thrown.h"

namespace ipu::target {
namespace {

class EmulatedSystem : public testing::Test {
 protected:
  void SetUp() override {
    const char* value = std::getenv("POPTORCH_EMULATED_SYSTEM");
    if (value != nullptr) saved_ = value;
  }
  void TearDown() override {
    saved_.empty() ? unsetenv("POPTORCH_EMULATED_SYSTEM")
                   : setenv("POPTORCH_EMULATED_SYSTEM", saved_.c_str(), 1);
  }
  static void use(const char* name) { setenv("POPTORCH_EMULATED_SYSTEM", name, 1); }

 private:
  std::string saved_;
};

TEST_F(EmulatedSystem, is_a_pod16_unless_the_environment_says_otherwise) {
  unsetenv("POPTORCH_EMULATED_SYSTEM");
  EXPECT_EQ(attached_system().name, "pod16");
  EXPECT_EQ(attached_system().num_ipus, 16);
  use("");
  EXPECT_EQ(attached_system().name, "pod16");
  use("mk1-16");
  EXPECT_EQ(attached_system().ipu_version, 1);
  EXPECT_EQ(attached_system().tiles_per_ipu, 1216);
  use("bow-pod16");
  EXPECT_EQ(attached_system().ipu_version, 21);
}

TEST_F(EmulatedSystem, an_unknown_name_is_refused_with_the_known_ones) {
  EXPECT_EQ(
      message_of([] { find_system("pod8"); }),
      "unknown system 'pod8' [IPU-E503]: known are bow, bow-pod16, bow-pod64, c600, gc2, gc200, mk1-16, pod16, pod4, pod64, toy. "
      "POPTORCH_EMULATED_SYSTEM says which one is emulated.");
  EXPECT_EQ(system_names().size(), 11u);
}

TEST(SystemModel, IsOfTheArchitectureThatIsNamed) {
  EXPECT_EQ(find_model("ipu1", false)->bytes_per_ipu(), int64_t{1216} * 256 * 1024);
  EXPECT_EQ(find_model("ipu2", false)->bytes_per_ipu(), int64_t{1472} * 638'976);
  EXPECT_EQ(find_model("ipu21", true)->bytes_per_ipu(), int64_t{4} * 638'976);
  EXPECT_EQ(find_model("ipu3", false), nullptr);
}

}  // namespace
}  // namespace ipu::target
