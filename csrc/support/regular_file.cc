#include "support/regular_file.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include "support/error.h"
#include "support/foreign_text.h"

namespace ipu {

void check_target(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode)) return;
  const char* kind = S_ISDIR(info.st_mode)    ? "a folder"
                     : S_ISFIFO(info.st_mode) ? "a pipe"
                     : S_ISSOCK(info.st_mode) ? "a socket"
                                              : "a device";
  throw Error(
      ErrorCode::kFileAccess,
      fmt::format(
          "cannot write file: {}: not a regular file, but {}. Give the name of a file, or a new name.",
          printable(path), kind));
}

}  // namespace ipu
