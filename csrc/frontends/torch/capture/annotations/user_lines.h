// The user's lines. A Python traceback is gathered for each operator and turned into text only at the end or
// for an error; the innermost frame outside of torch, poptorch and installed packages is the user's, else the
// innermost outside of torch and poptorch.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ir/module.h"

namespace torch {
struct CapturedTraceback;
}

namespace ipu::frontends::torch_frontend {

// The locations handed out in one capture, whose files and lines are not known yet.
class UserLines {
 public:
  ir::Location here(const std::string& module_path);
  void resolve();  // fills in file and line of all of them
  void forget();   // they stay unknown

 private:
  std::vector<std::pair<std::shared_ptr<ir::LocationData>, std::shared_ptr<torch::CapturedTraceback>>>
      pending_;
};

struct PythonFrame {
  std::string file;
  int64_t line = 0;
  std::string function;
};

// Where the program is: the user's line, "model.py:41", "" when there is none; and where an installed package
// stands below it, the lines for a message that lead from there to the operator, the user's marked by ">".
struct UserPlace {
  std::string line, stack;
};
UserPlace place_of(const std::vector<PythonFrame>& frames);  // innermost first
UserPlace current_place();
std::string current_user_line();  // of the current place
// "\n  from:     model.py:41 [layer3]" for messages; "" when unknown.
std::string from_line(const std::string& user_line, const std::string& module_path);
// Files whose path contains one of these are not the user's either (Options.sourceLocationExcludes).
void set_location_excludes(std::vector<std::string> fragments);
// Frames of these directories are not the user's.
void set_library_directories(std::vector<std::string> directories);

}  // namespace ipu::frontends::torch_frontend
