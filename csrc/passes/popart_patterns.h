// PopART's names for rewrites, mapped onto our passes: which pattern a program may switch, what each is here,
// and the pipeline that follows. Also transforms put at PopART's checkpoints. Not here: the passes
// themselves.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ipu::passes {

enum class PatternState : uint8_t { kMandatory, kEnabled, kOff, kSubControl };  // at level Default

struct Pattern {
  std::string_view name;
  PatternState state;
  // The pass of the default pipeline that does it; "" when no pass is needed: then `here` says why.
  std::string_view pass;
  std::string_view here;
};
std::span<const Pattern> popart_patterns();  // in PopART's order of the registry: sorted by state and name
const Pattern* find_pattern(std::string_view name);  // nullptr when unknown

enum class PatternLevel : uint8_t { kNoPatterns, kMinimal, kDefault, kAll };

// What a PopART program says of patterns: a level or a list of names, then switches.
class PatternSelection {
 public:
  explicit PatternSelection(PatternLevel level = PatternLevel::kDefault);
  // Only those listed; mandatory ones are not added. Throws Error(kInvalidIr) for an unknown name.
  explicit PatternSelection(const std::vector<std::string>& names);

  // Throws Error(kInvalidIr): unknown name; a mandatory one switched off while asserts are on.
  void enable(std::string_view name, bool on);
  bool is_enabled(std::string_view name) const;  // throws for an unknown name
  void enable_runtime_asserts(bool on) { asserts_ = on; }
  // Throws Error(kInvalidIr) naming the mandatory patterns that are off, unless asserts are off.
  void check() const;

 private:
  std::map<std::string_view, bool> on_;
  bool asserts_ = true;
};

// `steps` without the passes all of whose patterns are off.
std::vector<std::string> steps_under(std::vector<std::string> steps, const PatternSelection& selection);

// `steps` with further passes right after checkpoints: "Fwd0" → names. Throws Error(kInvalidIr) for a
// checkpoint that `steps` does not have, or an unknown pass.
std::vector<std::string> steps_with(std::vector<std::string> steps,
                                    const std::map<std::string, std::vector<std::string>>& transforms);

// "LEVEL", "LEVEL,Name=on,Other=off" or "only,Name,Other": the selection of `ipu-opt --patterns=`.
PatternSelection selection_of(std::string_view text);

}  // namespace ipu::passes
