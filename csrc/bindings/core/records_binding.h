// Models as node records, from plain Python data: dictionaries, lists, NumPy arrays.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "frontends/records/records.h"
#include "ir/module.h"

namespace ipu::bindings {

// Error(kTypeMismatch) for data of another form than ipu_core.compile_model describes.
frontends::records::ModelRecord model_record_of(const pybind11::dict& model);

// Element types and shapes of the outputs of the model's graph; nullopt: nothing tells. Errors as of importing the model.
std::vector<std::optional<std::pair<std::string, Shape>>> result_types(const pybind11::dict& model);

struct RecordsProgram {
  std::unique_ptr<ir::Module> module;
  int replicas = 1;
};
// `model` and `program` as ipu_core.compile_model describes them. Error(kTypeMismatch) for data of another form.
RecordsProgram program_of_records(const pybind11::dict& model, const pybind11::dict& program);

}  // namespace ipu::bindings
