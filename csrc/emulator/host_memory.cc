#include "emulator/host_memory.h"

#include <fmt/core.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "support/error.h"
#include "support/huge_pages.h"

namespace ipu::emulator {
namespace {
constexpr int64_t kLargest = int64_t{1} << 46;  // above: a mapping cannot exist, whatever the system says
}  // namespace

HostMemory::HostMemory(int64_t bytes, const std::string& what) : bytes_(bytes) {
  if (bytes <= 0) return;
  if (bytes < 2 * kHugePage) {
    size_t rounded = (static_cast<size_t>(bytes) + 63) / 64 * 64;
    data_ = static_cast<std::byte*>(std::aligned_alloc(64, rounded));
    if (data_ != nullptr) std::memset(data_, 0, rounded);
  } else if (bytes <= kLargest) {
    int64_t length = (bytes + kHugePage - 1) / kHugePage * kHugePage;
    void* at = mmap(nullptr, static_cast<size_t>(length), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                    -1, 0);
    if (at != MAP_FAILED) {
      data_ = static_cast<std::byte*>(at);
      mapped_ = length;
      ask_for_huge_pages(at, length);
    }
  }
  if (data_ == nullptr)
    throw Error(ErrorCode::kHostMemory,
                fmt::format("out of host memory: {} needs {} bytes. Use smaller batches or fewer replicas",
                            what, bytes));
}

void HostMemory::release() noexcept {
  if (mapped_ > 0) {
    munmap(data_, static_cast<size_t>(mapped_));
  } else {
    std::free(data_);
  }
  data_ = nullptr;
}

}  // namespace ipu::emulator
