// Marks of inputs and outputs whose transfers overlap with compute: from ops of the captured graph to what the step
// builder reads.
#pragma once

#include "frontends/common/step_builder.h"

namespace ipu::frontends::torch_frontend {

// Takes every `overlap_mark` out of the forward graph and notes its mode at the input or output it marks. Throws
// Error(kAnnotation), at the user's line: the value is no host input or output, an input has other readers, an output
// is read or returned twice. Error(kOption): the options of the program rule out overlap. Warns of an overlap that
// has nothing to overlap with.
void take_overlap_marks(ForwardGraph& forward, const StepOptions& options);

}  // namespace ipu::frontends::torch_frontend
