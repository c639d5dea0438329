// Where the source tree is, for tests that read files of it: the nearest folder upwards that holds
// tests/source_tree.h.
#pragma once

#include <filesystem>

namespace ipu {

inline std::filesystem::path source_tree() {
  std::filesystem::path folder = std::filesystem::current_path();
  while (!std::filesystem::exists(folder / "tests" / "source_tree.h") && folder.has_relative_path())
    folder = folder.parent_path();
  return folder;
}

}  // namespace ipu
