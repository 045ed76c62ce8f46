#include "offload/aggregator/group_machine.h"

#include <algorithm>
#include <utility>

namespace foldcast::offload {
namespace {

/// Forming longer than this holds quota for people who are not there.
constexpr std::uint32_t kMaxForming = 60'000;

std::string in_ms(std::chrono::milliseconds time) { return std::to_string(time.count()) + " ms"; }

}  // namespace

GroupMachine::GroupMachine(const Join& join, AggregatorTraits traits, std::string address, Time now)
    : traits_(std::move(traits)),
      address_(std::move(address)),
      group_(join.group),
      incarnation_(join.incarnation),
      job_token_(join.job_token),
      job_(join.job),
      tree_(join.tree),
      vertex_(join.vertex),
      window_(std::min(traits_.window, join.window)),
      fragment_(std::min(traits_.fragment, join.fragment)),
      caps_(traits_.caps),
      timeout_ms_(std::min(join.timeout_ms, kMaxForming)) {
  forming_until_ = now + std::chrono::milliseconds(timeout_ms_);
  const auto& vertex = tree_.vertices[vertex_];
  for (const std::int32_t member : vertex.members) children_.push_back({.kind = ChildKind::kMember, .index = member});
  for (const std::int32_t child : vertex.children) {
    children_.push_back({.kind = ChildKind::kAggregator, .index = child});
  }
}

std::string GroupMachine::party_name(std::int32_t party) const {
  if (party == kParent) return "aggregator " + tree_.vertices[tree_.vertices[vertex_].parent].name;
  const auto& child = children_[party];
  if (child.kind == ChildKind::kMember) return tree_.member_name(child.index);
  return "aggregator " + tree_.vertices[child.index].name;
}

std::int32_t GroupMachine::child_number(ChildKind kind, std::int32_t index) const {
  for (std::size_t i = 0; i < children_.size(); ++i) {
    if (children_[i].kind == kind && children_[i].index == index) return static_cast<std::int32_t>(i);
  }
  return kParent;
}

Status GroupMachine::check_same(const Join& join) const {
  if (join.tree == tree_ && join.vertex == vertex_) return ok_status();
  const std::string who = join.kind == ChildKind::kMember ? join.tree.member_name(join.index)
                                                          : "aggregator " + join.tree.vertices[join.index].name;
  return mismatch(who + " joined with the tree " + join.tree.describe() + " at " +
                  join.tree.vertices[join.vertex].name + ", the others with " + tree_.describe() + " at " +
                  tree_.vertices[vertex_].name +
                  ": all ranks must see the same topology file and FOLDCAST_AGGREGATORS");
}

Result<std::int32_t> GroupMachine::on_join(const Join& join, Time now) {
  if (state_ != State::kForming) {
    return unavailable("aggregator " + tree_.vertices[vertex_].name + ": group " + std::to_string(group_) +
                       " is complete; nobody can join it any more");
  }
  if (Status same = check_same(join); !same.ok()) {
    fail(same);
    return same.with_context("aggregator " + tree_.vertices[vertex_].name);
  }
  // check_join of the decoder and check_same make sure that there is such a child.
  const std::int32_t number = child_number(join.kind, join.index);
  auto& child = children_[number];
  if (child.joined) {
    return unavailable("aggregator " + tree_.vertices[vertex_].name + ": " + party_name(number) +
                       " has joined already; is another job using the same job token?");
  }
  child.joined = true;
  child.heard = now;
  child.address = join.address;
  window_ = std::min(window_, join.window);
  fragment_ = std::min(fragment_, join.fragment);
  caps_ = intersect(caps_, join.caps);
  if (std::all_of(children_.begin(), children_.end(), [](const Child& c) { return c.joined; })) all_joined(now);
  return number;
}

void GroupMachine::all_joined(Time now) {
  if (root()) {
    caps_.depth = tree_.depth();
    state_ = State::kStarting;
    control_.push_back({ControlAction::Kind::kStart, kParent, {}});
    return;
  }
  Join join;
  join.group = group_;
  join.incarnation = incarnation_;
  join.job_token = job_token_;
  join.kind = ChildKind::kAggregator;
  join.index = vertex_;
  join.vertex = tree_.vertices[vertex_].parent;
  // Less patience the higher up: the root, which knows best who is missing, gives up first and tells the others.
  join.timeout_ms = std::max(1u, timeout_ms_ / 4 * 3);
  join.window = window_;
  join.fragment = fragment_;
  join.caps = caps_;
  join.address = address_;
  join.job = job_;
  join.tree = tree_;
  parent_.emplace(group_, party_name(kParent), now);
  control_.push_back({ControlAction::Kind::kConnect, kParent, std::move(join)});
}

void GroupMachine::started(Time now) {
  if (state_ != State::kStarting) return;
  slots_ = SlotMachine(window_, static_cast<std::uint32_t>(children_.size()), root(), caps_);
  slots_.start();
  state_ = State::kActive;
  Grant grant{group_, window_, fragment_, static_cast<std::uint32_t>(traits_.lease.count()), caps_, address_};
  for (std::size_t i = 0; i < children_.size(); ++i) {
    children_[i].heard = now;  // nobody renews before the grant
    send(static_cast<std::int32_t>(i), grant);
  }
}

void GroupMachine::on_frame(std::int32_t party, const ControlFrame& frame, Time now) {
  if (state_ == State::kEnded) return;
  if (party == kParent) return on_parent_frame(frame, now);
  children_[party].heard = now;
  if (const std::string astray = misdirected(frame, group_); !astray.empty()) {
    return fail(internal_error(party_name(party) + " sent " + astray));
  }
  if (const auto* error = std::get_if<Error>(&frame)) {
    // An aggregator's reason names whom it is about; a member's is about itself.
    const bool from_member = children_[party].kind == ChildKind::kMember;
    return fail(Status(error->code, from_member ? party_name(party) + ": " + error->reason : error->reason));
  }
  if (const auto* bye = std::get_if<Farewell>(&frame)) return fail(peer_failed(party_name(party) + ": " + bye->reason));
  if (std::holds_alternative<Renew>(frame)) return send(party, Renew{group_});
  if (std::holds_alternative<Leave>(frame)) return child_left(party, now);
  fail(internal_error(party_name(party) + " sent a " + std::string(name_of(frame)) + " frame out of turn"));
}

void GroupMachine::on_parent_frame(const ControlFrame& frame, Time now) {
  parent_->on_frame(frame, now);
  if (parent_->ended()) return fail(parent_->failure());
  if (state_ != State::kForming || !parent_->grant()) return;
  const Grant& grant = *parent_->grant();
  if (grant.window > window_ || grant.fragment > fragment_) {
    return fail(internal_error(party_name(kParent) + " granted more than was asked"));
  }
  window_ = grant.window;
  fragment_ = grant.fragment;
  caps_ = grant.caps;
  state_ = State::kStarting;
  control_.push_back({ControlAction::Kind::kStart, kParent, {}});
}

void GroupMachine::child_left(std::int32_t child, Time now) {
  children_[child].left = true;
  if (suspect_ && suspect_->party == child) suspect_.reset();
  if (state_ != State::kActive) return fail(peer_failed(party_name(child) + " left before the group was complete"));
  if (!all_left() && std::all_of(children_.begin(), children_.end(), [](const Child& c) { return c.left; })) {
    // Nobody is left to be told, so nothing that a parent or a transport still owes may keep the group for ever.
    ends_by_ = now + traits_.lease;
    if (!root()) send(kParent, Leave{group_});
  }
  check_slots();
}

/// After a child left: whether it is still needed, and whether anybody is left to serve.
void GroupMachine::check_slots() {
  for (std::size_t i = 0; i < children_.size(); ++i) {
    if (children_[i].left && slots_.waits_for(static_cast<std::int32_t>(i))) {
      return fail(peer_failed(party_name(static_cast<std::int32_t>(i)) + " left the group while others still use it"));
    }
  }
  if (all_left() && slots_.quiet()) {
    state_ = State::kEnded;
    control_.push_back({ControlAction::Kind::kEnd, kParent, {}});
  }
}

void GroupMachine::on_contribution(std::int32_t child, std::uint32_t slot, std::uint64_t bytes, const Signature& wire) {
  if (state_ != State::kActive) return;
  const auto dispute = slots_.on_contribution({child, slot, bytes, wire}, fragment_);
  if (dispute.exists) {
    const std::string first = party_name(dispute.first) + " called " + dispute.first_says;
    if (dispute.second == kParent) return fail(mismatch(first));
    return fail(mismatch(first + ", but " + party_name(dispute.second) + " called " + dispute.second_says));
  }
  if (std::any_of(children_.begin(), children_.end(), [](const Child& c) { return c.left; })) check_slots();
}

void GroupMachine::on_result(std::uint32_t slot, std::uint64_t bytes, const Signature& wire) {
  if (state_ != State::kActive) return;
  const auto dispute = slots_.on_result(slot, bytes, wire);
  if (dispute.exists) fail(internal_error(party_name(kParent) + " sent " + dispute.first_says));
}

void GroupMachine::on_sent(std::uint32_t slot) {
  if (state_ != State::kActive) return;
  slots_.on_sent(slot);
  if (all_left()) check_slots();
}

void GroupMachine::on_link_lost(std::int32_t party, const Status& why) {
  if (state_ == State::kEnded) return;
  if (party == kParent ? all_left() : children_[party].left) return;
  fail(Status(party == kParent && state_ == State::kForming ? why.code() : Code::kPeerFailed,
              party_name(party) + " is gone: " + why.message()));
}

void GroupMachine::on_data_lost(std::int32_t party, const Status& why, Time now) {
  if (state_ != State::kActive || suspect_) return;
  if (party == kParent ? all_left() : children_[party].left) return;
  suspect_ = {party, Status(why.code(), party_name(party) + ": " + why.message()), now + kHearsay};
}

void GroupMachine::on_time(Time now) {
  if (state_ == State::kEnded) return;
  if (state_ != State::kActive) {
    if (now >= forming_until_)
      fail(timeout("no complete group after " + std::to_string(timeout_ms_) + " ms: waiting for " + missing()));
    return;
  }
  if (suspect_ && now >= suspect_->until) return fail(suspect_->why);
  for (std::size_t i = 0; i < children_.size(); ++i) {
    if (!children_[i].left && now >= children_[i].heard + traits_.lease) {
      return fail(peer_failed(party_name(static_cast<std::int32_t>(i)) + " let its lease expire (silent for " +
                              in_ms(traits_.lease) + ")"));
    }
  }
  if (now >= ends_by_) {
    return fail(timeout("all have left the group, but what was sent to them or awaited from above did not end within " +
                        in_ms(traits_.lease)));
  }
  if (root() || all_left()) return;
  if (auto renewal = parent_->on_time(now)) send(kParent, *std::move(renewal));
  if (parent_->ended()) fail(parent_->failure());
}

Time GroupMachine::next_time() const {
  if (state_ == State::kEnded) return Time::max();
  if (state_ != State::kActive) return forming_until_;
  Time next = suspect_ ? std::min(suspect_->until, ends_by_) : ends_by_;
  for (const auto& child : children_) {
    if (!child.left) next = std::min(next, child.heard + traits_.lease);
  }
  return root() || all_left() ? next : std::min(next, parent_->next_time());
}

std::string GroupMachine::missing() const {
  std::string names;
  std::size_t count = 0;
  for (std::size_t i = 0; i < children_.size(); ++i) {
    if (children_[i].joined) continue;
    if (++count <= 8) names += (names.empty() ? "" : ", ") + party_name(static_cast<std::int32_t>(i));
  }
  if (count > 8) names += " and " + std::to_string(count - 8) + " more";
  return count > 0 ? names : "the grant of " + party_name(kParent);
}

void GroupMachine::fail(const Status& why) {
  if (state_ == State::kEnded) return;
  // Only the first aggregator that notices puts its name before the reason.
  std::string reason = why.message();
  if (!reason.starts_with("aggregator ")) reason = "aggregator " + tree_.vertices[vertex_].name + ": " + reason;
  end(Status(why.code(), reason), Error{group_, why.code(), reason});
}

void GroupMachine::farewell(const std::string& reason) {
  if (state_ == State::kEnded) return;
  end(peer_failed(reason), Farewell{group_, reason});
}

void GroupMachine::end(const Status& why, const ControlFrame& last_word) {
  state_ = State::kEnded;
  failure_ = why;
  control_.clear();  // grants and joins that have not gone out yet must not
  for (std::size_t i = 0; i < children_.size(); ++i) {
    if (children_[i].joined && !children_[i].left) send(static_cast<std::int32_t>(i), last_word);
  }
  // Upward a farewell is an error: the parent's group ends with it.
  if (parent_ && !all_left()) send(kParent, Error{group_, why.code(), why.message()});
  control_.push_back({ControlAction::Kind::kEnd, kParent, {}});
}

void GroupMachine::send(std::int32_t party, ControlFrame frame) {
  control_.push_back({ControlAction::Kind::kSend, party, std::move(frame)});
}

std::vector<ControlAction> GroupMachine::take_control() { return std::exchange(control_, {}); }

}  // namespace foldcast::offload
