// Where the libraries of custom operations are that the tests load: beside the test binary, wherever that was built.
#pragma once

#include <filesystem>
#include <string>

namespace ipu {

inline std::string custom_op_library(const std::string& name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "custom_ops" / (name + ".so");
}

}  // namespace ipu
