#include "report/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>
#include <tuple>

#include "ir/structure.h"
#include "report/computing_tiles.h"
#include "report/live_values.h"
#include "report/tile_memory.h"

namespace ipu::report {
namespace {

std::string grouped(double number) {
  return fmt::to_string(fmt::group_digits(static_cast<int64_t>(std::llround(number))));
}

class Judge {
 public:
  Judge(const ir::Module& module, const target::Machine& machine, const JudgeOptions& options)
      : module_(module), machine_(machine), computing_(computing_tiles(module, machine)), options_(options) {}

  Verdict run() {
    verdict_.bytes_per_tile = machine_["bytes_per_tile"];
    verdict_.ipus = memory_map(module_, computing_, options_.memory);
    const TileMemory* fullest = nullptr;
    for (const TileMemory& ipu : verdict_.ipus) {
      if (fullest == nullptr || ipu.total() > fullest->total()) fullest = &ipu;
      check({LimitKind::kTileMemory, ipu.ipu, "", ipu.total()}, "bytes_per_tile");
      check({LimitKind::kCode, ipu.ipu, "", ipu.code()}, "executable_bytes");
      check({LimitKind::kReceive, ipu.ipu, ipu.most_received_by, ipu.most_received}, "bytes_per_tile");
    }
    for (const ir::Stream& stream : module_.streams())
      check({LimitKind::kStream, -1, stream.name, static_cast<double>(stream.type.bytes())}, "stream_bytes");
    const int64_t of_replica = verdict_.ipus.back().ipu + 1;
    check({LimitKind::kIpus, -1, "", static_cast<double>(of_replica * options_.replicas)}, "ipus");
    if (const int64_t tiles = ir::strategy_of(module_).io_tiles; tiles > 0) check_io_tiles(tiles);
    std::stable_sort(verdict_.limits.begin(), verdict_.limits.end(), [](const Limit& a, const Limit& b) {
      return std::tuple(!a.is_broken(), a.kind, -a.needed) < std::tuple(!b.is_broken(), b.kind, -b.needed);
    });
    if (!verdict_.fits()) find_cures(*fullest);
    return std::move(verdict_);
  }

 private:
  void check(Limit limit, const char* key) {
    const target::MachineNumber& number = machine_.number(key);
    limit.allowed = number.value;
    limit.source = fmt::format("'{}' of machine '{}': {}", key, machine_.name, number.source);
    if (limit.is_broken() || limit.is_near()) verdict_.limits.push_back(std::move(limit));
  }

  // One at least must be left to compute, and they hold an element of each transfer that they do while the others compute.
  void check_io_tiles(int64_t tiles) {
    check({LimitKind::kIoTiles, -1, "", static_cast<double>(tiles + 1)}, "tiles");
    std::map<int, std::map<std::string, int64_t>> staged;
    for (const auto& graph : module_.graphs())
      for (const auto& op : graph->ops())
        if (ir::is_overlapped(*op)) {
          const ir::Value& value = op->is(ir::kind::kHostLoad) ? *op->result() : *op->operand(0);
          staged[ipu_of(value)][op->attributes.symbol("stream").name] = value.type().bytes();
        }
    for (const auto& [ipu, streams] : staged) {
      int64_t bytes = 0;
      for (const auto& [name, of] : streams) bytes += of;
      check({LimitKind::kIoTiles, ipu, "", static_cast<double>(bytes) / static_cast<double>(tiles)},
            "bytes_per_tile");
    }
  }

  void cure(double gain, std::string text) { cures_.emplace_back(gain, std::move(text)); }

  void find_cures(const TileMemory& ipu) {
    const double limit = verdict_.bytes_per_tile;
    find_proportion(ipu);
    const bool recomputes = std::ranges::any_of(module_.graphs(), [](const auto& graph) {
      return std::ranges::any_of(
          graph->ops(), [](const auto& op) { return op->settings.recompute == ir::Recompute::kRecompute; });
    });
    if (!recomputes && ipu.kept_for_gradients > 0.02 * limit)
      cure(ipu.kept_for_gradients,
           fmt::format("recomputation: most of {} bytes fewer that are kept for gradients",
                       grouped(ipu.kept_for_gradients)));
    const double states = ipu.of(MemoryClass::kOptimizerState) + ipu.of(MemoryClass::kAccumulators);
    if (states > 0.02 * limit)
      cure(states, fmt::format("optimizer state and accumulators in remote buffers: {} bytes fewer",
                               grouped(states)));
    const double rest = ipu.total() - ipu.of(MemoryClass::kTemporaries) - ipu.of(MemoryClass::kStacks);
    if (ipu.total() > limit && limit > ipu.total() - rest)
      cure(0, fmt::format("its operations and variables on {} IPUs",
                          static_cast<int64_t>(std::ceil(rest / (limit - ipu.total() + rest)))));
    std::stable_sort(cures_.begin(), cures_.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    for (auto& [gain, text] : cures_) verdict_.cures.push_back(std::move(text));
  }

  // The highest proportion of all products with which the tile holds all, or what the lowest one gains.
  void find_proportion(const TileMemory& ipu) {
    const double now = ipu.total(), limit = verdict_.bytes_per_tile;
    if (ipu.of(MemoryClass::kTemporaries) < 0.1 * limit) return;
    for (const double proportion : {0.5, 0.4, 0.3, 0.2, 0.1}) {
      MemoryOptions options = options_.memory;
      options.most_proportion = proportion;
      const std::vector<TileMemory> with = memory_map(module_, computing_, options);
      const double total = std::ranges::find(with, ipu.ipu, &TileMemory::ipu)->total();
      if (total > limit && proportion > 0.1) continue;
      if (total < now)
        cure(now - total,
             fmt::format("availableMemoryProportion {}: {} bytes fewer; products take more cycles",
                         proportion, grouped(now - total)));
      return;
    }
  }

  const ir::Module& module_;
  const target::Machine &machine_, &computing_;
  const JudgeOptions& options_;
  Verdict verdict_;
  std::vector<std::pair<double, std::string>> cures_;
};

std::string sentence(const Limit& limit) {
  const std::string needed = grouped(limit.needed), allowed = grouped(limit.allowed);
  const std::string over =
      limit.is_broken() ? fmt::format(" ({} too many)", grouped(limit.needed - limit.allowed)) : "";
  switch (limit.kind) {
    case LimitKind::kTileMemory:
      return fmt::format("IPU {} needs {} bytes on its fullest tile; {} fit{}", limit.ipu, needed, allowed,
                         over);
    case LimitKind::kCode:
      return fmt::format(
          "IPU {} needs {} bytes of code on a tile; the part of its memory that code can lie in has {}{}",
          limit.ipu, needed, allowed, over);
    case LimitKind::kReceive:
      return fmt::format("a tile of IPU {} receives {} bytes in one exchange, of {}; its memory has {}{}",
                         limit.ipu, needed, limit.subject, allowed, over);
    case LimitKind::kStream:
      return fmt::format("the host stream '{}' moves {} bytes at once; a stream can move {}{}", limit.subject,
                         needed, allowed, over);
    case LimitKind::kIpus:
      return fmt::format("the replicas need {} IPUs; the system has {}{}", needed, allowed, over);
    case LimitKind::kIoTiles:
      if (limit.ipu < 0)
        return fmt::format("{} tiles of each IPU are reserved for I/O; it has {} and needs some that compute",
                           grouped(limit.needed - 1), allowed);
      return fmt::format("the I/O tiles of IPU {} hold {} bytes of transfers each; {} fit{}", limit.ipu,
                         needed, allowed, over);
  }
  return "";
}

// "IPUs 1, 2, 3, 4 and 8 more need up to 627,644 bytes on their fullest tiles": others of the kind of one that was said in full.
std::string others(std::span<const Limit> limits) {
  constexpr size_t kNamed = 4;
  std::vector<std::string> names;
  for (const Limit& limit : limits.first(std::min(limits.size(), kNamed)))
    names.push_back(limit.kind == LimitKind::kStream ? "'" + limit.subject + "'" : fmt::to_string(limit.ipu));
  std::string list = fmt::format("{}", fmt::join(names, ", "));
  if (limits.size() > kNamed) list += fmt::format(" and {} more", limits.size() - kNamed);
  const std::string most = grouped(limits.front().needed);
  switch (limits.front().kind) {
    case LimitKind::kCode:
      return fmt::format("IPUs {} need up to {} bytes of code on a tile", list, most);
    case LimitKind::kReceive:
      return fmt::format("tiles of IPUs {} receive up to {} bytes in one exchange", list, most);
    case LimitKind::kStream:
      return fmt::format("the host streams {} move up to {} bytes at once", list, most);
    case LimitKind::kIoTiles:
      return fmt::format("the I/O tiles of IPUs {} hold up to {} bytes of transfers each", list, most);
    default:
      return fmt::format("IPUs {} need up to {} bytes on their fullest tiles", list, most);
  }
}

// Of each kind the worst in full, then the others together; those that are only near stand apart.
std::string limits_of(std::span<const Limit> limits) {
  std::string text;
  for (size_t i = 0; i < limits.size();) {
    size_t end = i + 1;
    while (end < limits.size() && limits[end].kind == limits[i].kind &&
           limits[end].is_broken() == limits[i].is_broken())
      ++end;
    const std::span<const Limit> rest = limits.subspan(i + 1, end - i - 1);
    if (i > 0) text += "\n  also:     ";
    text += sentence(limits[i]);
    if (i == 0 || limits[i].kind != limits[i - 1].kind) text += "\n  limit:    " + limits[i].source;
    if (rest.size() == 1) text += "\n  also:     " + sentence(rest.front());
    if (rest.size() > 1) text += "\n  also:     " + others(rest);
    i = end;
  }
  return text;
}

}  // namespace

const char* word(LimitKind kind) {
  constexpr std::array<const char*, 6> kWords{"tile memory", "code", "receive", "stream", "ipus", "io tiles"};
  return kWords[static_cast<size_t>(kind)];
}

bool Limit::is_near() const {
  const bool is_estimate = kind <= LimitKind::kReceive;
  return is_estimate && needed > (1 - kEstimateError) * allowed && needed < (1 + kEstimateError) * allowed;
}

bool Verdict::is_certain() const {
  return limits.empty() || std::ranges::any_of(limits, [](const Limit& limit) {
           return limit.is_broken() && !limit.is_near();
         });
}

Verdict judge(const ir::Module& module, const target::Machine& machine, const JudgeOptions& options) {
  return Judge(module, machine, options).run();
}

const char* word(const Verdict& verdict) {
  if (verdict.fits()) return verdict.is_certain() ? "fits" : "fits, near the limit";
  return verdict.is_certain() ? "does not fit" : "does not fit, near the limit";
}

std::string diagnosis(const Verdict& verdict) {
  std::string text = !verdict.fits()          ? "out of tile memory: "
                     : verdict.limits.empty() ? "fits"
                                              : "near the limits of the machine: ";
  text += limits_of(verdict.limits);
  if (std::ranges::any_of(verdict.limits, &Limit::is_near))
    text += fmt::format(
        "\n  near:     estimates of memory are off by about {:.0f} %: the machine may decide otherwise",
        100 * kEstimateError);
  const auto fullest = std::ranges::max_element(verdict.ipus, {}, &TileMemory::total);
  if (fullest == verdict.ipus.end()) return text;
  std::string classes;
  for (size_t i = 0; i < kMemoryClasses; ++i)
    if (fullest->bytes[i] >= 0.5)
      classes += fmt::format("{}{} {}", classes.empty() ? "" : ", ", word(static_cast<MemoryClass>(i)),
                             grouped(fullest->bytes[i]));
  text += fmt::format("\n  IPU {}:    {}", fullest->ipu, classes);
  if (!fullest->peak_op.empty())
    text += fmt::format("\n  peak:     at {}{}", fullest->peak_op,
                        fullest->peak_line.empty() ? "" : ", " + fullest->peak_line);
  std::string largest;
  for (const MemoryPiece& piece : fullest->largest)
    largest += fmt::format("{}{} {} {}{}", largest.empty() ? "" : ", ", piece.name, piece.type,
                           grouped(piece.bytes), piece.line.empty() ? "" : " (" + piece.line + ")");
  if (!largest.empty()) text += "\n  largest:  " + largest + ", bytes of all tiles";
  for (size_t i = 0; i < verdict.cures.size(); ++i)
    text += (i == 0 ? "\n  try:      " : "\n            ") + verdict.cures[i];
  return text;
}

}  // namespace ipu::report
