// The lines of the log that say what each operation of a model became, and where it runs (spec 23.11).
#pragma once

#include <string>
#include <vector>

#include "frontends/common/step_builder.h"

namespace ipu::frontends::torch_frontend {

// At DEBUG. `names`: those of tensor_names().
void log_graph(const ForwardGraph& forward, const StepOptions& step, const std::vector<std::string>& names);

}  // namespace ipu::frontends::torch_frontend
