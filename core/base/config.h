#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

namespace foldcast {

/// Where a setting's value came from.
enum class ConfigSource : std::uint8_t { kDefault, kFile, kEnvironment };

/// One setting: the same table makes the parser, `foldcast config` and the documentation.
struct ConfigEntry {
  std::string_view key;            ///< as in foldcast.toml, e.g. "timeout"; FOLDCAST_TIMEOUT in the environment
  std::string_view default_value;  ///< as text
  std::string_view documentation;  ///< one sentence, with the unit and the range
};

/// All settings of one process: read once (environment over `foldcast.toml` over defaults), then immutable.
/// The file is $FOLDCAST_CONFIG, else ./foldcast.toml, else /etc/foldcast.toml; the first that exists.
/// An unknown FOLDCAST_* variable or file key is a warning that names the nearest known one; a value that cannot be
/// read is an error that names the variable, the value and what is expected.
class Config {
 public:
  static Result<Config> from_environment();
  /// For tests and tools: `environment` in place of the process's, no file.
  static Result<Config> from(const std::map<std::string, std::string>& environment, std::string_view toml = {});

  static std::span<const ConfigEntry> entries();
  /// What only the environment can say, because launchers set it per process or because it is read before the file.
  static std::span<const ConfigEntry> launch_entries();
  /// The value as given, or the default. A key that is set reads "set", whoever asks.
  std::string_view text(std::string_view key) const;
  ConfigSource source(std::string_view key) const;
  /// One line each: what was odd but not fatal (unknown names).
  const std::vector<std::string>& warnings() const { return warnings_; }

  // The settings, typed. See config.cc for their documentation.
  std::chrono::milliseconds timeout{5000};         ///< FOLDCAST_TIMEOUT: of a call in which nothing moves
  std::chrono::milliseconds setup_timeout{30000};  ///< FOLDCAST_SETUP_TIMEOUT
  std::string job_key;                             ///< FOLDCAST_JOB_KEY, or the contents of FOLDCAST_JOB_KEY_FILE
  std::string path = "auto";                       ///< FOLDCAST_PATH: auto | offload | host
  std::string plan;                                ///< FOLDCAST_PLAN: force a plan by name; empty: chosen by price
  std::string transport = "ucx";                   ///< FOLDCAST_TRANSPORT
  std::vector<std::string> rails;                  ///< FOLDCAST_RAILS: devices to stripe over; empty: as UCX picks
  std::string topology;                            ///< FOLDCAST_TOPOLOGY: file in Slurm's topology.conf syntax
  std::string aggregators;                         ///< FOLDCAST_AGGREGATORS: switch=host:port, comma-separated
  std::string aggregator_key_file;                 ///< FOLDCAST_AGGREGATOR_KEY_FILE
  std::uint64_t fragment_bytes = 0;                ///< FOLDCAST_FRAGMENT_BYTES: 0: the plan's own
  std::uint32_t depth = 0;                         ///< FOLDCAST_DEPTH: fragments in flight; 0: the plan's own
  double link_latency_us = 0;                      ///< FOLDCAST_LINK_LATENCY_US: 0: measured
  double link_gbps = 0;                            ///< FOLDCAST_LINK_GBPS: gigabit a second; 0: measured
  std::int64_t spin_us = -1;                       ///< FOLDCAST_SPIN_US: -1: decided from cores and ranks
  bool progress_thread = false;                    ///< FOLDCAST_PROGRESS_THREAD
  std::string wire_format = "exact";               ///< FOLDCAST_WIRE_FORMAT: exact | bfloat16 | float16 | float8
  std::string cross_memory = "auto";               ///< FOLDCAST_CROSS_MEMORY: auto | on | off
  std::string calibration;                         ///< FOLDCAST_CALIBRATION: directory of measured links; off: none
  std::string host_id;                             ///< FOLDCAST_HOST_ID: empty: detected
  std::string hostname;                            ///< FOLDCAST_HOSTNAME: empty: gethostname

 private:
  static Result<Config> build(const std::map<std::string, std::string>& environment, std::string_view toml,
                              std::string_view file);

  std::map<std::string, std::pair<std::string, ConfigSource>, std::less<>> values_;
  std::vector<std::string> warnings_;
};

/// "250ms", "5s", "2min", "1h", or plain milliseconds; fractions are fine, negative times are not.
Result<std::chrono::milliseconds> parse_duration(std::string_view text);
/// Bytes: "4096", "64K", "4M", "1G", also "64KiB"; powers of 1024.
Result<std::uint64_t> parse_size(std::string_view text);
/// A secret from a file, without the line end. Refuses a file that others than its owner can access.
Result<std::string> read_key_file(const std::string& path);

/// "timeout" -> "FOLDCAST_TIMEOUT".
std::string variable_of(std::string_view key);

/// The one of `names` with the least edit distance to `word`, when that is small enough to be a likely typo.
std::optional<std::string_view> nearest_name(std::string_view word, std::span<const std::string_view> names);

}  // namespace foldcast
