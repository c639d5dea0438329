// A vector of plain data that keeps its first few elements in itself: most lists of an op are that short. It stays
// where it is: neither copied nor moved.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace ipu {

template <class T, uint32_t kInside>
class InlineVector {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  InlineVector() = default;
  InlineVector(const InlineVector&) = delete;
  InlineVector& operator=(const InlineVector&) = delete;
  ~InlineVector() {
    if (data_ != inside()) delete[] reinterpret_cast<std::byte*>(data_);
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T& back() { return data_[size_ - 1]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  operator std::span<const T>() const { return {data_, size_}; }

  void reserve(size_t capacity) {
    if (capacity <= capacity_) return;
    T* grown = reinterpret_cast<T*>(new std::byte[capacity * sizeof(T)]);
    std::memcpy(static_cast<void*>(grown), data_, size_ * sizeof(T));
    if (data_ != inside()) delete[] reinterpret_cast<std::byte*>(data_);
    data_ = grown;
    capacity_ = static_cast<uint32_t>(capacity);
  }
  void push_back(const T& value) {
    const T kept = value;  // it may be an element
    if (size_ == capacity_) reserve(size_t{2} * capacity_);
    data_[size_++] = kept;
  }
  void pop_back() { --size_; }
  void clear() { size_ = 0; }
  void erase(size_t i) {
    std::memmove(static_cast<void*>(data_ + i), data_ + i + 1, (size_ - i - 1) * sizeof(T));
    --size_;
  }

 private:
  T* inside() { return reinterpret_cast<T*>(inside_); }
  T* data_ = inside();
  uint32_t size_ = 0, capacity_ = kInside;
  alignas(T) std::byte inside_[kInside * sizeof(T)];
};

}  // namespace ipu
