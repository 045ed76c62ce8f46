#pragma once

#include <optional>
#include <string>

#include "core/base/status.h"
#include "core/select/link_model.h"
#include "hierarchy/topology.h"

namespace foldcast::select {

/// Measured links that outlive their job: one small TOML file for each shape of job, named by a hash of what the
/// numbers depend on (hosts, ranks on each, cores, transport, tree).
class CalibrationFile {
 public:
  /// `directory` as FOLDCAST_CALIBRATION: empty: the user's cache directory; "off": none. `tree` describes the joined
  /// tree, if any.
  CalibrationFile(const std::string& directory, const hierarchy::Layout& layout, const std::string& transport,
                  const std::string& tree);

  /// Empty where nothing is kept.
  const std::string& path() const { return path_; }
  /// The measured numbers put into `model`; nothing when there is no file or it is damaged.
  std::optional<LinkModel> load(LinkModel model) const;
  /// Replaces the file as a whole. Failing costs the next job its measuring, no more.
  Status save(const LinkModel& model) const;

 private:
  std::string path_;
};

}  // namespace foldcast::select
