#include "support/huge_pages.h"

#include <sys/mman.h>

namespace ipu {

void ask_for_huge_pages(void* at, int64_t bytes) {
  if (bytes < 2 * kHugePage) return;
  const auto begin = reinterpret_cast<uintptr_t>(at), end = begin + static_cast<uintptr_t>(bytes);
  const uintptr_t page = static_cast<uintptr_t>(kHugePage);
  const uintptr_t first = (begin + page - 1) / page * page, last = end / page * page;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

}  // namespace ipu
