// Large blocks of host memory that are written from end to end: the system gives them out faster in huge pages.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ipu {

inline constexpr int64_t kHugePage = int64_t{2} << 20;

// Asks for huge pages for those that lie whole inside [at, at + bytes), before the block is touched. A hint: nothing
// happens where huge pages are off or the block is small.
void ask_for_huge_pages(void* at, int64_t bytes);

}  // namespace ipu
