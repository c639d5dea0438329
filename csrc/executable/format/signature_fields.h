// Fields of a signature and of the optimizer it was compiled for.
#pragma once

#include "executable/signature.h"
#include "support/fields.h"

namespace ipu {

template <>
struct EnumNames<optimizers::Kind> {
  static constexpr std::string_view names[] = {
      "sgd_combined",    "sgd_separate", "adam",         "adamw",  "adamw_no_bias", "rmsprop",
      "rmsprop_centred", "lamb",         "lamb_no_bias", "adamax", "adagrad",       "adadelta"};
};
template <>
struct EnumNames<optimizers::Decay> {
  static constexpr std::string_view names[] = {"of_kind", "weight", "gradient"};
};

IPU_FIELDS(optimizers::HyperParameter, field("value", &T::value), field("constant", &T::constant));
IPU_FIELDS(optimizers::Group, field("hyper", &T::hyper), field("nesterov", &T::nesterov),
           field("accum_dtype", &T::accum_dtype), field("first_dtype", &T::first_dtype),
           field("second_dtype", &T::second_dtype), field("third_dtype", &T::third_dtype));
IPU_FIELDS(optimizers::ClipGroup, field("parameters", &T::parameters), field("max_norm", &T::max_norm));
IPU_FIELDS(optimizers::Spec, field("kind", &T::kind), field("groups", &T::groups),
           field("group_of", &T::group_of), field("loss_scaling", &T::loss_scaling),
           field("max_grad_norm", &T::max_grad_norm), field("tf_variant", &T::tf_variant),
           field("accumulation", &T::accumulation), field("running_mean", &T::running_mean),
           field("replicas", &T::replicas), field("running_mean_of_replicas", &T::running_mean_of_replicas),
           field("accum_dtype", &T::accum_dtype), field("velocity_dtype", &T::velocity_dtype),
           field("second_dtype", &T::second_dtype), field("is_popart", &T::is_popart),
           field("decay", &T::decay), field("scaled_state", &T::scaled_state),
           field("clip_groups", &T::clip_groups));

IPU_FIELDS(executable::Signature::Input, field("name", &T::name), field("shape", &T::shape),
           field("dtype", &T::dtype), field("items", &T::items), field("streams", &T::streams));
IPU_FIELDS(executable::Signature::Output, field("shape", &T::shape), field("dtype", &T::dtype),
           field("items", &T::items), field("stream", &T::stream), field("same_as", &T::same_as),
           field("constant", &T::constant));
IPU_FIELDS(executable::Signature::Mutated, field("input", &T::input), field("output", &T::output),
           field("also", &T::also));
IPU_FIELDS(executable::Signature::Moved, field("input", &T::input), field("dims", &T::dims));
IPU_FIELDS(executable::Signature::HyperStream, field("stream", &T::stream), field("group", &T::group),
           field("name", &T::name));
IPU_FIELDS(executable::Signature::ModelTensor, field("name", &T::name), field("shape", &T::shape),
           field("dtype", &T::dtype), field("is_parameter", &T::is_parameter),
           field("trainable", &T::trainable));
IPU_FIELDS(executable::Signature, field("inputs", &T::inputs), field("outputs", &T::outputs),
           field("mutated", &T::mutated), field("moved", &T::moved), field("hypers", &T::hypers),
           field("states", &T::states), field("constants", &T::constants), field("optimizer", &T::optimizer),
           field("training", &T::training), field("graph", &T::graph));

}  // namespace ipu
