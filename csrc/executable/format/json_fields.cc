// The values whose JSON is not the sum of their fields: numbers, types, attributes, constants.
#include "executable/format/json_fields.h"

#include <fmt/core.h>

#include <bit>
#include <cmath>
#include <limits>

#include "executable/digest.h"
#include "executable/format/program_fields.h"

namespace ipu::executable {
namespace {

// Larger numbers of bytes or elements in a file are nonsense; below it sums of several sizes do not overflow.
constexpr int64_t kMaxSize = int64_t{1} << 46;
constexpr size_t kMaxRank = 32;

constexpr std::string_view kAttributeKinds[] = {"bool",     "int",  "real",  "text",  "dtype",  "symbol",
                                                "constant", "ints", "reals", "texts", "symbols"};
static_assert(std::size(kAttributeKinds) == std::variant_size_v<Attribute>);

}  // namespace

std::string file_dtype(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kF16:
      return "F16";
    case DType::kI32:
      return "I32";
    case DType::kU32:
      return "U32";
    case DType::kI16:
      return "I16";
    case DType::kU16:
      return "U16";
    case DType::kI8:
      return "I8";
    case DType::kBool:
      return "BOOL";
    case DType::kI64:
      return "I64";
    case DType::kF64:
      return "F64";
    case DType::kU8:
    case DType::kF8_143:
    case DType::kF8_152:
      return "U8";
  }
  return "U8";
}

std::string_view enum_name(program::Opcode value) {
  std::string_view name = program::to_string(value);
  return name == "?" ? std::string_view() : name;
}

// --- writing

nlohmann::json FieldWriter::real(double v) {
  if (std::isfinite(v)) return v;
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "0x";
  for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[std::bit_cast<uint64_t>(v) >> shift & 15];
  return text;
}

nlohmann::json FieldWriter::special(DType v) { return to_string(v); }

nlohmann::json FieldWriter::special(const TensorSpec& v) {
  nlohmann::json json = {{"dtype", to_string(v.dtype)}, {"shape", v.shape}};
  if (v.strides != contiguous_strides(v.shape)) json["strides"] = v.strides;
  if (!v.layout.is_plain()) json["layout"] = to_string(v.layout);
  return json;
}

nlohmann::json FieldWriter::special(const Attributes& v) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [name, attribute] : v) {
    nlohmann::json entry = std::visit(
        [&](const auto& held) -> nlohmann::json {
          using T = std::remove_cvref_t<decltype(held)>;
          if constexpr (std::is_same_v<T, Symbol>) {
            return held.name;
          } else if constexpr (std::is_same_v<T, std::vector<Symbol>>) {
            nlohmann::json names = nlohmann::json::array();
            for (const Symbol& symbol : held) names.push_back(symbol.name);
            return names;
          } else {
            return value(held);
          }
        },
        attribute);
    json[name] = {kAttributeKinds[attribute.index()], std::move(entry)};
  }
  return json;
}

nlohmann::json FieldWriter::special(const ConstantPtr& v) {
  if (v == nullptr) return nullptr;
  IPU_CHECK(static_cast<int64_t>(v->bytes.size()) == size_in_bytes(v->dtype, v->shape),
            "a constant of another size than its shape");
  const std::string name = "constant." + digest_of(*v);
  if (!container_.has(name)) container_.add(name, {file_dtype(v->dtype), v->shape, v->bytes});
  return {{"tensor", name}, {"dtype", to_string(v->dtype)}};
}

nlohmann::json FieldWriter::special(const HostTensor& v) {
  const std::string name =
      "output." + Digest().add(v.dtype).add(to_string(std::span<const int64_t>(v.shape))).add(v.bytes).hex();
  if (!container_.has(name)) container_.add(name, {v.dtype, v.shape, v.bytes});
  return {{"tensor", name}};
}

// --- reading

void FieldReader::refuse(const std::string& what) const {
  std::string path = section_;
  for (const Step& step : path_) {
    if (step.name.empty())
      path += fmt::format("[{}]", step.index);
    else
      path += "." + quotation(step.name);
  }
  container_.corrupt(fmt::format("{} {}", path, what));
}

int64_t FieldReader::integer(const nlohmann::json& json, int64_t low, int64_t high) const {
  if (json.is_number_unsigned() &&
      json.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    refuse("is out of range");
  require(json.is_number_integer(), "is not an integer");
  auto v = json.get<int64_t>();
  require(v >= low && v <= high, "is out of range");
  return v;
}

double FieldReader::real(const nlohmann::json& json) const {
  if (json.is_number()) return json.get<double>();
  require(json.is_string(), "is not a number");
  const auto& text = json.get_ref<const std::string&>();
  require(text.size() == 18 && text.starts_with("0x") &&
              text.find_first_not_of("0123456789abcdef", 2) == std::string::npos,
          "is not a number");
  return std::bit_cast<double>(static_cast<uint64_t>(std::stoull(text.substr(2), nullptr, 16)));
}

void FieldReader::special(const nlohmann::json& json, DType& v) {
  require(json.is_string(), "is not the name of a type");
  std::optional<DType> dtype = dtype_from_string(json.get_ref<const std::string&>());
  if (!dtype) refuse(fmt::format("'{}' is not an element type", quotation(json.get<std::string>())));
  v = *dtype;
}

void FieldReader::special(const nlohmann::json& json, TensorSpec& v) {
  require(json.is_object() && json.contains("dtype") && json.contains("shape"), "is not {dtype, shape}");
  size_t known = 2;
  special(json["dtype"], v.dtype);
  read(json["shape"], v.shape);
  require(v.shape.size() <= kMaxRank, "has too many dimensions");
  int64_t bytes = size_in_bytes(v.dtype);
  bool is_empty = false;
  for (int64_t extent : v.shape) {
    require(extent >= 0 && extent <= kMaxSize, "has an extent out of range");
    is_empty |= extent == 0;
    if (extent > 0)
      require(!__builtin_mul_overflow(bytes, extent, &bytes) && bytes <= kMaxSize, "is too large");
  }
  if (auto at = json.find("layout"); at != json.end()) {
    ++known;
    require(at->is_string(), "has a layout that is no name");
    std::optional<Layout> layout = layout_from_string(at->get_ref<const std::string&>());
    require(layout.has_value(), "has an unknown layout");
    v.layout = *layout;
    require(v.layout.fits(v.shape), "has a layout of another number of dimensions");
    require(v.layout.is_supported(v.shape), "has a layout that no kernel reads");
  }
  v.strides = contiguous_strides(v.shape);
  if (auto at = json.find("strides"); at != json.end()) {
    ++known;
    read(*at, v.strides);
    require(v.strides.size() == v.shape.size() || (!v.layout.is_plain() && v.strides.empty()),
            "has another number of strides than dimensions");
    int64_t last = 0;
    for (size_t d = 0; d < v.strides.size(); ++d) {
      require(v.strides[d] >= 0 && v.strides[d] <= kMaxSize, "has a stride out of range");
      int64_t step = 0;
      if (v.shape[d] > 0)
        require(!__builtin_mul_overflow(v.shape[d] - 1, v.strides[d], &step) && step <= kMaxSize &&
                    (last += step) <= kMaxSize,
                "reaches too far");
    }
  }
  require(known == json.size(), "has unknown fields");
}

void FieldReader::attribute(const nlohmann::json& json, Attribute& v) {
  require(json.is_array() && json.size() == 2 && json[0].is_string(), "is not [kind, value]");
  const auto& kind = json[0].get_ref<const std::string&>();
  const nlohmann::json& held = json[1];
  size_t index = 0;
  auto as = [&]<class T>(T member) {
    if (kind != kAttributeKinds[index++]) return false;
    if constexpr (std::is_same_v<T, Symbol>) {
      read(held, member.name);
    } else if constexpr (std::is_same_v<T, std::vector<Symbol>>) {
      std::vector<std::string> names;
      read(held, names);
      for (std::string& name : names) member.push_back({std::move(name)});
    } else if constexpr (std::is_same_v<T, ConstantPtr>) {
      read(held, member);
      require(member != nullptr, "is no constant");
    } else {
      read(held, member);
    }
    v = std::move(member);
    return true;
  };
  bool found = as(bool{}) || as(int64_t{}) || as(double{}) || as(std::string{}) || as(DType{}) ||
               as(Symbol{}) || as(ConstantPtr{}) || as(std::vector<int64_t>{}) || as(std::vector<double>{}) ||
               as(std::vector<std::string>{}) || as(std::vector<Symbol>{});
  if (!found) refuse(fmt::format("has the unknown kind '{}'", quotation(kind)));
}

void FieldReader::special(const nlohmann::json& json, Attributes& v) {
  require(json.is_object(), "is not an object");
  for (const auto& [name, entry] : json.items()) {
    path_.push_back({name, 0});
    Attribute held;
    attribute(entry, held);
    v.set(name, std::move(held));
    path_.pop_back();
  }
}

void FieldReader::special(const nlohmann::json& json, ConstantPtr& v) {
  v = nullptr;
  if (json.is_null()) return;
  require(json.is_object() && json.size() == 2 && json.contains("tensor") && json["tensor"].is_string() &&
              json.contains("dtype"),
          "is not {tensor, dtype}");
  const auto& name = json["tensor"].get_ref<const std::string&>();
  DType dtype;
  special(json["dtype"], dtype);
  const Blob& blob = container_.blob(name);
  require(blob.dtype == file_dtype(dtype), "names a tensor of another type");
  ConstantPtr& known = constants_[fmt::format("{} {}", name, to_string(dtype))];
  if (known == nullptr)
    known = std::make_shared<const ConstantData>(
        ConstantData{dtype, blob.shape, {blob.bytes.begin(), blob.bytes.end()}});
  v = known;
}

void FieldReader::special(const nlohmann::json& json, HostTensor& v) {
  require(json.is_object() && json.size() == 1 && json.contains("tensor") && json["tensor"].is_string(),
          "is not {tensor}");
  const Blob& blob = container_.blob(json["tensor"].get_ref<const std::string&>());
  v = {blob.dtype, blob.shape, {blob.bytes.begin(), blob.bytes.end()}};
}

}  // namespace ipu::executable
