// Settings that the Python code of this project gives to native code, by name. Each name is said where its value is read, and a
// name that nothing reads is refused: one that is misspelt would leave another at its default.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <set>
#include <string>
#include <type_traits>
#include <utility>

#include "support/error.h"

namespace ipu::python {

class __attribute__((visibility("hidden"))) Settings {  // holds types of pybind11, which are hidden
 public:
  // `owner`: what has these settings, for messages.
  Settings(pybind11::dict data, const char* owner) : data_(std::move(data)), owner_(owner) {}

  bool has(const char* name) {
    known_.insert(name);
    return data_.contains(name);
  }
  // Error(kTypeMismatch) for a value of another type.
  template <typename T>
  T get(const char* name, T otherwise) {
    if (!has(name)) return otherwise;
    try {
      const pybind11::object value = data_[name];
      const bool is_object = std::is_base_of_v<pybind11::object, T>;  // a cast would convert to it
      if (is_object && !pybind11::isinstance<T>(value)) throw pybind11::cast_error();
      return value.template cast<T>();
    } catch (const pybind11::cast_error&) {
      throw Error(ErrorCode::kTypeMismatch, std::string("wrong kind of data: '") + name + "' of " + owner_ +
                                                " must be of another type.");
    }
  }
  // Error(kOption) for a name that was not asked about.
  void refuse_others() const {
    for (const auto& [key, value] : data_) {
      const auto name = pybind11::str(key).cast<std::string>();
      if (known_.contains(name)) continue;
      std::string names;
      for (const std::string& other : known_) names += (names.empty() ? "" : ", ") + other;
      throw Error(ErrorCode::kOption,
                  std::string("unknown setting: '") + name + "' of " + owner_ + "; known are " + names + ".");
    }
  }

 private:
  pybind11::dict data_;
  const char* owner_;
  std::set<std::string> known_;
};

}  // namespace ipu::python
