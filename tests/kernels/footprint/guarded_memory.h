// Memory of which exactly the given bytes may be touched: a page without access lies directly behind the last
// byte, or directly before the first.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <new>

#include "kernels/footprint.h"

namespace ipu::kernels::kernel_tests {

enum class Guard { kBehind, kBefore };

class GuardedMemory {
 public:
  explicit GuardedMemory(int64_t capacity)
      : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))),
        size_((static_cast<size_t>(capacity) + page_ - 1) / page_ * page_) {
    void* base = mmap(nullptr, size_ + 2 * page_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<std::byte*>(base);
    mprotect(base_, page_, PROT_NONE);
    mprotect(base_ + page_ + size_, page_, PROT_NONE);
  }
  ~GuardedMemory() { munmap(base_, size_ + 2 * page_); }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  // The first of `bytes` bytes.
  std::byte* place(int64_t bytes, Guard guard) const {
    return guard == Guard::kBehind ? base_ + page_ + size_ - bytes : base_ + page_;
  }
  // The address a kernel is given, so that `extent` counted from it is what may be touched.
  std::byte* place(Extent extent, Guard guard) const {
    return place(extent.end - extent.begin, guard) - extent.begin;
  }

 private:
  size_t page_, size_;
  std::byte* base_ = nullptr;
};

}  // namespace ipu::kernels::kernel_tests
