#include "tests/tools/command.h"

#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace foldcast::tools::testing {

TemporaryDirectory::TemporaryDirectory() {
  std::string pattern = (std::filesystem::temp_directory_path() / "foldcast-test-XXXXXX").string();
  path_ = ::mkdtemp(pattern.data()) ? pattern : "";
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

int lines_in(const std::string& text) { return static_cast<int>(std::count(text.begin(), text.end(), '\n')); }

CommandResult shell(const std::string& line, int seconds) {
  TemporaryDirectory directory;
  std::ofstream(directory.path() + "/script") << "FOLDCAST='" FOLDCAST_PROGRAM "'\n" << line << "\n";
  std::string command = "timeout -k 2 " + std::to_string(seconds) + " sh " + directory.path() + "/script </dev/null >" +
                        directory.path() + "/out 2>" + directory.path() + "/err";
  int status = std::system(command.c_str());
  CommandResult result;
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.out = contents(directory.path() + "/out");
  result.err = contents(directory.path() + "/err");
  return result;
}

}  // namespace foldcast::tools::testing
