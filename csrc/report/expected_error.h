// How far figures of reports are from measurements of real IPUs, by what was measured (docs/device-model-accuracy.md).
#pragma once

#include <string>
#include <string_view>

#include "ir/module.h"

namespace ipu::report {

struct ExpectedError {
  std::string_view figure;  // "product": as OpTime.figure, "training", "inference", "memory"
  std::string_view kind;    // of the measurements
  double half, most;        // half of them, and nine of ten, are within so many per cent
  int measurements;
  bool
      is_of_its_own;  // numbers of the machine files come from these measurements: they prove those, not the model
};

// nullptr: nothing that was measured says it.
const ExpectedError* expected_error(std::string_view figure);
// "half within 5.0 %, nine of ten within 12.5 % of 39 measurements (gemm)", or "not validated".
std::string describe_error(std::string_view figure);
// "5 / 13 %", with a star where the measurements are its own, or "not validated".
std::string short_error(std::string_view figure);

// "training" if the program changes its parameters, else "inference".
std::string_view figure_of_run(const ir::Module& module);

}  // namespace ipu::report
