#pragma once

#include <string>
#include <utility>
#include <vector>

namespace foldcast::tools {

/// Lines under one heading of `foldcast info`; a name is never empty and stands once.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// What is here, and what is not with the reason. Nothing here fails: a thing that cannot be asked says so.
Facts build_facts();
Facts machine_facts();
Facts accelerator_facts();
/// Which launcher started this process and who it is in the job.
Facts launch_facts();

}  // namespace foldcast::tools
