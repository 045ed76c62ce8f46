#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "offload/aggregator/group_machine.h"
#include "offload/client/client_machine.h"
#include "offload/protocol/membership.h"

namespace foldcast::offload {

/// One group of the real state machines on a network and a clock that exist only here. Control frames keep their order
/// on their connection; everything else is delayed and reordered at will, from a seed. A message's bytes are read when
/// it is delivered, not when it is sent, so a buffer that is reused too early shows as a wrong sum.
class Simulation {
 public:
  enum class Fault {
    kNone,
    kMemberDies,
    kMemberStops,
    kRefusal,
    kOtherCount,
    kSkippedCall,
    kLeavesEarly,
    kShutdown,
    kLate
  };

  Simulation(std::uint64_t seed, Fault fault);
  /// Runs until everybody is done; what went wrong, or nothing.
  std::string run();

  std::size_t calls_completed() const { return calls_completed_; }
  std::size_t calls_failed() const { return calls_failed_; }
  bool fault_happened() const { return fault_happened_; }
  const std::set<std::string>& reasons() const { return reasons_; }
  const Tree& tree() const { return tree_; }
  std::int32_t victim() const { return victim_; }

 private:
  using Clock = std::chrono::steady_clock;
  using Words = std::vector<std::uint64_t>;
  struct Event {
    Time at;
    std::uint64_t number;
    std::function<void()> run;
    bool operator<(const Event& other) const { return std::tie(other.at, other.number) < std::tie(at, number); }
  };
  /// Vertices are 0 .. V-1, members V .. V+M-1.
  using Node = std::int32_t;
  struct Wire {  ///< a receive or a message on its way
    Node from, to;
    std::uint64_t index;
    auto operator<=>(const Wire&) const = default;
  };
  struct Receive {
    std::uint64_t* target;
    std::size_t room;
    std::function<void(std::size_t words, const Signature&)> done;
  };
  struct Message {
    Words words;
    Signature wire;
  };
  struct Vertex {
    std::unique_ptr<GroupMachine> machine;
    std::vector<Node> links;          ///< by child number
    std::vector<Words> buffers;       ///< slot by slot as a daemon lays them out
    std::set<std::uint64_t*> posted;  ///< buffers with a receive under way
    bool refused = false;
  };
  struct Member {
    std::optional<Membership> membership;
    std::optional<ClientMachine> client;
    std::vector<Words> inputs, outputs;
    std::size_t posted = 0, finished = 0;
    bool dead = false, stopped = false, told = false, over = false;
    Status failure;
  };

  void make_tree();
  void make_calls();
  void at(Time when, std::function<void()> run);
  Time later(int most_us) { return now_ + std::chrono::microseconds(1 + random_() % static_cast<unsigned>(most_us)); }
  void control(Node from, Node to, const ControlFrame& frame);
  void deliver_control(Node from, Node to, const std::string& bytes);
  void lose(Node node, Node neighbour);
  void first_join(Node from, Node to, const Join& join);
  void after(Vertex& vertex, Node self);
  void perform(Vertex& vertex, Node self, const DataAction& action);
  std::uint64_t* buffer(Vertex& vertex, SlotBuffer which, std::uint32_t slot, std::int32_t child);
  void after(Member& member, Node self);
  void post_calls(Member& member);
  void end_member(Member& member, Node self, const ControlFrame& last_word);
  void check_call(Member& member, std::size_t call, const Status& status);
  bool silent(Node node) const;
  void send(Wire wire, std::function<Message()> read, std::function<void()> sent);
  void receive(Wire wire, Receive receive);
  void match(const Wire& wire);
  void strike();
  void tick();
  Time next_time() const;
  bool done() const;
  Node member_node(std::int32_t member) const { return static_cast<Node>(tree_.vertices.size()) + member; }
  Node parent_of(Node node) const;
  void problem(const std::string& what) {
    if (problem_.empty()) problem_ = what;
  }

  const Fault fault_;
  std::mt19937_64 random_;
  Time now_{};
  std::uint64_t next_event_ = 0;
  std::priority_queue<Event> events_;
  Tree tree_;
  std::vector<Vertex> vertices_;
  std::vector<Member> members_;
  std::vector<std::size_t> counts_;  ///< words of each call
  std::map<std::pair<Node, Node>, Time> last_frame_;
  std::multimap<Wire, Message> arrived_;
  std::map<Wire, Receive> waiting_;
  std::uint32_t window_ = 1;
  std::int32_t victim_ = 0;
  std::size_t outstanding_ = 1;
  bool fault_happened_ = false;
  std::size_t calls_completed_ = 0, calls_failed_ = 0;
  std::set<std::string> reasons_;
  std::string problem_;
};

}  // namespace foldcast::offload
