// Zero-filled, 64-byte aligned host memory of an engine; large blocks ask for huge pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace ipu::emulator {

class HostMemory {
 public:
  HostMemory() = default;
  // Error(kHostMemory) naming `what` and the size when the system refuses.
  HostMemory(int64_t bytes, const std::string& what);
  ~HostMemory() { release(); }
  HostMemory(HostMemory&& other) noexcept { swap(other); }
  HostMemory& operator=(HostMemory&& other) noexcept {
    swap(other);
    return *this;
  }

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  void swap(HostMemory& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(mapped_, other.mapped_);
  }
  void release() noexcept;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  int64_t mapped_ = 0;  // bytes of the mapping; 0: from the heap
};

}  // namespace ipu::emulator
