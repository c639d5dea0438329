#include "ir/type.h"

namespace ipu::ir {

std::string to_string(const Type& type) {
  std::string text =
      std::string(ipu::to_string(type.dtype)) + ipu::to_string(std::span<const int64_t>(type.shape));
  if (!type.layout.is_plain()) text += ":" + std::string(ipu::to_string(type.layout));
  return text;
}

}  // namespace ipu::ir
