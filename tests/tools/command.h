#pragma once

#include <string>

namespace foldcast::tools::testing {

/// What a shell command line did.
struct CommandResult {
  int code = -1;  ///< 124: it ran past the limit and was killed
  std::string out;
  std::string err;
};

/// Runs `line` with sh, for at most `seconds`. $FOLDCAST is the program under test.
CommandResult shell(const std::string& line, int seconds = 20);

/// A directory of its own, removed with all it holds at the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string contents(const std::string& path);
int lines_in(const std::string& text);

}  // namespace foldcast::tools::testing
