// Containers for many small things: a vector with a few elements inside, a list of linked elements, a pool.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>
#include <vector>

#include "support/inline_vector.h"
#include "support/intrusive_list.h"
#include "support/pool.h"

namespace ipu {
namespace {

TEST(InlineVector, grows_beyond_what_it_has_inside_and_keeps_all) {
  InlineVector<int, 3> numbers;
  EXPECT_TRUE(numbers.empty());
  for (int i = 0; i < 100; ++i) {
    numbers.push_back(i);
    if (i > 0) numbers.push_back(numbers[0]);  // an element of its own
    if (i > 0) numbers.pop_back();
  }
  ASSERT_EQ(numbers.size(), 100u);
  numbers.erase(0);
  numbers.erase(98);
  std::vector<int> expected(98);
  std::iota(expected.begin(), expected.end(), 1);
  EXPECT_TRUE(std::equal(numbers.begin(), numbers.end(), expected.begin(), expected.end()));
  EXPECT_EQ(numbers.back(), 98);
  numbers.clear();
  EXPECT_EQ(std::span<const int>(numbers).size(), 0u);
}

struct Element : ListLinks<Element> {
  explicit Element(int n) : number(n) {}
  int number;
};

std::vector<int> numbers(const IntrusiveList<Element>& list) {
  std::vector<int> found, backwards;
  for (const auto& element : list) found.push_back(element->number);
  for (auto at = list.rbegin(); at != list.rend(); ++at) backwards.push_back((*at)->number);
  std::reverse(backwards.begin(), backwards.end());
  EXPECT_EQ(found, backwards);
  EXPECT_EQ(found.size(), list.size());
  return found;
}

TEST(IntrusiveList, keeps_the_order_of_insertions_and_removals) {
  Element a(1), b(2), c(3), d(4);
  IntrusiveList<Element> list;
  EXPECT_EQ(numbers(list), std::vector<int>{});
  list.insert(&b, nullptr);
  list.insert(&d, nullptr);
  list.insert(&a, &b);
  list.insert(&c, &d);
  EXPECT_EQ(numbers(list), (std::vector{1, 2, 3, 4}));
  auto at = list.begin();
  Element* second = (*std::next(at)).get();
  EXPECT_EQ(second, &b);
  EXPECT_EQ(IntrusiveList<Element>::next(&d), nullptr);
  EXPECT_EQ(IntrusiveList<Element>::previous(&a), nullptr);
  EXPECT_EQ((*std::prev(list.end())).get(), &d);
  for (auto next = list.begin(); next != list.end();) {  // an iterator that went on outlives its element
    Element& here = **next++;
    if (here.number % 2 == 1) list.remove(&here);
  }
  EXPECT_EQ(numbers(list), (std::vector{2, 4}));
  list.remove(&b);
  list.remove(&d);
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.front().get(), nullptr);
}

TEST(Pool, gives_each_object_memory_of_its_own_and_takes_it_back) {
  struct alignas(32) Thing {
    char bytes[96];
  };
  Pool<Thing> pool;
  std::set<std::byte*> taken;
  for (int i = 0; i < 3000; ++i) {
    auto* memory = static_cast<std::byte*>(pool.take());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % alignof(Thing), 0u);
    auto [at, is_new] = taken.insert(memory);
    ASSERT_TRUE(is_new);
    if (at != taken.begin()) {
      ASSERT_GE(memory - *std::prev(at), std::ptrdiff_t{sizeof(Thing)});
    }
    if (i % 3 == 2) {
      pool.give_back(*taken.begin());
      taken.erase(taken.begin());
    }
  }
  for (std::byte* memory : taken) pool.give_back(memory);
}

}  // namespace
}  // namespace ipu
