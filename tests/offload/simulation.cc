#include "simulation.h"

#include <algorithm>
#include <cstring>

#include "offload/protocol/data.h"

namespace foldcast::offload {
namespace {

constexpr std::size_t kWords = 8;  // of a fragment
constexpr std::chrono::milliseconds kFragmentTimeout{2000};
constexpr std::uint32_t kGroup = kGroupBit | 1;
/// Virtual. Everything that can happen is over long before: forming 1 s, lease 1 s, fragments 2 s.
constexpr std::chrono::seconds kStuck{60};

Signature signature_of(std::size_t words) {
  return {Collective::kAllReduce, Datatype::kUint64, ReduceOp::kSum, WireFormat::kExact, 0, words};
}

}  // namespace

Simulation::Simulation(std::uint64_t seed, Fault fault) : fault_(fault), random_(seed) {
  now_ = Time(std::chrono::seconds(1000));
  window_ = 1 + random_() % 4;
  outstanding_ = 1 + random_() % 3;
  make_tree();
  victim_ = static_cast<std::int32_t>(random_() % members_.size());
  make_calls();
  for (std::size_t m = 0; m < members_.size(); ++m) {
    const auto member = static_cast<std::int32_t>(m);
    const bool late = fault_ == Fault::kLate && member == victim_;
    if (late) fault_happened_ = true;
    at(late ? now_ + std::chrono::seconds(3) : later(50'000), [this, member] {
      auto& self = members_[member];
      if (self.over) return;
      self.membership.emplace(kGroup, "aggregator above", now_);
      Join join;
      join.group = kGroup;
      join.index = member;
      join.vertex = tree_.parent_of_member[member];
      join.timeout_ms = 1000;
      join.window = 64;
      join.fragment = kWords * 8;
      join.caps.dtypes = GroupCaps::kAllDtypes;
      join.caps.ops = GroupCaps::kAllOps;
      join.address = "m" + std::to_string(member);
      join.tree = tree_;
      control(member_node(member), join.vertex, join);
    });
  }
  const bool early = fault_ == Fault::kMemberDies && random_() % 4 == 0;
  if (fault_ != Fault::kNone) at(later(early ? 60'000 : 400'000), [this] { strike(); });
}

void Simulation::make_tree() {
  const std::size_t vertices = 1 + random_() % 5;
  const std::size_t members = std::max<std::size_t>(vertices, 1 + random_() % 8);
  tree_.vertices.resize(vertices);
  tree_.parent_of_member.resize(members);
  for (std::size_t v = 0; v < vertices; ++v) {
    auto& vertex = tree_.vertices[v];
    vertex.name = "v" + std::to_string(v);
    vertex.control = "h:" + std::to_string(v + 1);
    vertex.parent = v == 0 ? -1 : static_cast<std::int32_t>(random_() % v);
    if (v > 0) tree_.vertices[vertex.parent].children.push_back(static_cast<std::int32_t>(v));
  }
  // The first V members go one to each vertex, in any order, so that none is without children.
  std::vector<std::int32_t> places(vertices);
  for (std::size_t v = 0; v < vertices; ++v) places[v] = static_cast<std::int32_t>(v);
  std::shuffle(places.begin(), places.end(), random_);
  for (std::size_t m = 0; m < members; ++m) {
    const std::int32_t place = m < vertices ? places[m] : static_cast<std::int32_t>(random_() % vertices);
    tree_.parent_of_member[m] = place;
    tree_.vertices[place].members.push_back(static_cast<std::int32_t>(m));
    tree_.hosts.push_back("host" + std::to_string(m));
  }
  vertices_.resize(vertices);
  members_.resize(members);
}

void Simulation::make_calls() {
  const std::size_t calls = 1 + random_() % 6;
  for (std::size_t c = 0; c < calls; ++c) counts_.push_back(random_() % 5 == 0 ? 0 : random_() % (kWords * 12));
  for (auto& member : members_) {
    for (const std::size_t count : counts_) {
      Words words(count);
      for (auto& word : words) word = random_();
      member.inputs.push_back(words);
      // Half of the calls are in place: then the output starts as the input.
      member.outputs.push_back(std::move(words));
    }
  }
}

void Simulation::at(Time when, std::function<void()> run) { events_.push({when, next_event_++, std::move(run)}); }

Simulation::Node Simulation::parent_of(Node node) const {
  const auto vertices = static_cast<Node>(tree_.vertices.size());
  return node < vertices ? tree_.vertices[node].parent : tree_.parent_of_member[node - vertices];
}

void Simulation::control(Node from, Node to, const ControlFrame& frame) {
  auto& last = last_frame_[{from, to}];
  last = std::max(last, later(2000)) + std::chrono::nanoseconds(1);
  at(last, [this, from, to, bytes = encode(frame)] { deliver_control(from, to, bytes); });
}

void Simulation::deliver_control(Node from, Node to, const std::string& bytes) {
  auto frame = decode(bytes);
  if (!frame.ok()) return problem("undecodable frame: " + frame.status().to_string());
  const auto vertices = static_cast<Node>(vertices_.size());
  if (to >= vertices) {
    auto& member = members_[to - vertices];
    if (member.dead || member.stopped || member.over) return;
    member.membership->on_frame(*frame, now_);
    return after(member, to);
  }
  auto& vertex = vertices_[to];
  if (const auto* join = std::get_if<Join>(&*frame)) return first_join(from, to, *join);
  if (!vertex.machine) return;
  if (from < vertices && tree_.vertices[to].parent == from) {
    vertex.machine->on_frame(kParent, *frame, now_);
  } else {
    const auto link = std::find(vertex.links.begin(), vertex.links.end(), from);
    if (link == vertex.links.end()) return;
    vertex.machine->on_frame(static_cast<std::int32_t>(link - vertex.links.begin()), *frame, now_);
  }
  after(vertex, to);
}

/// What the daemon does with a join.
void Simulation::first_join(Node from, Node to, const Join& join) {
  auto& vertex = vertices_[to];
  if (vertex.refused || (vertex.machine && vertex.machine->ended())) {
    return control(to, from, Error{kGroup, Code::kResourceExhausted, "aggregator is full"});
  }
  if (!vertex.machine) {
    AggregatorTraits traits;
    traits.window = window_ + random_() % 2;
    traits.fragment = kWords * 8;
    traits.lease = std::chrono::milliseconds(1000);
    traits.caps.dtypes = GroupCaps::kAllDtypes;
    traits.caps.ops = GroupCaps::kAllOps;
    vertex.machine = std::make_unique<GroupMachine>(join, traits, "v" + std::to_string(to), now_);
    vertex.links.resize(vertex.machine->children(), -1);
  }
  const auto number = vertex.machine->on_join(join, now_);
  if (number.ok()) {
    vertex.links[*number] = from;
  } else {
    control(to, from, Error{kGroup, number.status().code(), number.status().message()});
  }
  after(vertex, to);
}

std::uint64_t* Simulation::buffer(Vertex& vertex, SlotBuffer which, std::uint32_t slot, std::int32_t child) {
  const std::size_t children = vertex.machine->children();
  std::size_t position = static_cast<std::size_t>(child);
  if (which == SlotBuffer::kSum) position = children;
  if (which == SlotBuffer::kResult) position = children + 1;
  return vertex.buffers[slot * (children + 2) + position].data();
}

void Simulation::perform(Vertex& vertex, Node self, const DataAction& action) {
  auto& machine = *vertex.machine;
  auto* words = buffer(vertex, action.buffer, action.slot, std::max(action.party, 0));
  const bool up = action.party == kParent;
  const Node other = up ? tree_.vertices[self].parent : vertex.links[std::max(action.party, 0)];
  switch (action.kind) {
    case DataAction::Kind::kReduce:
      for (std::size_t i = 0; i < action.bytes / 8; ++i) {
        words[i] = 0;
        for (std::size_t c = 0; c < machine.children(); ++c) {
          words[i] += buffer(vertex, SlotBuffer::kLanding, action.slot, static_cast<std::int32_t>(c))[i];
        }
      }
      break;
    case DataAction::Kind::kSend:
      send(
          {self, other, action.index},
          [words, action] {
            return Message{Words(words, words + action.bytes / 8), action.wire};
          },
          [this, &vertex, self, slot = action.slot] {
            vertex.machine->on_sent(slot);
            after(vertex, self);
          });
      break;
    case DataAction::Kind::kReceive:
      if (!vertex.posted.insert(words).second) problem("two receives into one buffer of v" + std::to_string(self));
      receive({other, self, action.index},
              {words, kWords, [this, &vertex, self, words, action, up](std::size_t size, const Signature& wire) {
                 vertex.posted.erase(words);
                 if (up) {
                   vertex.machine->on_result(action.slot, size * 8, wire);
                 } else {
                   vertex.machine->on_contribution(action.party, action.slot, size * 8, wire);
                 }
                 after(vertex, self);
               }});
      break;
  }
}

/// What the daemon does after every event: control and data actions until there are none.
void Simulation::after(Vertex& vertex, Node self) {
  auto& machine = *vertex.machine;
  while (machine.has_control()) {
    for (auto& action : machine.take_control()) {
      if (action.kind == ControlAction::Kind::kStart) {
        const std::size_t buffers = machine.window() * (machine.children() + 2);
        if (buffers * kWords * 8 > std::size_t{window_ + 1} * kWords * 8 * (machine.children() + 2)) {
          problem("more memory than granted");
        }
        vertex.buffers.assign(buffers, Words(kWords));
        machine.started(now_);
      } else if (action.kind != ControlAction::Kind::kEnd) {
        const Node to = action.party == kParent ? tree_.vertices[self].parent : vertex.links[action.party];
        control(self, to, action.frame);
      }
    }
  }
  if (!machine.failure().ok()) reasons_.insert(machine.failure().message());
  if (!machine.active()) return;
  const std::vector<DataAction> actions(machine.slots().actions().begin(), machine.slots().actions().end());
  machine.slots().clear_actions();
  for (const auto& action : actions) perform(vertex, self, action);
}

void Simulation::post_calls(Member& member) {
  const std::size_t self = static_cast<std::size_t>(&member - members_.data());
  while (member.posted < counts_.size() && member.posted - member.finished < outstanding_) {
    const std::size_t call = member.posted++;
    const bool victim = static_cast<std::int32_t>(self) == victim_ && fault_happened_;
    std::size_t count = counts_[call];
    std::size_t sequence = call;
    if (fault_ == Fault::kOtherCount && victim && count > 0) --count;
    if (fault_ == Fault::kSkippedCall && victim) ++sequence;
    EngineCall post;
    post.verb = Verb::kAllReduce;
    post.count = count;
    post.signature = signature_of(count);
    post.key.sequence = sequence;
    post.output = reinterpret_cast<std::byte*>(member.outputs[call].data());
    const bool in_place = call % 2 == 0;
    post.input = in_place ? post.output : reinterpret_cast<std::byte*>(member.inputs[call].data());
    if (!member.client->post(post, call, now_)) problem("no room for a call");
  }
}

void Simulation::check_call(Member& member, std::size_t call, const Status& status) {
  if (!status.ok()) {
    ++calls_failed_;
    reasons_.insert(status.message());
    return;
  }
  ++calls_completed_;
  for (std::size_t i = 0; i < counts_[call]; ++i) {
    std::uint64_t expected = 0;
    for (const auto& other : members_) expected += other.inputs[call][i];
    if (member.outputs[call][i] != expected) return problem("wrong sum in call " + std::to_string(call));
  }
}

void Simulation::end_member(Member& member, Node self, const ControlFrame& last_word) {
  if (std::exchange(member.told, true)) return;
  member.over = true;
  control(self, parent_of(self), last_word);
}

/// What a member's group does after every event.
void Simulation::after(Member& member, Node self) {
  if (member.dead || member.stopped || member.over) return;
  if (member.membership->grant() && !member.client) {
    const auto& grant = *member.membership->grant();
    if (grant.window > window_ + 1) problem("a larger window than any aggregator has");
    member.client.emplace(grant.window, grant.fragment, kFragmentTimeout, "aggregator above");
  }
  if (member.membership->ended() && member.failure.ok()) {
    member.failure = member.membership->failure();
    reasons_.insert(member.failure.message());
    if (member.client) member.client->fail(member.failure);
  }
  if (!member.client) {
    if (!member.failure.ok()) member.over = true;
    return;
  }
  post_calls(member);
  const Node parent = parent_of(self);
  const std::vector<ClientAction> actions(member.client->actions().begin(), member.client->actions().end());
  member.client->clear_actions();
  for (const auto& action : actions) {
    if (action.kind == ClientAction::Kind::kSend) {
      send(
          {self, parent, action.index},
          [action] {
            Message message{Words(action.bytes / 8), action.wire};
            if (action.bytes > 0) std::memcpy(message.words.data(), action.input, action.bytes);
            return message;
          },
          [this, &member, self, slot = action.slot] {
            member.client->on_sent(slot, now_);
            after(member, self);
          });
    } else {
      receive({parent, self, action.index},
              {reinterpret_cast<std::uint64_t*>(action.output), action.bytes / 8,
               [this, &member, self, action](std::size_t words, const Signature& wire) {
                 if (wire != action.wire) problem("a result of another call");
                 member.client->on_result(action.slot,
                                          {.cookie = 0, .status = {}, .bytes = words * 8, .signature = wire}, now_);
                 after(member, self);
               }});
    }
  }
  Completion completions[4];
  for (std::size_t n = 0; (n = member.client->take_completions(completions)) > 0;) {
    for (std::size_t i = 0; i < n; ++i) {
      ++member.finished;
      check_call(member, completions[i].cookie, completions[i].status);
    }
  }
  if (!member.client->failure().ok()) {
    end_member(member, self, Error{kGroup, Code::kAborted, "a member gave the group up"});
  } else if (member.finished == counts_.size()) {
    end_member(member, self, Leave{kGroup});
  } else if (member.posted < counts_.size() && member.posted - member.finished < outstanding_) {
    at(later(500), [this, &member, self] { after(member, self); });
  }
}

/// Whether `node` no longer sends.
bool Simulation::silent(Node node) const {
  const auto vertices = static_cast<Node>(vertices_.size());
  if (node < vertices) return vertices_[node].machine->ended();
  const auto& member = members_[node - vertices];
  return member.dead || member.stopped || (member.over && !member.client->failure().ok());
}

void Simulation::send(Wire wire, std::function<Message()> read, std::function<void()> sent) {
  at(later(3000), [this, wire, read = std::move(read), sent = std::move(sent)] {
    if (silent(wire.from)) return;
    arrived_.emplace(wire, read());
    match(wire);
    at(later(2000), [this, wire, sent] {
      if (!silent(wire.from)) sent();
    });
  });
}

void Simulation::receive(Wire wire, Receive receive) {
  if (!waiting_.emplace(wire, std::move(receive)).second) problem("two receives for one message");
  match(wire);
}

void Simulation::match(const Wire& wire) {
  const auto message = arrived_.find(wire);
  const auto waiting = waiting_.find(wire);
  if (message == arrived_.end() || waiting == waiting_.end()) return;
  at(later(500), [this, receive = std::move(waiting->second), message = std::move(message->second), wire] {
    const auto vertices = static_cast<Node>(vertices_.size());
    if (wire.to < vertices ? vertices_[wire.to].machine->ended() : members_[wire.to - vertices].over) return;
    if (wire.to >= vertices && (members_[wire.to - vertices].dead || members_[wire.to - vertices].stopped)) return;
    if (message.words.size() > receive.room) return problem("a message larger than its receive");
    std::copy(message.words.begin(), message.words.end(), receive.target);
    receive.done(message.words.size(), message.wire);
  });
  arrived_.erase(message);
  waiting_.erase(waiting);
}

void Simulation::lose(Node node, Node neighbour) {
  at(later(5000), [this, node, neighbour] {
    auto& vertex = vertices_[neighbour];
    if (!vertex.machine) return;
    const auto link = std::find(vertex.links.begin(), vertex.links.end(), node);
    if (link == vertex.links.end()) return;
    const auto child = static_cast<std::int32_t>(link - vertex.links.begin());
    if (random_() % 2 == 0) vertex.machine->on_data_lost(child, peer_failed("data connection closed"), now_);
    at(later(20'000), [this, &vertex, neighbour, child] {
      vertex.machine->on_link_lost(child, peer_failed("connection closed"));
      after(vertex, neighbour);
    });
    after(vertex, neighbour);
  });
}

void Simulation::strike() {
  auto& victim = members_[victim_];
  const Node node = member_node(victim_);
  if (victim.over) return;
  switch (fault_) {
    case Fault::kMemberDies:
      victim.dead = true;
      lose(node, parent_of(node));
      break;
    case Fault::kMemberStops:
      victim.stopped = true;
      break;
    case Fault::kRefusal: {
      auto& vertex = vertices_[random_() % vertices_.size()];
      if (vertex.machine) return;
      vertex.refused = true;
      break;
    }
    case Fault::kOtherCount:
    case Fault::kSkippedCall:
      break;
    case Fault::kLeavesEarly:
      if (!victim.client || !victim.client->idle()) {
        at(later(3000), [this] { strike(); });
        return;
      }
      end_member(victim, node, Leave{kGroup});
      break;
    case Fault::kShutdown: {
      const auto v = static_cast<Node>(random_() % vertices_.size());
      if (!vertices_[v].machine || vertices_[v].machine->ended()) return;
      vertices_[v].machine->farewell("aggregator is shutting down");
      after(vertices_[v], v);
      break;
    }
    case Fault::kNone:
    case Fault::kLate:
      return;
  }
  fault_happened_ = true;
}

Time Simulation::next_time() const {
  Time next = Time::max();
  for (const auto& vertex : vertices_) {
    if (vertex.machine) next = std::min(next, vertex.machine->next_time());
  }
  for (const auto& member : members_) {
    if (member.dead || member.stopped || member.over || !member.membership) continue;
    next = std::min(next, member.membership->next_time());
    if (member.client) next = std::min(next, member.client->deadline());
  }
  return next;
}

void Simulation::tick() {
  for (std::size_t v = 0; v < vertices_.size(); ++v) {
    if (!vertices_[v].machine) continue;
    vertices_[v].machine->on_time(now_);
    after(vertices_[v], static_cast<Node>(v));
  }
  for (std::size_t m = 0; m < members_.size(); ++m) {
    auto& member = members_[m];
    if (member.dead || member.stopped || member.over || !member.membership) continue;
    const Node node = member_node(static_cast<std::int32_t>(m));
    if (const auto renewal = member.membership->on_time(now_)) control(node, parent_of(node), *renewal);
    if (member.client) member.client->on_time(now_);
    after(member, node);
  }
}

bool Simulation::done() const {
  return std::all_of(members_.begin(), members_.end(), [](const Member& m) { return m.over || m.dead || m.stopped; }) &&
         std::all_of(vertices_.begin(), vertices_.end(),
                     [](const Vertex& v) { return !v.machine || v.machine->ended(); });
}

std::string Simulation::run() {
  const Time limit = now_ + kStuck;
  while (!done() && problem_.empty()) {
    const Time timer = next_time();
    const Time event = events_.empty() ? Time::max() : events_.top().at;
    now_ = std::max(now_, std::min(timer, event));
    if (now_ > limit) return "stuck: somebody still waits after a minute";
    if (event <= timer) {
      const auto run = events_.top().run;
      events_.pop();
      run();
    } else {
      tick();
    }
  }
  return problem_;
}

}  // namespace foldcast::offload
