// Tables of fields: which members of a plain struct go to a file, and under which name. One line per field; a
// member without a line does not compile. What a value looks like in JSON is in json_fields.h.
#pragma once

#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace ipu::executable {

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

// Specialised for enums that files name: `static constexpr std::string_view names[]`, by value.
template <class E>
struct EnumNames;

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

}  // namespace ipu::executable

// The table of a struct, and the proof that it is complete.
#define IPU_FIELDS(Type, ...)                                   \
  template <>                                                   \
  struct Fields<Type> {                                         \
    using T = Type;                                             \
    static constexpr auto table = std::make_tuple(__VA_ARGS__); \
  };                                                            \
  static_assert(all_members_have_a_field<Type>(),               \
                #Type " has a member without a line in its IPU_FIELDS table")
