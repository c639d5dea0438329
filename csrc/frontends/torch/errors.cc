#include "frontends/torch/errors.h"

#include "support/wording.h"

namespace ipu::frontends::torch_frontend {
namespace {

RaiseFunction raise_function = nullptr;

constexpr Wording kWordings[] = {
    // Losses.
    {"no_loss",
     "{text} Call a loss function of torch in forward, or wrap the value to minimise in "
     "poptorch.identity_loss(value, reduction=\"mean\")."},
    {"several_losses",
     "{text}\n  Combine them, for example add them, and wrap the result in "
     "poptorch.identity_loss(combined, reduction=\"none\")."},
    {"loss_of_many_numbers",
     "{text} Wrap it in poptorch.identity_loss(loss, reduction=\"sum\") or \"mean\"."},
    {"no_gradient",
     "{text} Stop the gradient there with detach() or torch.no_grad(), or use an op that has one."},
    // Strategies and IPUs.
    {"unfilled_inference",
     "device iterations too small: deviceIterations is {iterations}, and a pipeline of {stages} needs at least "
     "{needed} to fill. Set options.deviceIterations({needed}) or more, or use poptorch.ShardedExecution."},
    {"unfilled_training",
     "gradient accumulation too small: Training.gradientAccumulation is {micro_batches}, and this pipeline "
     "needs at least {needed}: the forward pass has {forward} and the backward pass adds {backward}. "
     "Set options.Training.gradientAccumulation({needed}) or more, or use poptorch.ShardedExecution."},
    {"stage_going_back",
     "pipeline stage going back: {reader} reads a result of {producer}. In a pipeline data never flow to an "
     "earlier stage: give the second op a block of its own in a later stage, which may be on the same IPU, or "
     "use poptorch.ShardedExecution."},
    {"phase_parity",
     "invalid IPU for a phase: phase {phase} is on IPU {ipu} ({block}). With poptorch.ParallelPhasedExecution "
     "even phases run on even IPUs and odd phases on odd ones, so that one group computes while the other "
     "loads and stores.\n"
     "  try:      strategy.phase({phase}).ipus(...) with {parity} IPUs, or poptorch.SerialPhasedExecution"},
    {"too_many_ipus",
     "{text} Distributed execution is required: run several processes with Options.Distributed."},
    {"no_power_of_two",
     "{text} Set Options.autoRoundNumIPUs(True) to reserve {reserved} IPUs and leave {idle} idle, or place the "
     "model on a power of two of IPUs."},
    {"ipus_in_use", "{text} Call detachFromDevice() or destroy() on each model first"},
    {"not_attached", "{text}\n  try:      attachToDevice(), or call the model"},
    // Options.
    {"no_io_tiles",
     "no tiles for I/O: TensorLocations.set{family}Location asks for useIOTilesTo{use}, and no tiles are "
     "reserved.\n  try:      options.TensorLocations.numIOTiles(32) or more"},
    {"output_period",
     "output period does not fit: OutputMode.EveryN with period {period} needs a period that divides "
     "deviceIterations, which is {iterations}. Choose such a period, or OutputMode.All."},
    {"generator", "{text} Options.randomSeed and PoplarExecutor.rng_state set that seed."},
    // Optimizers.
    {"scaling_without_accumulation",
     "automatic loss scaling in a pipeline without accumulation: the pipeline has {stages} stages, and "
     "Training.gradientAccumulation is 1.\n"
     "  try:      options.Training.gradientAccumulation({needed}) or more, or poptorch.ShardedExecution"},
    {"no_half_gradient",
     "{text}\n  try:      model.half(), or setAutomaticLossScaling(False): gradients in float32 need no loss "
     "scaling"},
    {"constant_changed",
     "{text} Mark it with optimizer.variable_attrs.markAsVariable before the first compilation, or compile "
     "again."},
    {"fixed_changed",
     "optimizer constant changed: {name} was compiled as {compiled} and is now {next}. It is fixed when the "
     "model is compiled: create a new trainingModel to change it."},
    {"optimizer_changed", "{text} Create a new trainingModel for it."},
};

}  // namespace

void set_raise_function(RaiseFunction raise) { raise_function = raise; }

void raise_through_torch(const Error& error) {
  if (raise_function != nullptr) raise_function(error);
  throw error;
}

Error in_words_of_poptorch(const Error& error) { return reworded(error, kWordings); }

}  // namespace ipu::frontends::torch_frontend
