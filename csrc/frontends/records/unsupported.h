// Operators of a model that cannot be imported: all of them are reported in one error.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "frontends/records/records.h"

namespace ipu::frontends::records {

inline constexpr char kNoImporter[] = "there is no importer for it";  // whatever the version

class UnsupportedNodes {
 public:
  void add(const NodeRecord& node, int version, const std::string& why);
  void add_skipped() { ++skipped_; }  // reads what an operator of the list would have given
  bool empty() const { return entries_.empty(); }
  // Error(kUnsupportedOps); parameter "unknown": the operators without an importer, "ai.onnx.Hardmax:11, ...", "nodes": names of
  // the nodes, one a line. `is_file`: the model can be exported in another way.
  [[noreturn]] void raise(const std::string& source, bool is_file) const;

 private:
  using Key = std::tuple<std::string, std::string, int, std::string>;  // domain, type, version, why
  std::map<Key, std::vector<std::string>> entries_;                    // names of nodes
  std::string nodes_;
  int64_t skipped_ = 0;
};

}  // namespace ipu::frontends::records
