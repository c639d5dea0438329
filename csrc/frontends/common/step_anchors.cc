// Tensors of a step that go to the host beside the outputs of forward: gradients, new values of parameters, states of the
// optimizer, norms of clipping, scales of losses. Their streams, and where they are stored.
#include <fmt/core.h>

#include <algorithm>

#include "frontends/common/step_emitter.h"
#include "ops/definition/build.h"
#include "support/error.h"

namespace ipu::frontends {

using ir::Value;

void StepEmitter::make_anchor_streams() {
  make_state_streams();
  for (const StepOptions::ValueAnchor& anchor : options_.value_gradients) {
    stream(anchor.stream, ir::StreamDirection::kDeviceToHost, anchor.value->type(),
           anchor.value->type().dtype);
    thin_out(*module_.find_stream(anchor.stream), anchor.mode, anchor.period);
  }
  for (const StepOptions::Anchor& anchor : options_.scaling_anchors) {
    const ir::Type type = scaling_anchor_type(anchor.parameter);
    stream(anchor.stream, ir::StreamDirection::kDeviceToHost, type, type.dtype);
    thin_out(*module_.find_stream(anchor.stream), anchor.mode, anchor.period);
  }
  for (const std::vector<StepOptions::Anchor>* anchors :
       {&options_.gradient_anchors, &options_.update_anchors}) {
    for (const StepOptions::Anchor& anchor : *anchors) {
      const StepVariable* parameter = anchored_parameter(anchor);
      if (parameter == nullptr || (!is_trained(*parameter) && anchors == &options_.gradient_anchors))
        throw Error(
            ErrorCode::kAnchor,
            fmt::format("no gradient: parameter '{}' is not trained, so nothing of it can be anchored.",
                        anchor.parameter));
      const ir::Type& type = parameter->type;
      stream(anchor.stream, ir::StreamDirection::kDeviceToHost, type, type.dtype);
      ir::Stream& added = *module_.find_stream(anchor.stream);
      thin_out(added, anchor.mode, anchor.period);
    }
  }
}

const StepEmitter::StepVariable* StepEmitter::anchored_parameter(const StepOptions::Anchor& anchor) const {
  const auto at = std::find_if(variables_.begin(), variables_.end(), [&](const StepVariable& state) {
    return state.variable->name == anchor.parameter;
  });
  return at == variables_.end() ? nullptr : &*at;
}

bool StepEmitter::is_trained(const StepVariable& state) const {
  return std::any_of(trained_.begin(), trained_.end(),
                     [&](const Trained& trained) { return &variables_[trained.variable] == &state; });
}

void StepEmitter::make_state_streams() {
  std::map<std::string, ir::Type> types;
  for (const Trained& trained : trained_) {
    const std::string& parameter = variables_[trained.variable].variable->name;
    const ir::Type sum = trained.accumulator.whole();
    // The sum that lies in a state of the rule goes by the name of that.
    if (trained.has_accumulator && !optimizers::accumulates_in_state(options_.optimizer, trained.group))
      types[kAccumulated + parameter] = sum;
    types[kFinalGradient + parameter] = sum.dtype == DType::kF16 ? ir::Type{DType::kF32, sum.shape} : sum;
    for (size_t i = 0; i < trained.states.size(); ++i)
      types[trained.state_variables[i]->name] = trained.states[i].whole();
  }
  for (size_t g = 0; g < options_.optimizer.clip_groups.size(); ++g) {
    const std::vector<std::string>& names = options_.optimizer.clip_groups[g].parameters;
    if (std::any_of(trained_.begin(), trained_.end(), [&](const Trained& trained) {
          return std::find(names.begin(), names.end(), variables_[trained.variable].variable->name) !=
                 names.end();
        }))
      types[kGlobalNorm + std::to_string(g)] = {DType::kF32, {}};
  }
  for (const StepOptions::Anchor& anchor : options_.state_anchors) {
    const auto type = types.find(anchor.parameter);
    if (type == types.end()) {
      std::string known;
      for (const auto& [name, unused] : types) known += (known.empty() ? "" : ", ") + name;
      throw Error(
          ErrorCode::kAnchor,
          fmt::format("unknown anchor: the update of parameters keeps nothing called '{}'; there {} {}.",
                      anchor.parameter, types.empty() ? "is" : "are", types.empty() ? "nothing" : known));
    }
    stream(anchor.stream, ir::StreamDirection::kDeviceToHost, type->second, type->second.dtype);
    thin_out(*module_.find_stream(anchor.stream), anchor.mode, anchor.period);
  }
}

void StepEmitter::store_value_gradients(ir::Builder& builder, const Slots& slots,
                                        const std::vector<Value*>& gradients) const {
  for (size_t i = 0; i < value_gradients_.size(); ++i) {
    const StepOptions::ValueAnchor& anchor = options_.value_gradients[i];
    Value* value = value_gradients_[i] < 0 ? loss_gradient(builder, slots) : gradients[value_gradients_[i]];
    stand_at(builder, home_of_value(*anchor.value), ir::Context::kBackward);
    builder.host_store(*module_.find_stream(anchor.stream), value);
  }
}

void StepEmitter::store_anchors(ir::Builder& builder, const std::vector<StepOptions::Anchor>& anchors,
                                const StepVariable& state, Value* value) {
  for (const StepOptions::Anchor& anchor : anchors)
    if (anchor.parameter == state.variable->name)
      builder.host_store(*module_.find_stream(anchor.stream), value);
}

void StepEmitter::store_updated(ir::Builder& builder, Slots& slots, const StepVariable& state) {
  const std::vector<StepOptions::Anchor>& anchors = options_.update_anchors;
  if (std::none_of(anchors.begin(), anchors.end(), [&](const StepOptions::Anchor& anchor) {
        return anchor.parameter == state.variable->name;
      }))
    return;
  repeat(builder, slots, options_.accumulation, {}, false, "micro_batch_of_update",
         [&](ir::Builder& inner, Slots& values, Value*) {
           stand_at(inner, state.home, ir::Context::kAccumulateOuter);
           store_anchors(inner, anchors, state, state.at.load(inner, values));
         });
  stand_at(builder, state.home, ir::Context::kAccumulateOuter);
}

void StepEmitter::store_untrained(ir::Builder& builder, Slots& slots) {
  for (const StepVariable& state : variables_)
    if (!is_trained(state)) store_updated(builder, slots, state);
}

void StepEmitter::store_state(ir::Builder& builder, Slots& slots, const Home& home, const std::string& name,
                              Value* value) {
  for (const StepOptions::Anchor& anchor : options_.state_anchors) {
    if (anchor.parameter != name) continue;
    const int slot = static_cast<int>(slots.size());
    const DType dtype = module_.find_stream(anchor.stream)->type.dtype;
    slots.push_back(value->type().dtype == dtype ? value
                                                 : ops::build(builder, "cast", {value}, {{"dtype", dtype}}));
    repeat(builder, slots, options_.accumulation, {}, false, "micro_batch_of_update",
           [&](ir::Builder& inner, Slots& values, Value*) {
             stand_at(inner, home, ir::Context::kAccumulateOuter);
             inner.host_store(*module_.find_stream(anchor.stream), values[slot]);
           });
    slots.pop_back();
    stand_at(builder, home, ir::Context::kAccumulateOuter);
  }
}

}  // namespace ipu::frontends
