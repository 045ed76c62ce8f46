#include "core/bootstrap/agreement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace foldcast::bootstrap {
namespace {

constexpr std::size_t kMostNamed = 8;

bool contains(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

}  // namespace

std::string Roster::describe(int rank) const {
  if (!contains(rank)) return fmt::format("rank {}", rank);
  const Entry& entry = (*this)[rank];
  if (entry.state != RankState::kAbsent) return fmt::format("rank {} ({})", rank, entry.name);
  return fmt::format("rank {} ({})", rank, entry.note.empty() ? "never connected" : entry.note);
}

int Roster::first_failed() const {
  for (int rank = 0; rank < size(); ++rank) {
    if ((*this)[rank].state == RankState::kFailed) return rank;
  }
  return -1;
}

int Roster::count(RankState state) const {
  return static_cast<int>(std::count_if(entries_.begin(), entries_.end(), [&](auto& e) { return e.state == state; }));
}

void AgreementTable::contribute(Contribution contribution) {
  const std::string& name = contribution.name;
  int rank = contribution.rank;
  auto [entry, is_new] = rounds_.try_emplace(name);
  Round& round = entry->second;
  if (is_new) {
    round.members = contribution.members;
    round.started = Deadline::Clock::now();
    round.alive_only = contribution.alive_only;
  }
  bool came_before = round.waiting.contains(rank) || contains(round.heard, rank);
  round.waiting[rank] = contribution.request;
  const bool differs = round.members != contribution.members || round.alive_only != contribution.alive_only;
  if (!round.decision && differs) {
    decide(round,
           mismatch(fmt::format("agreement \"{}\": {} lists members [{}], others [{}]", name, roster_.describe(rank),
                                fmt::join(contribution.members, " "), fmt::join(round.members, " "))));
  } else if (!round.decision && came_before) {
    decide(round, mismatch(fmt::format("agreement \"{}\": {} came twice", name, roster_.describe(rank))));
  } else if (!round.decision) {
    round.values[rank] = (round.alive_only ? "+" : "") + contribution.value;
    if (contribution.deadline.at() < round.deadline.at()) round.deadline = contribution.deadline;
    decide_if_settled(name, round);
  } else {
    deliver(round);
  }
  if (is_over(round)) rounds_.erase(entry);
}

void AgreementTable::decide(Round& round, Result<std::vector<std::string>> decision) {
  round.decision = std::make_shared<const Result<std::vector<std::string>>>(std::move(decision));
  round.values.clear();
  deliver(round);
}

void AgreementTable::deliver(Round& round) {
  for (auto [rank, request] : round.waiting) {
    answers_.push_back({rank, request, round.decision});
    round.heard.push_back(rank);
  }
  round.waiting.clear();
}

void AgreementTable::decide_if_settled(const std::string& name, Round& round) {
  std::size_t gone = 0;
  for (int member : round.members) {
    const auto& entry = roster_[member];
    const bool is_gone = entry.state == RankState::kFailed || entry.state == RankState::kLeft;
    if (is_gone && round.alive_only) {
      round.values.erase(member);
      ++gone;
      continue;
    }
    if (entry.state == RankState::kFailed) {
      return decide(round, peer_failed(fmt::format("agreement \"{}\": {} failed: {}", name, roster_.describe(member),
                                                   entry.note)));
    }
    if (entry.state == RankState::kLeft) {
      return decide(round,
                    peer_failed(fmt::format("agreement \"{}\": {} has left the job", name, roster_.describe(member))));
    }
  }
  std::size_t bytes = 0;
  for (const auto& [rank, value] : round.values) bytes += value.size() + sizeof(std::uint32_t);
  if (bytes > max_bytes_) {
    return decide(round, Status(Code::kResourceExhausted,
                                fmt::format("agreement \"{}\": the values of its {} members have more than {} bytes",
                                            name, round.members.size(), max_bytes_)));
  }
  if (round.values.size() + gone < round.members.size()) return;
  std::vector<std::string> values;
  for (int member : round.members) values.push_back(std::move(round.values[member]));
  decide(round, std::move(values));
}

void AgreementTable::rank_gone(int rank) {
  for (auto entry = rounds_.begin(); entry != rounds_.end();) {
    auto& [name, round] = *entry;
    round.waiting.erase(rank);
    if (!round.decision && contains(round.members, rank)) decide_if_settled(name, round);
    entry = is_over(round) ? rounds_.erase(entry) : std::next(entry);
  }
}

void AgreementTable::expire(Deadline::Clock::time_point now) {
  for (auto entry = rounds_.begin(); entry != rounds_.end();) {
    auto& [name, round] = *entry;
    if (!round.decision && round.deadline.at() <= now) {
      std::vector<int> missing;
      for (int member : round.members) {
        if (!round.values.contains(member)) missing.push_back(member);
      }
      decide(round, timeout(fmt::format("agreement \"{}\": waited {:.1f} s for {}", name,
                                        std::chrono::duration<double>(now - round.started).count(), list(missing))));
    }
    entry = is_over(round) ? rounds_.erase(entry) : std::next(entry);
  }
}

Deadline AgreementTable::next_deadline() const {
  Deadline next = Deadline::never();
  for (const auto& [name, round] : rounds_) {
    if (!round.decision && round.deadline.at() < next.at()) next = round.deadline;
  }
  return next;
}

bool AgreementTable::is_over(const Round& round) const {
  return round.decision && std::all_of(round.members.begin(), round.members.end(), [&](int member) {
           auto state = roster_[member].state;
           return state == RankState::kFailed || state == RankState::kLeft || contains(round.heard, member);
         });
}

std::string AgreementTable::list(const std::vector<int>& ranks) const {
  std::string text;
  for (std::size_t i = 0; i < ranks.size() && i < kMostNamed; ++i) {
    text += (i == 0 ? "" : ", ") + roster_.describe(ranks[i]);
  }
  if (ranks.size() > kMostNamed) text += fmt::format(" and {} more", ranks.size() - kMostNamed);
  return text;
}

}  // namespace foldcast::bootstrap
