// What runs side by side in a replica: its IPUs, and behind them the I/O tiles that move streams while the rest of
// their IPU computes. Those of an IPU that load and those that store are two, so that a load does not wait for the
// store listed before it; those of each exchange strategy are others, since some wait at io_barriers.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/module.h"

namespace ipu::lowering {

class Processors {
 public:
  // Reads the settings of all graphs that the entry graphs reach. A stream has one cursor: if its transfers differ in
  // their settings, or one is in a subroutine or depends on a value, the IPU itself does them all, in turn.
  Processors(const ir::Module& module, const std::vector<const ir::Graph*>& entries);

  struct IoTiles {
    int ipu = 0;
    bool loads = false;
    ir::ExchangeStrategy exchange = ir::ExchangeStrategy::kJustInTime;
    bool operator==(const IoTiles&) const = default;
  };
  const std::vector<IoTiles>& io_tiles() const { return io_tiles_; }
  int first_io() const { return ipus_; }  // the number of the first of them
  int count() const { return ipus_ + static_cast<int>(io_tiles_.size()); }
  // Who meets at an io_barrier: an IPU, and I/O tiles of it that overlap the inner loop. Those that store come first.
  struct Barrier {
    int ipu = 0, io = 0;
    bool io_loads = false;
  };
  std::vector<Barrier> barriers() const;
  // The number of those that do `op`, an overlapped transfer; -1: an IPU does it.
  int io_of(const ir::Op& op) const;

  // What takes a value from one to another: an ipu_copy, or an io_tile_copy at an overlapped transfer.
  struct Crossing {
    int from = -1, to = -1;
    explicit operator bool() const { return to >= 0; }
  };
  Crossing crossing(const ir::Op& op) const;

 private:
  int ipus_ = 1;
  std::vector<IoTiles> io_tiles_;
  std::map<std::string, int> io_of_stream_;  // an index into them
};

}  // namespace ipu::lowering
