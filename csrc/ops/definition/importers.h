// The registry of importers: what operators of front ends become, by domain, type and the versions of the
// domain in which the operator means that. Importers stand in the definition of the op they lead to
// (OpDefBuilder::from_aten, from_onnx, from_graphcore); those that lead to several ops register themselves here.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ipu::ops {

class AtenImportCall;  // ops/definition/aten_import_call.h
class NodeImportCall;  // ops/definition/node_import_call.h
struct OpDef;

// The newest version of ai.onnx whose operators have been compared with the importers. A later one may change
// what an operator means, so nothing is claimed for it.
inline constexpr int kNewestOnnx = 25;

// Both ends included.
struct VersionRange {
  int since = 0, until = kNewestOnnx;
  bool has(int version) const { return version >= since && version <= until; }
};

using AtenImporter = std::function<void(AtenImportCall&)>;
using NodeImporter = std::function<void(NodeImportCall&)>;

struct Importer {
  std::string domain;     // "aten", "ai.onnx", ...
  std::string type;       // "add.Tensor", "Gemm"
  VersionRange versions;  // torch has none: {0, 0}
  std::variant<AtenImporter, NodeImporter> import;
  bool is_by_name = false;  // node_importer_of: the operator takes what the op takes
};

inline constexpr const char* kAten = "aten";
inline constexpr const char* kOnnx = "ai.onnx";
inline constexpr const char* kGraphcore = "ai.graphcore";
inline constexpr const char* kTensorflow = "tf";  // op types of TensorFlow
inline constexpr const char* kIpu = "ipu";        // op types that our TensorFlow package adds

std::string_view canonical_domain(std::string_view domain);  // "" is what ONNX calls "ai.onnx" in files

// Error(kInternal) when one of the same domain and type has a version in common with it.
void register_importer(Importer importer);
void register_aten_importer(std::string overload, AtenImporter importer);
void register_onnx_importer(std::string type, VersionRange versions, NodeImporter importer);
// An op type of TensorFlow, whose types have no versions. Attributes that repeat what follows from operands ("T", "N") and that say
// how TensorFlow runs it are ignored unless the importer reads them.
void register_tensorflow_importer(std::string type, NodeImporter importer, std::string domain = kTensorflow);
Importer tensorflow_importer(std::string type, NodeImporter importer, std::string domain = kTensorflow);

const Importer* find_importer(std::string_view domain, std::string_view type, int version);  // nullptr: none
const AtenImporter* find_aten_importer(std::string_view overload);                           // nullptr: none
std::vector<const Importer*> importers_of(std::string_view domain, std::string_view type);   // by version
std::vector<const Importer*> all_importers();  // sorted by domain, type, version
std::vector<std::string> aten_overloads();     // those with an importer, sorted

// Importers that follow from names. Torch: operands and attributes are the arguments of the same name; `rename`
// maps "our name" → "the operator's name".
AtenImporter aten_importer_of(std::string kind, std::map<std::string, std::string> rename);
// Nodes: operands in order, attributes by name.
NodeImporter node_importer_of(std::string kind, std::map<std::string, std::string> rename);

}  // namespace ipu::ops
