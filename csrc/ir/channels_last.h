// Permutations between images [N, C, H, W] and [N, H, W, C], with any number of spatial dimensions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace ipu::ir {

// What belongs to the dimensions of an image with the channels last, for the one with the channels first.
template <typename List>
List channels_first(List list) {
  std::rotate(list.begin() + 1, list.end() - 1, list.end());
  return list;
}

inline std::vector<int64_t> channels_last_permutation(size_t rank) {  // [0, 2, 3, 1]
  std::vector<int64_t> perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  std::rotate(perm.begin() + 1, perm.begin() + 2, perm.end());
  return perm;
}

inline std::vector<int64_t> channels_first_permutation(size_t rank) {  // [0, 3, 1, 2]
  std::vector<int64_t> perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  return channels_first(std::move(perm));
}

}  // namespace ipu::ir
