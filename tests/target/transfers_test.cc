#include <gtest/gtest.h>

#include "support/error.h"
#include "target/transfers/collectives.h"
#include "target/transfers/exchange.h"
#include "tests/thrown.h"

namespace ipu::target {
namespace {

const Machine& gc200() { return *find_machine("gc200"); }
const Machine& gc2() { return *find_machine("gc2"); }

constexpr Pattern kPatterns[] = {Pattern::kPairs, Pattern::kBroadcast, Pattern::kGather, Pattern::kScatter,
                                 Pattern::kAllToAll};

TEST(Transfers, of_more_tiles_or_bytes_never_take_less) {
  for (Pattern pattern : kPatterns) {
    double before = 0;
    for (int64_t tiles : {1, 2, 4, 16, 38, 76, 304, 1216}) {
      const double word = word_cycles(gc200(), pattern, tiles);
      EXPECT_GE(word, before);
      before = word;
      double fewer = 0;
      for (double bytes : {4.0, 160.0, 1024.0, 102400.0}) {
        const double cycles = message_cycles(gc200(), pattern, tiles, bytes);
        EXPECT_GE(cycles, fewer);
        fewer = cycles;
      }
    }
  }
}

TEST(Transfers, are_never_faster_than_the_wires) {
  const double bytes = 65536, wire = gc200()["exchange_bytes_per_cycle"];
  for (int64_t tiles : {1, 2, 8, 100, 1472}) {
    EXPECT_GE(message_cycles(gc200(), Pattern::kPairs, tiles, bytes), bytes / wire);
    EXPECT_GE(message_cycles(gc200(), Pattern::kBroadcast, tiles, bytes), bytes / wire / 2);
    EXPECT_GE(message_cycles(gc200(), Pattern::kGather, tiles, bytes),
              static_cast<double>(tiles) * bytes / wire);
    EXPECT_GE(message_cycles(gc200(), Pattern::kScatter, tiles, bytes),
              static_cast<double>(tiles) * bytes / wire);
  }
}

TEST(Transfers, between_ipus_take_longer_than_inside_one) {
  for (Pattern pattern : {Pattern::kPairs, Pattern::kBroadcast, Pattern::kGather, Pattern::kScatter})
    for (int64_t ipus : {2, 4, 16}) {
      const Hops hops = longest_hops(ipus);
      EXPECT_GT(word_seconds(gc2(), pattern, 1216, ipus, hops), word_seconds(gc2(), pattern, 1216, 1, {}));
      EXPECT_GT(message_seconds(gc2(), pattern, 1216, 1e4, ipus, hops),
                message_seconds(gc2(), pattern, 1216, 1e4, 1, {}));
    }
}

TEST(Transfers, way_on_the_ladder_is_rungs_and_a_crossing) {
  EXPECT_EQ(hops_between(0, 1).rungs, 0);
  EXPECT_TRUE(hops_between(0, 1).crosses);
  EXPECT_EQ(hops_between(13, 2).rungs, 5);
  EXPECT_TRUE(hops_between(13, 2).crosses);
  EXPECT_FALSE(hops_between(12, 2).crosses);
  EXPECT_EQ(longest_hops(16).rungs, 7);
  EXPECT_LT(hop_seconds(gc2(), hops_between(0, 2)), hop_seconds(gc2(), hops_between(0, 3)));
  EXPECT_EQ(hop_bytes_per_second(gc2(), hops_between(0, 1)), 2 * gc2()["link_bytes_per_second"]);
}

TEST(Transfers, from_the_host_are_as_fast_as_the_lanes_and_the_tiles) {
  EXPECT_EQ(host_bytes_per_second(gc2(), 1, 0), gc2()["host_tile_bytes_per_second"]);
  EXPECT_EQ(host_bytes_per_second(gc2(), 1216, 0), gc2()["host_bytes_per_second"]);
  EXPECT_EQ(host_bytes_per_second(gc2(), 2432, 16), 2 * gc2()["host_bytes_per_second"]);
  EXPECT_GT(host_seconds(gc2(), 501), host_seconds(gc2(), 500));
}

// docs/device-model.md
TEST(Transfers, of_the_worked_examples_take_what_the_page_says) {
  EXPECT_EQ(message_cycles(gc200(), Pattern::kBroadcast, 64, 1000), 345);
  EXPECT_EQ(message_cycles(gc200(), Pattern::kScatter, 10, 100), 468);
  EXPECT_EQ(reduce_cycles(gc200(), 100, gc200().whole("tiles")), 3500);
  EXPECT_NEAR(all_reduce_seconds(gc200(), 27.2e6, 16, 1), 1.8918e-3, 1e-9);
  EXPECT_NEAR(all_reduce_seconds(gc200(), 27.2e6, 128, 1), 2.14251e-3, 1e-9);
}

TEST(Transfers, of_an_unknown_pattern_are_refused) {
  EXPECT_EQ(
      message_of([] { find_pattern("butterfly"); }),
      "unknown pattern of messages 'butterfly' [IPU-E201]: known are pairs, broadcast, gather, scatter, "
      "all-to-all");
  EXPECT_EQ(message_of([] { word_seconds(gc2(), Pattern::kAllToAll, 8, 2, {}); }),
            "a pattern of messages between IPUs is not known [IPU-E201]: all-to-all was measured on one IPU");
}

TEST(Collectives, of_more_operands_tiles_and_ipus_take_longer) {
  for (int64_t operands : {1, 100, 25000}) {
    double before = 0;
    for (int64_t tiles : {1, 2, 38, 608, 1216}) {
      const double cycles = reduce_cycles(gc2(), operands, tiles);
      EXPECT_GT(cycles, before);
      before = cycles;
      EXPECT_LT(reduce_seconds(gc2(), operands, tiles, 1), reduce_seconds(gc2(), operands, tiles, 2));
      EXPECT_LT(reduce_seconds(gc2(), operands, tiles, 2), reduce_seconds(gc2(), operands, tiles, 16));
    }
  }
}

TEST(Collectives, never_beat_the_links) {
  for (double bytes : {0.0, 1e3, 1e9})
    for (int64_t replicas : {2, 4, 16, 64}) {
      const double moved = 2 * bytes * static_cast<double>(replicas - 1) / static_cast<double>(replicas);
      EXPECT_GT(ring_seconds(gc200(), bytes, replicas), moved / gc200()["link_bytes_per_second"]);
    }
  EXPECT_EQ(ring_seconds(gc200(), 1e6, 1), 0);
  EXPECT_EQ(all_reduce_seconds(gc200(), 1e6, 16, 4), ring_seconds(gc200(), 1e6, 16));
  EXPECT_EQ(all_reduce_seconds(gc200(), 1e6, 64, 4),
            ring_seconds(gc200(), 1e6, 16) + rack_seconds(gc200(), 1e6, 16, 4));
}

TEST(Exchange, other_figures_are_sums_of_start_and_words) {
  EXPECT_EQ(multicast_cycles(gc200(), 1000, false), 1000 + gc200()["multicast_send_cycles"]);
  EXPECT_EQ(multicast_cycles(gc200(), 1000, true), 1000 + gc200()["multicast_receive_cycles"]);
  EXPECT_GT(scheduled_cycles(gc200(), 1000), 1000);
  EXPECT_LT(wire_cycles(gc200(), false), wire_cycles(gc200(), true));
}

}  // namespace
}  // namespace ipu::target
