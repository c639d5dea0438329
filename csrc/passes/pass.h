// Passes: one per file, registered by name, run by pipelines that are lists of names (pipelines.cc).
// A pass says whether it changed anything, keeps locations, is idempotent, leaves a module the verifier
// accepts, and counts what it did.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "passes/host_limits.h"
#include "target/system.h"

namespace ipu::passes {

struct Statistics {
  std::map<std::string, int64_t> counts;  // "constants folded" → 12
};

// Copies of a module that were taken at steps "fork NAME" of a pipeline, by name.
using Forks = std::map<std::string, std::unique_ptr<ir::Module>>;

struct PassContext {
  const target::System* system = nullptr;  // nullptr: passes that need it refuse
  Statistics* statistics = nullptr;
  HostLimits host = {};    // for the host's passes alone
  Forks* forks = nullptr;  // nullptr: none are taken
  void count(std::string_view what, int64_t n = 1) const {
    if (statistics != nullptr) statistics->counts[std::string(what)] += n;
  }
};

class Pass {
 public:
  virtual ~Pass() = default;
  virtual bool run(ir::Module& module, const PassContext& context) = 0;  // changed anything?
};

// A rewrite of single ops, driven over all graphs in order until nothing applies. Graphs with order edges
// (authored form) are left alone.
class OpPass : public Pass {
 public:
  virtual bool may_apply(const ir::Op& op) const = 0;  // the question
  // The act. May erase `op` and ops before it, and create ops before it; leaves what comes after it in place.
  virtual void apply(ir::Op& op, const PassContext& context) = 0;
  bool run(ir::Module& module, const PassContext& context) final;
};

struct PassInfo {
  std::string name, summary;
  std::vector<std::string> counts;  // statistics it may report
  std::function<std::unique_ptr<Pass>()> make;
};
void register_pass(PassInfo info);
const PassInfo* find_pass(std::string_view name);
std::vector<const PassInfo*> all_passes();  // sorted

struct PassRegistration {
  explicit PassRegistration(PassInfo info) { register_pass(std::move(info)); }
};

// When the verifier looks at the module.
enum class Verify : uint8_t {
  kNever,
  kEnds,      // before the first pass and after the last
  kEachPass,  // also after each pass that changed something
};
// `otherwise`, unless IPU_VERIFY says "never", "ends" or "passes". Error(kEnvironment) for another word.
Verify verify_from_environment(Verify otherwise);

// A step of a pipeline.
struct Step {
  enum class Kind : uint8_t {
    kPass,  // "cse"; "cse if half-partials|decompose": only when one of these earlier passes changed something
    kCheckpoint,  // "@Fwd0": a moment for dumps
    kFork,  // "fork machine": a copy of the module goes on by the pipeline of that name, when somebody asks
  } kind = Kind::kPass;
  std::string name;
  std::vector<std::string> only_if;
};
Step step_of(std::string_view text);

// A pipeline: texts of steps. Runs them in order. A pass that leaves an illegal module is an error that names the
// pass where each is verified. With IPU_DUMP forks are run on the spot.
// IPU_DUMP=before:<pass>,after:<pass>,at:<checkpoint>,all writes text files "NNN-after-cse.ir" to
// IPU_DUMP_DIR (default "."). Throws Error(kInvalidIr) for an unknown pass, Error(kEnvironment) for an
// IPU_DUMP that means nothing.
Statistics run_pipeline(ir::Module& module, const std::vector<std::string>& steps, const PassContext& context,
                        Verify verify);
const std::map<std::string, std::vector<std::string>>& named_pipelines();  // "default", ...
// Takes a fork along its pipeline: the fork "machine" to the machine form.
void run_fork(std::string_view name, ir::Module& fork, const PassContext& context, Verify verify);

// Writes the module if IPU_DUMP asks for `moment` ("before:lower"); for steps that are not passes.
void dump(const ir::Module& module, std::string_view moment);

}  // namespace ipu::passes

// IPU_REGISTER_PASS(FoldConstants, "fold-constants", "Evaluates ops whose operands are constants.", {"ops
// folded"});
#define IPU_REGISTER_PASS(Class, name, summary, ...)                 \
  static const ::ipu::passes::PassRegistration Class##_registration( \
      {name, summary, __VA_ARGS__, [] { return std::unique_ptr<::ipu::passes::Pass>(new Class); }})
