#pragma once

#include <string>

namespace foldcast::tools {

/// Where the program is, in PATH or where administrators' programs are (/usr/sbin, /sbin: a normal user's PATH lacks
/// them, and `ip` is there); empty: nowhere.
std::string find_program(const std::string& name);
/// The directory of the running program.
std::string program_directory();
/// "PATH=..." in which find_program() looks, for the environment of a process.
std::string path_of_programs();
/// The same with the directory of the running program in front, so that ranks run the same build.
std::string path_with_program_directory();

}  // namespace foldcast::tools
