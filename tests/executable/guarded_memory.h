// Host tensors between pages that nobody may touch: an access before the first or behind the last byte ends
// the process, far ones too. Inputs are seen by the engine through a read-only mapping of the same pages.
// Regions are kept and used again, so that a tensor costs no system call.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "support/error.h"

namespace ipu::testing_hostile {

class GuardedRegion {
 public:
  explicit GuardedRegion(int64_t capacity) : capacity_(capacity) {
    const int file = memfd_create("tensor", 0);
    IPU_CHECK(file >= 0 && ftruncate(file, capacity_) == 0, "no memory for a host tensor");
    writable_ = map(file, PROT_READ | PROT_WRITE);
    read_only_ = map(file, PROT_READ);
    close(file);
  }
  ~GuardedRegion() {
    for (std::byte* at : {writable_, read_only_})
      munmap(at - kGuard, static_cast<size_t>(capacity_ + 2 * kGuard));
  }
  GuardedRegion(const GuardedRegion&) = delete;
  GuardedRegion& operator=(const GuardedRegion&) = delete;

  int64_t capacity() const { return capacity_; }
  std::byte* writable() const { return writable_; }
  std::byte* read_only() const { return read_only_; }

 private:
  static constexpr int64_t kGuard = int64_t{256} << 20;  // addresses only

  std::byte* map(int file, int protection) const {
    void* all = mmap(nullptr, static_cast<size_t>(capacity_ + 2 * kGuard), PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    IPU_CHECK(all != MAP_FAILED, "no addresses for a host tensor");
    std::byte* inside = static_cast<std::byte*>(all) + kGuard;
    void* at = mmap(inside, static_cast<size_t>(capacity_), protection, MAP_SHARED | MAP_FIXED, file, 0);
    IPU_CHECK(at == inside, "no memory for a host tensor");
    return inside;
  }

  int64_t capacity_;
  std::byte *writable_ = nullptr, *read_only_ = nullptr;
};

// A tensor of so many bytes whose end, or begin, lies against a guard page.
struct GuardedTensor {
  std::byte* fill = nullptr;       // for the test
  std::byte* read_only = nullptr;  // for the engine
  int64_t bytes = 0;
};

// Hands out tensors until reset().
class GuardedMemory {
 public:
  GuardedTensor take(int64_t bytes, bool against_begin = false) {
    const int64_t page = 4096;
    int64_t capacity = page;
    while (capacity < bytes) capacity *= 2;
    size_t at = used_;
    while (at < regions_.size() && regions_[at]->capacity() != capacity) ++at;
    if (at == regions_.size()) regions_.push_back(std::make_unique<GuardedRegion>(capacity));
    std::swap(regions_[at], regions_[used_]);
    const GuardedRegion& region = *regions_[used_++];
    const int64_t offset = against_begin ? 0 : capacity - bytes;
    return {region.writable() + offset, region.read_only() + offset, bytes};
  }
  void reset() {
    used_ = 0;
    if (regions_.size() > kKept) regions_.clear();
  }

 private:
  static constexpr size_t kKept = 256;
  std::vector<std::unique_ptr<GuardedRegion>> regions_;  // the first used_ are taken
  size_t used_ = 0;
};

}  // namespace ipu::testing_hostile
