#include "executable/cache/key_text.h"

#include <fmt/core.h>

#include <type_traits>

#include "executable/format/json_fields.h"
#include "executable/format/program_fields.h"

namespace ipu {

template <>
struct EnumNames<passes::Verify> {
  static constexpr std::string_view names[] = {"never", "ends", "each_pass"};
};
template <>
struct EnumNames<passes::HostRecomputation> {
  static constexpr std::string_view names[] = {"never", "when_memory_asks", "always"};
};
IPU_FIELDS(passes::HostLimits, field("recomputation", &T::recomputation), field("memory", &T::memory));
IPU_FIELDS(executable::CompileOptions, field("pipeline", &T::pipeline), field("replicas", &T::replicas),
           field("processes", &T::processes), field("input_groups", &T::input_groups),
           field("auto_round_num_ipus", &T::auto_round_num_ipus), field("any_ipu_count", &T::any_ipu_count),
           field("most_ipus", &T::most_ipus), field("is_dry", &T::is_dry), field("verify", &T::verify),
           field("host", &T::host));
IPU_FIELDS(target::System, field("name", &T::name), field("ipu_version", &T::ipu_version),
           field("num_ipus", &T::num_ipus), field("tiles_per_ipu", &T::tiles_per_ipu),
           field("bytes_per_tile", &T::bytes_per_tile), field("clock_hz", &T::clock_hz),
           field("workers_per_tile", &T::workers_per_tile));

}  // namespace ipu

namespace ipu::executable {
namespace {

// No spaces: they part the fields of the whole.
template <class T>
std::string key_value(const T& value) {
  if constexpr (HasFields<T>) {
    std::string text;
    std::apply(
        [&](const auto&... f) {
          ((text += fmt::format("{}{}:{}", text.empty() ? "" : ",", f.name, key_value(value.*(f.member)))),
           ...);
        },
        Fields<T>::table);
    return "{" + text + "}";
  } else if constexpr (is_vector<T>::value) {
    std::string text;
    for (const auto& member : value) text += (text.empty() ? "" : ",") + key_value(member);
    return "[" + text + "]";
  } else if constexpr (std::is_enum_v<T>) {
    return std::string(enum_name(value));
  } else {
    return fmt::format("{}", value);
  }
}

template <class T>
std::string text_of_fields(const T& object) {
  std::string text;
  std::apply(
      [&](const auto&... f) {
        ((text += fmt::format("{}{}={}", text.empty() ? "" : " ", f.name, key_value(object.*(f.member)))),
         ...);
      },
      Fields<T>::table);
  return text;
}

}  // namespace

std::string key_text(const CompileOptions& options) { return text_of_fields(options); }
std::string key_text(const target::System& system) { return text_of_fields(system); }

}  // namespace ipu::executable
