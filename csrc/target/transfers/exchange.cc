#include "target/transfers/exchange.h"

#include <fmt/format.h>

#include <algorithm>

#include "support/error.h"

namespace ipu::target {
namespace {

double both(const Machine& machine, double bytes) { return bytes / machine["exchange_bytes_per_cycle"]; }

}  // namespace

Pattern find_pattern(std::string_view name) {
  if (name == "pairs") return Pattern::kPairs;
  if (name == "broadcast") return Pattern::kBroadcast;
  if (name == "gather") return Pattern::kGather;
  if (name == "scatter") return Pattern::kScatter;
  if (name == "all-to-all") return Pattern::kAllToAll;
  throw Error(ErrorCode::kTypeMismatch,
              fmt::format("unknown pattern of messages '{}': known are pairs, broadcast, gather, scatter, "
                          "all-to-all",
                          name));
}

double word_cycles(const Machine& machine, Pattern pattern, int64_t tiles) {
  const double count = static_cast<double>(tiles);
  switch (pattern) {
    case Pattern::kPairs: {
      const double quiet = machine["pair_cycles"], busy = machine["busy_pair_cycles"];
      return quiet + (busy - quiet) * std::min(1.0, (count - 1) / (machine["busy_pairs"] - 1));
    }
    case Pattern::kBroadcast:
      return machine[tiles <= machine.whole("near_tiles") ? "near_pattern_cycles" : "broadcast_cycles"];
    case Pattern::kGather:
      return std::max(machine["near_pattern_cycles"], machine["gather_cycles"] + count);
    case Pattern::kScatter:
      return machine["scatter_cycles"] + count;
    default:
      return tiles <= machine.whole("few_tiles") ? machine["few_to_few_cycles"]
                                                 : machine["all_to_all_cycles"] + count;
  }
}

double wire_cycles(const Machine& machine, bool is_farthest) {
  // With many messages on their way one of them goes far.
  return machine[is_farthest ? "busy_pair_cycles" : "pair_cycles"] - machine["sync_cycles"];
}

double message_cycles(const Machine& machine, Pattern pattern, int64_t tiles, double bytes) {
  const double count = static_cast<double>(tiles);
  switch (pattern) {
    case Pattern::kBroadcast: {
      // Tiles that share a bus receive together, unless there are few.
      const double share = tiles >= machine.whole("few_tiles") ? machine["tiles_per_exchange_bus"] : 1;
      return machine["broadcast_cycles"] + both(machine, bytes / share);
    }
    case Pattern::kGather:
      return machine["gather_message_cycles"] + both(machine, bytes * count);
    case Pattern::kScatter:
      return machine["scatter_message_cycles"] + both(machine, bytes * count);
    case Pattern::kPairs:
      return word_cycles(machine, pattern, tiles) + both(machine, bytes);
    default:
      return word_cycles(machine, pattern, tiles) + both(machine, bytes * (count - 1));
  }
}

double word_seconds(const Machine& machine, Pattern pattern, int64_t tiles, int64_t ipus, const Hops& hops) {
  const double cycle = 1 / machine["clock_hz"];
  const double inside = cycle * word_cycles(machine, pattern, tiles);
  if (ipus == 1) return inside;
  const double count = static_cast<double>(tiles), start = machine["several_ipus_seconds"];
  switch (pattern) {
    case Pattern::kBroadcast:
      return hop_seconds(machine, hops) + inside;
    case Pattern::kGather:
      return start + cycle * machine["several_ipus_gather_cycles"] * count;
    case Pattern::kScatter:
      return start + cycle * machine["several_ipus_scatter_cycles"] * count;
    case Pattern::kPairs:
      return tiles == 1 ? hop_seconds(machine, hops)
                        : start + cycle * machine["several_ipus_pair_cycles"] * count;
    default:
      throw Error(ErrorCode::kTypeMismatch,
                  "a pattern of messages between IPUs is not known: all-to-all was measured on one IPU");
  }
}

double message_seconds(const Machine& machine, Pattern pattern, int64_t tiles, double bytes, int64_t ipus,
                       const Hops& hops) {
  const double inside = message_cycles(machine, pattern, tiles, bytes) / machine["clock_hz"];
  if (ipus == 1) return inside;
  const bool is_one_other = hops.is_one_other;
  if (pattern == Pattern::kBroadcast)
    return word_seconds(machine, pattern, tiles, ipus, hops) +
           bytes / machine[is_one_other ? "other_ipu_broadcast_rate" : "several_ipus_broadcast_rate"];
  return inside * machine[is_one_other ? "other_ipu_message_factor" : "several_ipus_message_factor"];
}

double multicast_cycles(const Machine& machine, int64_t words, bool is_receiver) {
  return static_cast<double>(words) +
         machine[is_receiver ? "multicast_receive_cycles" : "multicast_send_cycles"];
}

double scheduled_cycles(const Machine& machine, double cycles) {
  return cycles * machine["scheduled_exchange_factor"];
}

}  // namespace ipu::target
