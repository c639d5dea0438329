// Tables of fields: which members of a plain struct are written down, and under which name: in files, in the key
// of the cache, in the attributes of a module. One line per field; a member without a line does not compile.
// What a value looks like is said where it is written (executable/format/json_fields.h, ir/strategy.cc).
#pragma once

#include <cstddef>
#include <iterator>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace ipu {

template <class T, class M>
struct Field {
  std::string_view name;
  M T::*member;
};
template <class T, class M>
constexpr Field<T, M> field(std::string_view name, M T::*member) {
  return {name, member};
}

// Specialised beside the table of each struct: `static constexpr auto table = std::make_tuple(field(...),
// ...)`.
template <class T>
struct Fields;

// Specialised for enums that are written by name: `static constexpr std::string_view names[]`, by value.
template <class E>
struct EnumNames;

// "" for a value without a name.
template <class E>
requires requires { EnumNames<E>::names; }
constexpr std::string_view enum_name(E value) {
  const auto i = static_cast<size_t>(value);
  return i < std::size(EnumNames<E>::names) ? EnumNames<E>::names[i] : std::string_view();
}

// Number of members of an aggregate: how many arguments its braces take.
struct AnyMember {
  template <class U>
  operator U() const;
};
template <class T, class... Members>
constexpr size_t count_members() {
  if constexpr (requires { T{Members{}..., AnyMember{}}; })
    return count_members<T, Members..., AnyMember>();
  else
    return sizeof...(Members);
}

template <class T>
concept HasFields = requires {
  Fields<T>::table;
};

template <class T>
constexpr bool all_members_have_a_field() {
  return count_members<T>() == std::tuple_size_v<std::remove_cvref_t<decltype(Fields<T>::table)>>;
}

}  // namespace ipu

// The table of a struct, and the proof that it is complete. Stands in namespace ipu.
#define IPU_FIELDS(Type, ...)                                   \
  template <>                                                   \
  struct Fields<Type> {                                         \
    using T = Type;                                             \
    static constexpr auto table = std::make_tuple(__VA_ARGS__); \
  };                                                            \
  static_assert(all_members_have_a_field<Type>(),               \
                #Type " has a member without a line in its IPU_FIELDS table")
