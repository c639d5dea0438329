// Where a tensor is, as far as the program says: from its producer, else from who reads it, call sites included.
#pragma once

#include <optional>

#include "frontends/popxl/program.h"

namespace ipu::popxl {

struct Place {
  std::optional<int64_t> ipu;
  std::optional<TileSet> tile_set;
};
Place place_of(const Tensor& tensor);

}  // namespace ipu::popxl
