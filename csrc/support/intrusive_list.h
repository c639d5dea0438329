// A list whose elements hold their links: T derives from ListLinks<T>. It owns nothing. An iterator stays valid until
// its element leaves the list. Reads like a list of pointers: `*at` has get(), -> and *.
#pragma once

#include <cstddef>
#include <iterator>

namespace ipu {

template <class T>
class IntrusiveList;

template <class T>
class ListLinks {
  friend class IntrusiveList<T>;
  T* previous_ = nullptr;
  T* next_ = nullptr;
};

template <class T>
class IntrusiveList {
  using Links = ListLinks<T>;

 public:
  class Pointer {
   public:
    explicit Pointer(T* at) : at_(at) {}
    T* get() const { return at_; }
    T* operator->() const { return at_; }
    T& operator*() const { return *at_; }

   private:
    T* at_;
  };

  class Iterator {
   public:
    using iterator_category = std::bidirectional_iterator_tag;
    using value_type = Pointer;
    using difference_type = std::ptrdiff_t;
    using pointer = void;
    using reference = Pointer;
    Iterator() = default;
    Iterator(const IntrusiveList* list, T* at) : list_(list), at_(at) {}
    Pointer operator*() const { return Pointer(at_); }
    Iterator& operator++() {
      at_ = links(at_)->next_;
      return *this;
    }
    Iterator& operator--() {
      at_ = at_ == nullptr ? list_->last_ : links(at_)->previous_;
      return *this;
    }
    Iterator operator++(int) {
      const Iterator before = *this;
      ++*this;
      return before;
    }
    Iterator operator--(int) {
      const Iterator before = *this;
      --*this;
      return before;
    }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    const IntrusiveList* list_ = nullptr;
    T* at_ = nullptr;  // nullptr: the end
  };
  using iterator = Iterator;
  using const_iterator = Iterator;

  IntrusiveList() = default;
  IntrusiveList(const IntrusiveList&) = delete;
  IntrusiveList& operator=(const IntrusiveList&) = delete;

  Iterator begin() const { return {this, first_}; }
  Iterator end() const { return {this, nullptr}; }
  auto rbegin() const { return std::reverse_iterator(end()); }
  auto rend() const { return std::reverse_iterator(begin()); }
  Pointer front() const { return Pointer(first_); }
  Pointer back() const { return Pointer(last_); }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  static T* next(const T* element) { return links(element)->next_; }          // nullptr at the end
  static T* previous(const T* element) { return links(element)->previous_; }  // nullptr at the beginning
  void insert(T* element, T* before) {                                        // nullptr: at the end
    T* previous = before == nullptr ? last_ : links(before)->previous_;
    links(element)->previous_ = previous;
    links(element)->next_ = before;
    (previous == nullptr ? first_ : links(previous)->next_) = element;
    (before == nullptr ? last_ : links(before)->previous_) = element;
    ++size_;
  }
  void remove(T* element) {
    T* previous = links(element)->previous_;
    T* next = links(element)->next_;
    (previous == nullptr ? first_ : links(previous)->next_) = next;
    (next == nullptr ? last_ : links(next)->previous_) = previous;
    --size_;
  }

 private:
  static Links* links(T* element) { return element; }
  static const Links* links(const T* element) { return element; }
  T* first_ = nullptr;
  T* last_ = nullptr;
  size_t size_ = 0;
};

}  // namespace ipu
