// Memory for many objects of one type: side by side in blocks, and given out again after it was given back. Objects
// stay where they are. Blocks go when the pool goes, so whoever took memory destroys the objects in it before.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <vector>

namespace ipu {

template <class T>
class Pool {
 public:
  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

#if defined(__SANITIZE_ADDRESS__)  // which finds only what goes back to the heap
  void* take() { return ::operator new(sizeof(T)); }
  void give_back(void* memory) { ::operator delete(memory); }
#else
  void* take() {
    if (free_ != nullptr) {
      Slot* slot = free_;
      free_ = slot->next;
      return slot;
    }
    if (unused_ == 0) {
      unused_ = std::min(kMost, kFew << std::min<size_t>(blocks_.size(), kDoublings));
      blocks_.emplace_back(new Slot[unused_]);
      next_ = blocks_.back().get();
    }
    --unused_;
    return next_++;
  }
  void give_back(void* memory) { free_ = new (memory) Slot{.next = free_}; }
#endif

 private:
  static constexpr size_t kFew = 4, kMost = 256, kDoublings = 6;
  union Slot {
    Slot* next;
    alignas(T) std::byte object[sizeof(T)];
  };
  std::vector<std::unique_ptr<Slot[]>> blocks_;
  Slot* free_ = nullptr;
  Slot* next_ = nullptr;  // the first of `unused_` ones at the end of the last block
  size_t unused_ = 0;
};

}  // namespace ipu
