#include "core/select/calibration_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/base/hash.h"

namespace foldcast::select {
namespace {

struct Number {
  const char* key;
  double LinkModel::*member;
};
constexpr std::array<Number, 6> kNumbers = {{
    {"latency_us", &LinkModel::latency_us},
    {"bytes_per_us", &LinkModel::bytes_per_us},
    {"node_latency_us", &LinkModel::node_latency_us},
    {"node_bytes_per_us", &LinkModel::node_bytes_per_us},
    {"tree_latency_us", &LinkModel::tree_latency_us},
    {"tree_bytes_per_us", &LinkModel::tree_bytes_per_us},
}};

std::string default_directory() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != 0) {
    return std::string(cache) + "/foldcast";
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != 0)
    return std::string(home) + "/.cache/foldcast";
  return "off";
}

}  // namespace

CalibrationFile::CalibrationFile(const std::string& directory, const hierarchy::Layout& layout,
                                 const std::string& transport, const std::string& tree) {
  const std::string where = directory.empty() ? default_directory() : directory;
  if (where == "off") return;
  std::string shape = fmt::format("1|{}|{}|{}|{}", transport, tree, layout.cores, layout.ranks_per_kernel);
  for (std::size_t node = 0; node < layout.nodes.size(); ++node) {
    shape += fmt::format("|{}:{}", layout.hostnames[node], layout.nodes[node].size());
  }
  path_ = fmt::format("{}/{:016x}.toml", where, fnv1a(shape));
}

std::optional<LinkModel> CalibrationFile::load(LinkModel model) const {
  if (path_.empty()) return std::nullopt;
  try {
    const toml::table table = toml::parse_file(path_);
    for (const Number& number : kNumbers) {
      const auto value = table[number.key].value<double>();
      if (!value || !std::isfinite(*value) || *value < 0) return std::nullopt;
      model.*number.member = *value;
    }
    model.rails.clear();
    if (const toml::array* rails = table["rail_bytes_per_us"].as_array()) {
      for (const toml::node& rail : *rails) {
        const auto value = rail.value<double>();
        if (!value || !std::isfinite(*value) || *value <= 0) return std::nullopt;
        model.rails.push_back(*value);
      }
    }
  } catch (const toml::parse_error&) {
    return std::nullopt;
  }
  const bool sane = model.bytes_per_us > 0 && model.node_bytes_per_us > 0;
  return sane ? std::optional(std::move(model)) : std::nullopt;
}

Status CalibrationFile::save(const LinkModel& model) const {
  if (path_.empty()) return ok_status();
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), error);
  const std::string temporary = fmt::format("{}.{}", path_, ::getpid());
  {
    std::ofstream file(temporary);
    file << "# Links as Foldcast measured them; delete this file to have them measured again.\n";
    for (const Number& number : kNumbers) file << fmt::format("{} = {:.6f}\n", number.key, model.*number.member);
    if (!model.rails.empty()) file << fmt::format("rail_bytes_per_us = [{:.6f}]\n", fmt::join(model.rails, ", "));
    if (!file.flush()) {
      ::unlink(temporary.c_str());
      return system_error("write " + temporary, errno);
    }
  }
  if (std::rename(temporary.c_str(), path_.c_str()) == 0) return ok_status();
  const int reason = errno;
  ::unlink(temporary.c_str());
  return system_error("rename " + temporary, reason);
}

}  // namespace foldcast::select
