#include "lowering/processors.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "ir/regions.h"
#include "ir/structure.h"
#include "ir/subroutine.h"
#include "support/interruption.h"

namespace ipu::lowering {

namespace kind = ir::kind;

Processors::Processors(const ir::Module& module, const std::vector<const ir::Graph*>& entries) {
  auto count_ipu = [&](int64_t ipu) { ipus_ = std::max(ipus_, static_cast<int>(ipu) + 1); };
  // A graph, and whether its IPU does its transfers: values decide if or how often it runs, or a subroutine runs it.
  std::set<std::pair<const ir::Graph*, bool>> seen;
  for (const ir::Graph* entry : entries) seen.emplace(entry, false);
  std::vector<std::pair<const ir::Graph*, bool>> work(seen.begin(), seen.end());
  std::map<std::string, std::optional<IoTiles>> wanted;  // by stream; nullopt: by an IPU
  while (!work.empty()) {
    const auto [graph, is_of_ipu] = work.back();
    work.pop_back();
    for (const ir::Value* input : graph->inputs()) count_ipu(input->ipu.value_or(0));
    for (const auto& op : graph->ops()) {
      poll_interruption();
      count_ipu(op->settings.ipu.value_or(0));
      if (op->is(kind::kIpuCopy))
        for (const char* end : {"from", "to"}) count_ipu(op->attributes.integer(end));
      if (op->is(kind::kHostLoad) || op->is(kind::kHostStore)) {
        std::optional<IoTiles> tiles;
        if (ir::is_overlapped(*op) && !is_of_ipu)
          tiles = IoTiles{op->settings.ipu.value_or(0), op->is(kind::kHostLoad), op->settings.exchange};
        auto [at, is_new] = wanted.try_emplace(op->attributes.symbol("stream").name, tiles);
        if (!is_new && at->second != tiles) at->second.reset();
      }
      if (!ir::is_region(*op)) continue;
      const ir::Region region(*op);
      const bool decides = region.condition_operand() >= 0 || region.condition_output() >= 0;
      for (const ir::Graph* callee : region.bodies())
        if (const bool of_ipu = is_of_ipu || decides || ir::is_subroutine(*callee);
            seen.emplace(callee, of_ipu).second)
          work.emplace_back(callee, of_ipu);
    }
  }
  for (const ir::Variable& variable : module.variables()) count_ipu(variable.ipu.value_or(0));
  for (const ir::Stream& stream : module.streams()) {  // in order, so that programs do not depend on names
    const auto at = wanted.find(stream.name);
    if (at == wanted.end() || !at->second) continue;
    const auto found = std::find(io_tiles_.begin(), io_tiles_.end(), *at->second);
    io_of_stream_[stream.name] = static_cast<int>(found - io_tiles_.begin());
    if (found == io_tiles_.end()) io_tiles_.push_back(*at->second);
  }
}

int Processors::io_of(const ir::Op& op) const {
  if (io_tiles_.empty() || !ir::is_overlapped(op)) return -1;
  const auto at = io_of_stream_.find(op.attributes.symbol("stream").name);
  return at == io_of_stream_.end() ? -1 : ipus_ + at->second;
}

std::vector<Processors::Barrier> Processors::barriers() const {
  std::vector<Barrier> meetings;
  for (const bool loads : {false, true})
    for (size_t i = 0; i < io_tiles_.size(); ++i)
      if (io_tiles_[i].exchange == ir::ExchangeStrategy::kOverlapInnerLoop && io_tiles_[i].loads == loads)
        meetings.push_back({io_tiles_[i].ipu, ipus_ + static_cast<int>(i), loads});
  return meetings;
}

Processors::Crossing Processors::crossing(const ir::Op& op) const {
  if (op.is(kind::kIpuCopy))
    return {static_cast<int>(op.attributes.integer("from")), static_cast<int>(op.attributes.integer("to"))};
  if (io_tiles_.empty() || !op.is("io_tile_copy")) return {};
  if (op.attributes.text("to") == "compute") {
    const ir::Op* load = op.operand(0)->producer();
    const int io = load == nullptr ? -1 : io_of(*load);
    return io < 0 ? Crossing{} : Crossing{io, op.settings.ipu.value_or(0)};
  }
  if (op.result()->uses().empty()) return {};
  const int io = io_of(*op.result()->uses().front().user);
  return io < 0 ? Crossing{} : Crossing{op.settings.ipu.value_or(0), io};
}

}  // namespace ipu::lowering
