// A model of node records and what a PopART session says of it, as a program: annotations of nodes become places of
// ops, anchors become outputs, options of the session become those of a step.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "frontends/common/batch_serialization.h"
#include "frontends/common/step_builder.h"
#include "frontends/records/records.h"
#include "ir/module.h"

namespace ipu::frontends::popart {

// A tensor that the host gets from each run.
struct Anchor {
  std::string tensor;  // of the model, "Gradient___" and one of the model, or one that an optimizer makes
  ir::OutputMode mode = ir::OutputMode::kAll;
  int64_t period = 1;  // of kEveryN: in micro-batches
  ir::ExchangeStrategy exchange = ir::ExchangeStrategy::kJustInTime;
};

struct SessionSettings {
  std::string loss;  // "": inference
  // Without loss, places, anchors. `optimizer.group_of` says which initialisers are trained.
  StepOptions step;
  std::vector<Anchor> anchors;
  std::vector<std::string>
      tracked;  // tensors whose gradients automatic loss scaling counts; of LossScaling::kNamed
  bool keeps_loss_scaling_f32 = false;  // of a loss in f16, too
  // Which annotations of nodes count, by SessionOptions' virtualGraphMode, enablePipelining and executionPhaseSettings.
  bool uses_virtual_graphs = false, uses_stages = false, uses_phases = false;
  bool finds_virtual_graphs = false;  // VirtualGraphMode.Auto
  std::vector<double> split_ratios;   // of that: shares of the IPUs of a replica; empty: equal ones
  int64_t ipus_of_replica = 1;
  int phase_groups = 1;      // of IPUs, which take turns with the phases
  bool accumulates = false;  // enableGradientAccumulation
  BatchSerialization batch;
  bool is_explicit = false;                            // the pipeline is one of loops
  bool recomputes_explicitly = false;                  // explicitRecomputation
  std::map<std::string, ir::ExchangeStrategy> inputs;  // that overlap with computing
};

struct Tensor {
  ir::Type type;
  enum class Kind : uint8_t { kInput, kVariable, kConstant, kResult, kGradient, kState } kind;
};

// The program of a session. It can be compiled any number of times.
class ModelProgram {
 public:
  // Errors of import_model and build_step; Error(kAnchor) for an anchor that nothing gives.
  ModelProgram(records::ModelRecord model, SessionSettings settings);

  // All that may be asked for by name.
  const std::map<std::string, Tensor>& tensors() const { return tensors_; }
  // Results of the model that the program computes nothing for since nobody reads them (records::Imported::gone).
  const std::unordered_map<std::string, ir::Type>& gone() const { return gone_; }
  // Runs of operators on parts of the batch, by names of the model; `gone` is of the past.
  const CutBatch& batch() const { return batch_; }
  // Model inputs that the program reads.
  const std::vector<std::string>& inputs() const { return inputs_; }
  const SessionSettings& settings() const { return settings_; }
  std::unique_ptr<ir::Module> module() const;  // a new one for each caller
  // States that the host sends before the first run: each starts at `factor` times the first value of `weight`.
  struct ScaledState {
    std::string weight;
    double factor;
  };
  std::map<std::string, ScaledState> scaled_states() const;
  int ipus() const { return ipus_; }  // of a replica: the highest number used, and one
  // Where the operators of the main graph run, by their first result, as far as options ask for a place.
  const std::map<std::string, StepOptions::Placement>& places() const { return places_; }

 private:
  void describe(const ForwardGraph& forward, const std::unordered_map<std::string, ir::Value*>& values,
                const std::unordered_map<std::string, ConstantPtr>& constants);

  SessionSettings settings_;
  std::unique_ptr<ir::Module> module_;
  std::map<std::string, Tensor> tensors_;
  std::unordered_map<std::string, ir::Type> gone_;
  CutBatch batch_;
  std::vector<std::string> inputs_;
  std::map<std::string, StepOptions::Placement> places_;
  int ipus_ = 1;
};

}  // namespace ipu::frontends::popart
