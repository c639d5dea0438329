// Writers ask for a regular file or a free name: a device or a pipe would be replaced by a file, or waited for.
#pragma once

#include <string>

namespace ipu {

// Error(kFileAccess) if `path` leads to something that exists and is no regular file.
void check_target(const std::string& path);

}  // namespace ipu
