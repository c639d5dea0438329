// Plain structs to JSON and back by their field tables. A field that has its default value is left out.
// Reading takes nothing on trust: kinds, ranges, names of enums, unknown fields; messages name the path of
// the value.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "executable/format/container.h"
#include "executable/signature.h"
#include "program/program.h"
#include "support/attributes.h"
#include "support/error.h"
#include "support/fields.h"
#include "support/foreign_text.h"
#include "support/tensor_spec.h"

namespace ipu::executable {

// safetensors' name of a device type; types it does not have travel as bytes.
std::string file_dtype(DType dtype);

template <class T>
struct is_vector : std::false_type {};
template <class T>
struct is_vector<std::vector<T>> : std::true_type {};
template <class T>
struct is_map : std::false_type {};
template <class T>
struct is_map<std::map<std::string, T>> : std::true_type {};

using ipu::enum_name;
std::string_view enum_name(program::Opcode value);  // "" for a value without a name

class FieldWriter {
 public:
  explicit FieldWriter(ContainerWriter& container) : container_(container) {}

  template <class T>
  nlohmann::json value(const T& v) {
    if constexpr (HasFields<T>) {
      const T plain{};
      nlohmann::json json = nlohmann::json::object();
      std::apply([&](const auto&... f) { (write_field(json, v, plain, f), ...); }, Fields<T>::table);
      return json;
    } else if constexpr (is_vector<T>::value) {
      nlohmann::json json = nlohmann::json::array();
      for (const auto& member : v) json.push_back(value(member));
      return json;
    } else if constexpr (is_map<T>::value) {
      nlohmann::json json = nlohmann::json::object();
      for (const auto& [name, member] : v) json[name] = value(member);
      return json;
    } else if constexpr (std::is_enum_v<T> && !std::is_same_v<T, DType>) {
      std::string_view name = enum_name(v);
      IPU_CHECK(!name.empty(), "an enum value without a name in its field table");
      return name;
    } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
      if constexpr (std::is_same_v<T, double>) return real(v);
      return v;
    } else {
      return special(v);
    }
  }

 private:
  template <class T, class M>
  void write_field(nlohmann::json& json, const T& object, const T& plain, const Field<T, M>& f) {
    const M& v = object.*(f.member);
    if constexpr (is_vector<M>::value || is_map<M>::value) {
      if (v.empty()) return;
    } else if constexpr (requires { v == v; }) {
      if (v == plain.*(f.member)) return;
    }
    json[std::string(f.name)] = value(v);
  }
  static nlohmann::json real(double v);
  static nlohmann::json special(DType v);
  static nlohmann::json special(const TensorSpec& v);
  nlohmann::json special(const Attributes& v);
  nlohmann::json special(const ConstantPtr& v);  // its bytes go to the container
  nlohmann::json special(const HostTensor& v);

  ContainerWriter& container_;
};

class FieldReader {
 public:
  // `section` begins the path of messages.
  FieldReader(const Container& container, std::string section)
      : container_(container), section_(std::move(section)) {}

  template <class T>
  void read(const nlohmann::json& json, T& v) {
    if constexpr (HasFields<T>) {
      require(json.is_object(), "is not an object");
      size_t known = 0;
      std::apply([&](const auto&... f) { (read_field(json, v, f, known), ...); }, Fields<T>::table);
      if (known != json.size()) refuse_unknown<T>(json);
    } else if constexpr (is_vector<T>::value) {
      require(json.is_array(), "is not a list");
      v.clear();
      v.reserve(json.size());
      for (const nlohmann::json& member : json) {
        path_.push_back({{}, v.size()});
        v.push_back({});
        read(member, v.back());
        path_.pop_back();
      }
    } else if constexpr (is_map<T>::value) {
      require(json.is_object(), "is not an object");
      v.clear();
      for (const auto& [name, member] : json.items()) {
        path_.push_back({name, 0});
        read(member, v[name]);
        path_.pop_back();
      }
    } else if constexpr (std::is_enum_v<T> && !std::is_same_v<T, DType>) {
      require(json.is_string(), "is not a name");
      const auto& text = json.get_ref<const std::string&>();
      for (int i = 0; i < kMaxEnum; ++i) {
        v = static_cast<T>(i);
        if (enum_name(v) == text) return;
      }
      refuse("'" + quotation(text) + "' is unknown");
    } else if constexpr (std::is_same_v<T, bool>) {
      require(json.is_boolean(), "is not true or false");
      v = json.get<bool>();
    } else if constexpr (std::is_integral_v<T>) {
      v = static_cast<T>(integer(json, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
    } else if constexpr (std::is_same_v<T, double>) {
      v = real(json);
    } else if constexpr (std::is_same_v<T, std::string>) {
      require(json.is_string(), "is not text");
      v = json.get<std::string>();
    } else {
      special(json, v);
    }
  }

  // For checks of the caller on what it has read.
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  static constexpr int kMaxEnum = 256;
  struct Step {
    std::string_view name;  // empty: an index
    size_t index;
  };

  void require(bool condition, const char* what) const {
    if (!condition) refuse(what);
  }
  template <class T, class M>
  void read_field(const nlohmann::json& json, T& object, const Field<T, M>& f, size_t& known) {
    auto at = json.find(f.name);
    if (at == json.end()) return;
    ++known;
    path_.push_back({f.name, 0});
    M v{};
    read(*at, v);
    object.*(f.member) = std::move(v);
    path_.pop_back();
  }
  template <class T>
  [[noreturn]] void refuse_unknown(const nlohmann::json& json) {
    for (const auto& [name, member] : json.items()) {
      bool is_known =
          std::apply([&](const auto&... f) { return ((f.name == name) || ...); }, Fields<T>::table);
      if (!is_known) refuse("has the unknown field '" + quotation(name) + "'");
    }
    refuse("has unknown fields");
  }
  int64_t integer(const nlohmann::json& json, int64_t low, int64_t high) const;
  double real(const nlohmann::json& json) const;
  void special(const nlohmann::json& json, DType& v);
  void special(const nlohmann::json& json, TensorSpec& v);
  void special(const nlohmann::json& json, Attributes& v);
  void special(const nlohmann::json& json, ConstantPtr& v);
  void special(const nlohmann::json& json, HostTensor& v);
  void attribute(const nlohmann::json& json, Attribute& v);

  const Container& container_;
  std::string section_;
  std::vector<Step> path_;
  std::map<std::string, ConstantPtr> constants_;  // by tensor: shared as they were
};

}  // namespace ipu::executable
