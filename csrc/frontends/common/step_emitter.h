// What build_step() does, in parts: tables of variables and streams, the program around the micro-batches,
// and the micro-batch itself. State that changes in a loop (weights, optimizer state, buffers, accumulators)
// lives in numbered slots, or elsewhere (residence.h); repeat() turns the slots a body changes into carried values of a loop and the ones
// it only reads into invariants, so that straight code, loops and pipelines are emitted by the same
// functions. Every op gets the block of what it serves (a parameter's first reader, an output's producer);
// `place` does the rest.
#pragma once

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "autodiff/differentiate.h"
#include "frontends/common/repeat.h"
#include "frontends/common/residence.h"
#include "frontends/common/stages.h"
#include "frontends/common/step_builder.h"
#include "ir/builder.h"

namespace ipu::frontends {

class StepEmitter {
 public:
  StepEmitter(const ForwardGraph& forward, const StepOptions& options);
  void build();
  std::vector<const ir::Value*> differentiated() const;

 private:
  using Value = ir::Value;

  struct Home {  // where the ops that serve a value stand
    std::string block;
    ir::Location location;
  };
  struct StepVariable {
    ir::Variable* variable;
    Home home;
    ir::Type type;  // of the whole value
    Residence at;
    bool is_parameter = false;
    bool is_written = false;    // by the forward graph
    bool is_read_again = true;  // by the gradients, rather than kept for them
  };
  struct Trained {
    int variable;  // index into variables_
    int group;
    std::vector<ir::Variable*> state_variables;
    std::vector<Residence> states;
    Residence accumulator;
    bool has_accumulator;  // else it is a slot and takes the gradient itself
  };

  // step_builder.cc: checks, and what stands where
  void check() const;
  void check_period(ir::OutputMode mode, int64_t period) const;
  void check_locations() const;
  Home home_of_op(const ir::Op& op) const;
  // An input is served in the earliest stage that reads it; equal stages: by the first op captured.
  Home home_of_input(const Value& input) const;
  Home home_of_value(const Value& value) const;
  int ipu_of(const Home& home) const;
  // The builder moves this stream as its mark says (frontends/torch/executor/overlap_marks.h).
  static void overlap(ir::Builder& builder, ir::ExchangeStrategy exchange);
  static void stand_at(ir::Builder& builder, const Home& home, ir::Context context);

  // step_tables.cc
  int new_slot();
  // Where a state of a family lives.
  // `location` is that of the family of `name`.
  Residence residence(const std::string& name, const TensorLocation& location, const ir::Type& whole,
                      const ReplicaGrouping& grouping);
  ir::Variable& variable(const std::string& name, const ir::Type& type, const std::string& role,
                         const ir::Variable* like = nullptr);
  void collect_variables();
  // Changes nothing in a program without remote buffers and shards.
  void settle_variables();
  bool is_read_in_one_stage(int variable) const;
  void find_seed();
  // Replicas draw different numbers.
  void load_seed(ir::Builder& builder, Slots& slots) const;
  void collect_training();
  Trained make_trained(int index, int group);
  // What an optimizer variable starts with, as the rule says; nullptr: the host sends it.
  ConstantPtr first_value(const ir::Variable& variable, const optimizers::StateTensor& kept,
                          const ir::Variable& weight);
  // Further outputs of the gradient graph.
  void collect_value_gradients();
  const ir::Stream& stream(const std::string& name, ir::StreamDirection direction, const ir::Type& type,
                           DType host);
  void make_streams();
  void thin_out(ir::Stream& stream, ir::OutputMode mode, int64_t period) const;
  std::set<int> written_slots() const;

  // step_program.cc: around the micro-batches
  void emit_main();
  // The entry point that trains nothing: as many micro-batches as main, and what forward writes is dropped.
  void emit_forward_program();
  void read_variables(ir::Builder& builder, Slots& slots) const;
  // The seed of number `counter` (nullptr: 0) below `seed`.
  void derive_seed(ir::Builder& builder, Value*& derived, Value* seed, Value* counter,
                   ir::Context context) const;
  // One weight update: accumulation over micro-batches, then the rules.
  void emit_device_iteration(ir::Builder& builder, Slots& slots, Value* index);
  // The common factor of all gradients that keeps their global norm in bounds; nullptr without clipping.
  Value* emit_clipping(ir::Builder& builder, const std::vector<Value*>& gradients, const Slots& slots) const;
  // Clip groups: the measured value of each parameter that is in one, and the factor of its group.
  struct Clip {
    Value *measured = nullptr, *factor = nullptr;
  };
  std::vector<Clip> emit_clip_groups(ir::Builder& builder, const std::vector<Value*>& gradients,
                                     Slots& slots);
  // How much the loss scaling grew since the last update, for state that has it; nullptr where it is constant.
  Value* scaling_ratio(ir::Builder& builder, Slots& slots) const;
  // Whole values; the builder stands at the update.
  static std::vector<Value*> load_states(ir::Builder& builder, const Trained& trained, const Slots& slots);
  // The sum over micro-batches, and over the replicas that hold the same weight.
  Value* summed_gradient(ir::Builder& builder, const Slots& slots, const Trained& trained) const;
  // What enters the update: that sum, or the replicas' mean.
  Value* reduced_gradient(ir::Builder& builder, const Slots& slots, const Trained& trained) const;
  void begin_accumulation(ir::Builder& builder, Slots& slots, const Trained& trained);
  void accumulate(ir::Builder& builder, Slots& slots, const Trained& trained, Value* gradient, Value* index);
  optimizers::UpdateInput update_input(ir::Builder& builder, const Slots& slots, const Trained& trained,
                                       Value* gradient) const;
  // `input` comes from update_input().
  void update(ir::Builder& builder, Slots& slots, const Trained& trained,
              const optimizers::UpdateInput& input);
  std::map<std::string, Value*> streamed_values(int group, const Slots& slots) const;
  // Returns by what a sum of gradients is divided for their mean. All replicas count, also those that hold another
  // value of the parameter.
  double gradient_divisor() const;

  // step_micro_batch.cc
  struct ForwardPass {
    std::vector<Value*> arguments, results;  // of the forward graph
  };
  ForwardPass emit_forward(ir::Builder& builder, Slots& slots, Value* index);
  void emit_micro_batch(ir::Builder& builder, Slots& slots, Value* index);
  // The end of a device iteration, over which inputs and outputs that overlap the accumulation loop do not.
  void emit_barrier(ir::Builder& builder) const;
  Value* loss_gradient(ir::Builder& builder, const Slots& slots) const;
  // The weights that a graph reads, each loaded once.
  Value* weight(ir::Builder& builder, const Slots& slots, int variable, ir::Context context,
                std::map<int, Value*>& loaded) const;
  void emit_backward(ir::Builder& builder, Slots& slots, const std::vector<Value*>& arguments,
                     const std::vector<Value*>& results, Value* index);

  // step_anchors.cc
  void make_anchor_streams();
  // The variable of the name; nullptr: forward reads none.
  const StepVariable* anchored_parameter(const StepOptions::Anchor& anchor) const;
  bool is_trained(const StepVariable& state) const;
  void make_state_streams();
  void store_value_gradients(ir::Builder& builder, const Slots& slots,
                             const std::vector<Value*>& gradients) const;
  // The builder stands where the value belongs.
  void store_anchors(ir::Builder& builder, const std::vector<StepOptions::Anchor>& anchors,
                     const StepVariable& state, Value* value);
  // An updated weight has an item for each micro-batch of its update, as every other anchor.
  void store_updated(ir::Builder& builder, Slots& slots, const StepVariable& state);
  // Stores the parameters that the loss does not depend on. They keep their values.
  void store_untrained(ir::Builder& builder, Slots& slots);
  // The state of a name, as far as it is anchored, in the same way.
  void store_state(ir::Builder& builder, Slots& slots, const Home& home, const std::string& name,
                   Value* value);

  // step_loss_scaling.cc: automatic loss scaling
  struct GradientCount {  // of large elements in the gradients that one block makes
    Home home;
    int slot = -1;
  };
  bool scales_losses() const { return options_.loss_scaling.is_automatic; }
  void check_loss_scaling() const;
  bool is_counted(const Value& forward, const Value& gradient) const;
  // Adds the counts to the outputs of the gradient graph.
  void collect_loss_scaling();
  void read_loss_scaling(ir::Builder& builder, Slots& slots) const;
  void assign_loss_scaling(ir::Builder& builder, const Slots& slots) const;
  // Before the micro-batches of a weight update, in each of them, and after the update.
  bool is_loss_half() const;
  void begin_loss_scaling(ir::Builder& builder, Slots& slots) const;
  void add_gradient_counts(ir::Builder& builder, Slots& slots, const std::vector<Value*>& counts) const;
  void update_loss_scaling(ir::Builder& builder, Slots& slots) const;
  ir::Type scaling_anchor_type(const std::string& name) const;
  void store_scaling(ir::Builder& builder, const Slots& slots, Value* index) const;
  // Small and large elements so far; `index`: of the micro-batch within the update, nullptr: 0.
  Value* scaling_statistics(ir::Builder& builder, const Slots& slots, Value* index) const;
  // What the loss is multiplied with, where it is variable.
  Value* loss_scaling(const Slots& slots) const;

  const ForwardGraph& forward_;
  StepOptions options_;
  ir::Module& module_;
  StagePlan plan_;
  std::map<std::string, int64_t> stage_of_block_, ipu_of_block_;
  bool is_pipelined_ = false;
  int slot_count_ = 0;
  std::vector<StepVariable> variables_;
  std::vector<int> variable_of_input_;     // -1: a host input
  std::map<int, int> variable_of_output_;  // written state only
  Value* loss_ = nullptr;
  autodiff::GradInfo gradient_;
  std::vector<Trained> trained_;
  std::vector<int> trained_of_gradient_;  // of each output of the gradient graph; -1: of none
  std::vector<int>
      value_gradients_;  // of each of the options': number of the output; -1: what the loss is given
  std::map<std::string, int> hyper_slots_;
  std::vector<GradientCount> gradient_counts_;  // further outputs of the gradient graph
  int64_t counted_elements_ = 0;                // in one micro-batch
  int previous_scaling_ = -1;                   // slot
  ir::Variable* previous_scaling_variable_ = nullptr;
  int scaling_factor_ = -1, final_scaling_ = -1, updates_counted_ = -1;  // slots; the last with a period only
  ir::Variable *scaling_factor_variable_ = nullptr, *updates_counted_variable_ = nullptr;
  int seed_input_ = -1;                      // of the forward graph
  int run_seed_ = -1, iteration_seed_ = -1;  // slots: of the run and replica, and of the device iteration
};

}  // namespace ipu::frontends
