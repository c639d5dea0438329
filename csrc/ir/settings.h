// What a program says about an op beside its meaning: where, when, how it runs, and where it came from.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/attributes.h"

namespace ipu::ir {

enum class Context : uint8_t { kForward, kBackward, kAccumulateOuter, kWeightTransfer };
enum class Recompute : uint8_t { kDefault, kRecompute, kCheckpoint };
enum class TileSet : uint8_t { kCompute, kIo };
enum class ExchangeStrategy : uint8_t { kJustInTime, kOverlapInnerLoop, kOverlapLoops, kOverlapStep };

std::string_view to_string(Context context);  // "forward", "backward", "accumulate_outer", "weight_transfer"
std::optional<Context> context_from_string(std::string_view text);

// Every field has a default; the printer shows only those that differ from it.
struct Settings {
  std::string block;  // block id of the capture, "" before the first block; `place` turns it into ipu, stage
  std::optional<int> ipu;    // IPU within the replica
  std::optional<int> stage;  // pipeline stage
  std::optional<int> phase;  // execution phase
  TileSet tile_set = TileSet::kCompute;
  ExchangeStrategy exchange = ExchangeStrategy::kJustInTime;
  Context context = Context::kForward;
  Recompute recompute = Recompute::kDefault;
  bool no_grad = false;  // captured where gradients were off
  double priority = 0.0;
  std::optional<double> available_memory;  // proportion, 0..1
  Attributes outline;                      // back-end attributes of poptorch.Attribute

  bool operator==(const Settings&) const = default;
};

// Where the user wrote it. Shared by many ops, never modified after it was made; survives every pass.
struct LocationData;
using Location = std::shared_ptr<const LocationData>;  // nullptr: unknown
struct LocationData {
  std::string file;  // "" when unknown
  int line = 0;
  std::string module_path;  // "layer3.conv2"; "" outside any module
  std::vector<Location> joined =
      {};  // where the other ops were that became part of this one; these have none
  bool operator==(const LocationData& other) const;
};
// Returns the location of an op that stands for several: `main`, with all other places of it and of `others` in
// `joined`, each once.
Location join(const Location& main, std::span<const Location> others);

std::string user_line(const Location& location);  // "model.py:41"; empty when it is not known
std::string to_string(const Location& location);  // "model.py:41 [layer3.conv2]"; "<unknown>"

// The operator a frontend saw.
struct Origin {
  std::string domain, type;  // "aten", "linear"
  int version = 0;
  Attributes attributes;
  bool operator==(const Origin&) const = default;
};
using OriginPtr = std::shared_ptr<const Origin>;

}  // namespace ipu::ir
