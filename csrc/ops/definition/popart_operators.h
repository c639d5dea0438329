// What programs of PopART are told of operators of ai.onnx, beside their importers: which versions run, element types, attributes.
#pragma once

#include <string>
#include <vector>

namespace ipu::ops {

struct PopartOperator {
  std::string types;     // "Abs Sign": operators that differ in nothing else
  std::string versions;  // of ai.onnx up to 11 in which they run: "1 6"
  // "X:F !min:F": names and element types, as popart/_impl/operators/onnx.py calls them; the model must state !x.
  std::string operands, results;
  std::string gradient = "yes";  // "yes", "zero", "none" (nothing before it is trained through it) or "error"
  std::string attributes = "";   // "axis mode=DCR|CRD", with a regular expression of the values
  std::string how =
      "ir";  // "ir" runs, "rewritten" is turned into other operators, "folded" while the model is read
};
std::vector<PopartOperator> popart_operators();

class PopartOperators {
 public:
  PopartOperators(std::vector<PopartOperator> rows);  // NOLINT: by design
};

}  // namespace ipu::ops
