#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/deadline.h"
#include "core/base/status.h"
#include "core/bootstrap/roster.h"

namespace foldcast::bootstrap {

/// One rank's part in an agreement.
struct Contribution {
  int rank = 0;
  std::uint32_t request = 0;  ///< given back with the answer
  std::string name;
  std::vector<int> members;
  std::string value;
  Deadline deadline = Deadline::never();
  bool alive_only = false;  ///< members that are gone are left out: see Store::gather_alive
};

/// Who is to hear which answer.
struct AgreementAnswer {
  int rank = 0;
  std::uint32_t request = 0;
  std::shared_ptr<const Result<std::vector<std::string>>> answer;
};

/// The server's side of Store::gather: for each name, collects one value of every member and decides *once*: all
/// values, or an error, as soon as a member is known not to come (failed, left, differs in its list of members; or, of
/// the alive only, all values of those that are there, each behind a "+") or the earliest of the members' deadlines
/// passes. Whoever waits or comes later gets that same answer. A decision is forgotten when every member has heard it
/// or is gone. Does no I/O; not thread-safe.
class AgreementTable {
 public:
  /// `roster` must outlive the table. `max_bytes`: of all values of one agreement together.
  AgreementTable(const Roster& roster, std::size_t max_bytes) : roster_(roster), max_bytes_(max_bytes) {}

  void contribute(Contribution contribution);
  /// After the roster says that `rank` failed or left.
  void rank_gone(int rank);
  void expire(Deadline::Clock::time_point now);
  /// When expire() has something to do next.
  Deadline next_deadline() const;
  /// What was decided since the last call.
  std::vector<AgreementAnswer> take_answers() { return std::exchange(answers_, {}); }

 private:
  struct Round {
    std::vector<int> members;
    Deadline::Clock::time_point started;
    Deadline deadline = Deadline::never();
    bool alive_only = false;
    std::map<int, std::string> values;
    std::map<int, std::uint32_t> waiting;  ///< rank to request
    std::vector<int> heard;
    std::shared_ptr<const Result<std::vector<std::string>>> decision;
  };
  using Rounds = std::map<std::string, Round, std::less<>>;

  void decide(Round& round, Result<std::vector<std::string>> decision);
  /// Hands the decision to all that wait for it.
  void deliver(Round& round);
  void decide_if_settled(const std::string& name, Round& round);
  bool is_over(const Round& round) const;
  std::string list(const std::vector<int>& ranks) const;

  const Roster& roster_;
  const std::size_t max_bytes_;
  Rounds rounds_;
  std::vector<AgreementAnswer> answers_;
};

}  // namespace foldcast::bootstrap
