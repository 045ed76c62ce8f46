#include "tools/system/program.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace foldcast::tools {
namespace {

std::string search_path() {
  const char* path = std::getenv("PATH");
  return (path && *path ? std::string(path) + ":" : std::string()) + "/usr/sbin:/sbin";
}

}  // namespace

std::string find_program(const std::string& name) {
  std::string path = search_path();
  for (std::size_t start = 0; start <= path.size();) {
    std::size_t end = std::min(path.find(':', start), path.size());
    std::string candidate = path.substr(start, end - start) + "/" + name;
    if (end > start && ::access(candidate.c_str(), X_OK) == 0) return candidate;
    start = end + 1;
  }
  return "";
}

std::string program_directory() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
}

std::string path_of_programs() { return "PATH=" + search_path(); }

std::string path_with_program_directory() { return "PATH=" + program_directory() + ":" + search_path(); }

}  // namespace foldcast::tools
