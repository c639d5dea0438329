// What patterns of messages take: between tiles of one IPU by the exchange, and between IPUs by their links.
#pragma once

#include <cstdint>
#include <string_view>

#include "target/transfers/links.h"

namespace ipu::target {

enum class Pattern { kPairs, kBroadcast, kGather, kScatter, kAllToAll };
// By its name: pairs, broadcast, gather, scatter, all-to-all. Error(kTypeMismatch) for others.
Pattern find_pattern(std::string_view name);

// One word from or to each of `tiles` tiles, with the sync before it.
double word_cycles(const Machine& machine, Pattern pattern, int64_t tiles);
// From the send on one tile to its arrival on another one, without the sync: the nearest tile, or the farthest one.
double wire_cycles(const Machine& machine, bool is_farthest);
// `bytes` to or from each of `tiles` tiles.
double message_cycles(const Machine& machine, Pattern pattern, int64_t tiles, double bytes);

// The same with tiles of other IPUs, which are `hops` away or several of `ipus`; in seconds.
double word_seconds(const Machine& machine, Pattern pattern, int64_t tiles, int64_t ipus, const Hops& hops);
double message_seconds(const Machine& machine, Pattern pattern, int64_t tiles, double bytes, int64_t ipus,
                       const Hops& hops);

// Words that one tile sends to others, as an independent compiler measured them: of the sender, and of a receiver.
double multicast_cycles(const Machine& machine, int64_t words, bool is_receiver);
// A phase whose schedule has so many cycles.
double scheduled_cycles(const Machine& machine, double cycles);

}  // namespace ipu::target
