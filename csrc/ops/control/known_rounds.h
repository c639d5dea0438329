// How often a loop runs whose condition follows from constants: counters that start at one and change by one.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "ir/module.h"
#include "support/attributes.h"

namespace ipu::ops {

// `condition` gives bool[] of its first inputs, which are what the loop carries, as are those of `body` and its first outputs;
// `starts` says what is known of them before the first round. nullopt: it depends on more, or there are more than
// `most` rounds.
inline constexpr int64_t kMostKnownRounds = 20'000;
struct KnownRounds {
  int64_t count = 0;
  std::map<int, ConstantPtr> ends;  // by number: carried values that are known after the last round
};
std::optional<KnownRounds> known_rounds(const ir::Graph& condition, const ir::Graph& body,
                                        const std::vector<ConstantPtr>& starts,
                                        int64_t most = kMostKnownRounds);

}  // namespace ipu::ops
