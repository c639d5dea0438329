#include "ir/strategy.h"

#include <fmt/core.h>

#include "support/error.h"
#include "support/fields.h"

namespace ipu {

template <>
struct EnumNames<ir::Schedule> {
  static constexpr std::string_view names[] = {"sharded", "pipelined", "phased"};
};
template <>
struct EnumNames<ir::RecomputationMode> {
  static constexpr std::string_view names[] = {"none", "standard", "norm_only", "pipeline", "all"};
};
IPU_FIELDS(ir::Strategy, field("blocks", &T::blocks), field("block_stages", &T::block_stages),
           field("block_ipus", &T::block_ipus), field("block_phases", &T::block_phases),
           field("backward_phase_base", &T::backward_phase_base), field("forward_stages", &T::forward_stages),
           field("schedule", &T::schedule), field("recomputation", &T::recomputation),
           field("offload_activations", &T::offload_activations),
           field("offload_after_each_phase", &T::offload_after_each_phase),
           field("activations_load_io", &T::activations_load_io),
           field("activations_store_io", &T::activations_store_io), field("io_tiles", &T::io_tiles),
           field("prefetch_depth", &T::prefetch_depth), field("stochastic_rounding", &T::stochastic_rounding),
           field("half_products", &T::half_products), field("half_convolutions", &T::half_convolutions));

}  // namespace ipu

namespace ipu::ir {
namespace {

template <class E>
std::string known_names() {
  std::string text;
  for (std::string_view name : EnumNames<E>::names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

template <class E>
const std::string_view* find_name(std::string_view text) {
  for (const std::string_view& name : EnumNames<E>::names)
    if (name == text) return &name;
  return nullptr;
}

template <class E>
E named(std::string_view text) {
  return static_cast<E>(find_name<E>(text) - EnumNames<E>::names);
}

[[noreturn]] void refuse(std::string_view name, const std::string& what) {
  throw Error(ErrorCode::kInvalidIr, fmt::format("invalid IR: attribute '{}' of the module {}.", name, what));
}

template <class M>
void read(std::string_view name, const Attribute& attribute, M& member) {
  if constexpr (std::is_enum_v<M>) {
    const auto* text = std::get_if<std::string>(&attribute);
    if (text == nullptr || find_name<M>(*text) == nullptr) refuse(name, "is none of " + known_names<M>());
    member = named<M>(*text);
  } else {
    const M* value = std::get_if<M>(&attribute);
    if (value == nullptr) refuse(name, "is of another kind");
    member = *value;
  }
}

template <class M>
Attribute written(const M& member) {
  if constexpr (std::is_enum_v<M>)
    return std::string(enum_name(member));
  else
    return member;
}

}  // namespace

std::string_view to_string(Schedule schedule) { return enum_name(schedule); }
std::string_view to_string(RecomputationMode mode) { return enum_name(mode); }

RecomputationMode recomputation_mode(int64_t popart_number) {
  constexpr auto kModes = static_cast<int64_t>(std::size(EnumNames<RecomputationMode>::names));
  if (popart_number < 0 || popart_number >= kModes)
    throw Error(ErrorCode::kOption, fmt::format("autoRecomputation is {}: it must be 0 to {} ({}).",
                                                popart_number, kModes - 1, known_names<RecomputationMode>()));
  return static_cast<RecomputationMode>(popart_number);
}

Schedule schedule_from_string(std::string_view text) {
  if (find_name<Schedule>(text) == nullptr)
    throw Error(ErrorCode::kOption,
                fmt::format("unknown schedule: '{}'; {}.", text, known_names<Schedule>()));
  return named<Schedule>(text);
}

Strategy strategy_of(const Module& module) {
  Strategy strategy;
  auto take = [&](const auto& f) {
    if (const Attribute* attribute = module.attributes.find(f.name))
      read(f.name, *attribute, strategy.*(f.member));
  };
  std::apply([&](const auto&... f) { (take(f), ...); }, Fields<Strategy>::table);
  if (strategy.prefetch_depth < 1) refuse("prefetch_depth", "is below 1");
  if (strategy.io_tiles < 0) refuse("io_tiles", "is below 0");
  const size_t blocks = strategy.blocks.size();
  if (strategy.block_stages.size() != blocks || strategy.block_ipus.size() != blocks)
    refuse("blocks", fmt::format("has {} entries, block_stages {} and block_ipus {}", blocks,
                                 strategy.block_stages.size(), strategy.block_ipus.size()));
  if (!strategy.block_phases.empty() && strategy.block_phases.size() != blocks)
    refuse("blocks", fmt::format("has {} entries and block_phases {}", blocks, strategy.block_phases.size()));
  return strategy;
}

void set_strategy(const Strategy& strategy, Module& module) {
  const Strategy plain;
  auto give = [&](const auto& f) {
    if (strategy.*(f.member) == plain.*(f.member))
      module.attributes.erase(f.name);
    else
      module.attributes.set(f.name, written(strategy.*(f.member)));
  };
  std::apply([&](const auto&... f) { (give(f), ...); }, Fields<Strategy>::table);
}

}  // namespace ipu::ir
