// Every collective through the whole host path: layouts, roots, counts, in place, uneven blocks, groups of calls.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <random>

#include "core/api/call_group.h"
#include "tests/core/api/job.h"

namespace foldcast {
namespace {

using api::CallGroup;
using api::CollectiveCall;
using api::Communicator;
using testing::Job;
using testing::uniform_nodes;
using Values = std::vector<std::int32_t>;

const std::map<std::string, std::string> kQuick = {{"FOLDCAST_LINK_LATENCY_US", "20"}, {"FOLDCAST_LINK_GBPS", "10"}};

const std::vector<std::vector<int>> kLayouts = {uniform_nodes(1, 1), uniform_nodes(1, 2), uniform_nodes(1, 3),
                                                uniform_nodes(2, 1), uniform_nodes(3, 1), uniform_nodes(5, 1),
                                                uniform_nodes(8, 1), uniform_nodes(2, 2), uniform_nodes(3, 2),
                                                {0, 0, 0, 1, 1, 2},  {0, 1, 0, 1, 0}};

constexpr std::int32_t kUntouched = -777777;

/// What rank `rank` gives at place `i` of the whole.
std::int32_t value(int rank, std::uint64_t i) { return static_cast<std::int32_t>((i * 7 + rank * 1009) % 100003); }

std::int32_t sum(int n, std::uint64_t i) {
  std::int32_t total = 0;
  for (int r = 0; r < n; ++r) total += value(r, i);
  return total;
}

/// One call on one rank: what it gives, and what it must end with. Blocks have `counts` elements, one after the other.
class Case {
 public:
  Case(Collective kind, int rank, int size, int root, std::vector<std::size_t> counts)
      : kind_(kind), rank_(rank), size_(size), root_(root), counts_(std::move(counts)), begin_(counts_.size() + 1, 0) {
    std::partial_sum(counts_.begin(), counts_.end(), begin_.begin() + 1);
  }

  /// Elements of the input and, in the whole, the place of the first.
  std::pair<std::size_t, std::size_t> input() const {
    switch (scheduled_as(kind_)) {
      case Collective::kBroadcast:
        return {rank_ == root_ ? whole() : 0, 0};
      case Collective::kAllGather:
      case Collective::kGather:
        return {own(), begin_[rank_]};
      case Collective::kScatter:
        return {rank_ == root_ ? whole() : 0, 0};
      default:
        return {whole(), 0};
    }
  }
  Values expected() const {
    Values result;
    switch (scheduled_as(kind_)) {
      case Collective::kAllReduce:
        for (std::size_t i = 0; i < whole(); ++i) result.push_back(sum(size_, i));
        break;
      case Collective::kReduce:
        for (std::size_t i = 0; rank_ == root_ && i < whole(); ++i) result.push_back(sum(size_, i));
        break;
      case Collective::kBroadcast:
        for (std::size_t i = 0; i < whole(); ++i) result.push_back(value(root_, i));
        break;
      case Collective::kReduceScatter:
        for (std::size_t i = begin_[rank_]; i < begin_[rank_ + 1]; ++i) result.push_back(sum(size_, i));
        break;
      case Collective::kScatter:
        for (std::size_t i = begin_[rank_]; i < begin_[rank_ + 1]; ++i) result.push_back(value(root_, i));
        break;
      case Collective::kGather:
      case Collective::kAllGather:
        for (int r = 0;
             (kind_ == Collective::kAllGather || kind_ == Collective::kAllGatherV || rank_ == root_) && r < size_;
             ++r) {
          for (std::size_t i = begin_[r]; i < begin_[r + 1]; ++i) result.push_back(value(r, i));
        }
        break;
      case Collective::kAllToAll:
        for (int r = 0; r < size_; ++r) {
          for (std::size_t i = 0; i < own(); ++i) result.push_back(value(r, begin_[rank_] + i));
        }
        break;
      default:
        break;
    }
    return result;
  }
  std::size_t own() const { return counts_[rank_]; }
  std::size_t whole() const { return begin_.back(); }

 private:
  Collective kind_;
  int rank_, size_, root_;
  std::vector<std::size_t> counts_, begin_;
};

CollectiveCall base_call(Collective kind, int root, std::uint64_t count) {
  CollectiveCall call;
  call.kind = kind;
  call.dtype = Datatype::kInt32;
  call.op = ReduceOp::kSum;
  call.root = root;
  call.count = count;
  return call;
}

/// Out of place, with a frame round the result and the input checked afterwards.
void check_apart(Communicator& comm, CollectiveCall call, const Case& one) {
  const auto [elements, first] = one.input();
  Values send(elements + 1);
  for (std::size_t i = 0; i < elements; ++i) send[i] = value(comm.rank(), first + i);
  const Values before = send;
  const Values expected = one.expected();
  Values frame(expected.size() + 2, kUntouched);
  call.send = elements > 0 ? send.data() : nullptr;
  call.recv = expected.empty() ? nullptr : frame.data() + 1;
  const Status status = comm.run(call);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(send, before) << "the input was written";
  EXPECT_EQ(frame.front(), kUntouched);
  EXPECT_EQ(frame.back(), kUntouched);
  ASSERT_EQ(Values(frame.begin() + 1, frame.end() - 1), expected);
}

/// In place, as the field has it: see FOLDCAST_IN_PLACE.
void check_in_place(Communicator& comm, CollectiveCall call, const Case& one) {
  const auto [elements, first] = one.input();
  const Values expected = one.expected();
  const bool is_root = comm.rank() == call.root;
  Values whole(one.whole() + 1, kUntouched);
  for (std::size_t i = 0; i < elements; ++i) whole[first + i] = value(comm.rank(), first + i);
  Values own(one.own() + 1, kUntouched);
  std::copy_n(whole.begin() + static_cast<std::ptrdiff_t>(first), std::min(elements, one.own()), own.begin());
  switch (scheduled_as(call.kind)) {
    case Collective::kReduce:
    case Collective::kBroadcast:
      call.send = is_root ? api::kInPlace : whole.data();
      call.recv = call.kind == Collective::kReduce && !is_root ? nullptr : whole.data();
      break;
    case Collective::kGather:
      call.send = is_root ? api::kInPlace : own.data();
      call.recv = is_root ? whole.data() : nullptr;
      break;
    case Collective::kScatter:
      call.send = is_root ? whole.data() : nullptr;
      call.recv = is_root ? const_cast<void*>(api::kInPlace) : own.data();
      break;
    default:
      call.send = api::kInPlace;
      call.recv = whole.data();
      break;
  }
  const Status status = comm.run(call);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(whole.back(), kUntouched);
  const bool in_own = scheduled_as(call.kind) == Collective::kScatter;
  if (in_own && is_root) {
    const Values all(whole.begin(), whole.end() - 1);
    for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], value(call.root, i)) << "a scatter's root keeps all";
    return;
  }
  const Values& result = in_own ? own : whole;
  ASSERT_EQ(Values(result.begin(), result.begin() + static_cast<std::ptrdiff_t>(expected.size())), expected);
}

constexpr Collective kFixed[] = {Collective::kAllReduce,     Collective::kReduce,    Collective::kBroadcast,
                                 Collective::kReduceScatter, Collective::kAllGather, Collective::kAllToAll,
                                 Collective::kGather,        Collective::kScatter};

std::vector<std::string> plans_of(Communicator& comm, Collective kind) {
  std::vector<std::string> names;
  for (const auto& composition : hierarchy::compositions_of(comm.layout(), kind)) {
    if (!composition.offloaded()) names.push_back(hierarchy::name_of(comm.layout(), composition));
  }
  return names;
}

TEST(Collectives, EveryPlanRootAndCount) {
  for (const auto& nodes : kLayouts) {
    Job job{nodes, kQuick};
    job.run([&](Communicator& comm, int rank) {
      const int n = comm.size();
      for (Collective kind : kFixed) {
        const std::vector<int> roots = has_root(kind) ? std::vector<int>{0, n / 2, n - 1} : std::vector<int>{0};
        for (const std::string& plan : plans_of(comm, kind)) {
          ASSERT_TRUE(comm.selector().force({plan, {0, 0}}).ok());
          for (int root : roots) {
            for (std::size_t count : {0u, 1u, 5u, 1009u}) {
              SCOPED_TRACE(::testing::Message() << to_string(kind) << " as " << plan << ", root " << root << ", count "
                                                << count << ", rank " << rank << " of " << n);
              const std::vector<std::size_t> counts(has_blocks(kind) ? n : 1, count);
              std::vector<std::size_t> padded = counts;
              if (!has_blocks(kind)) padded.resize(n, 0), padded[0] = count;
              const Case one(kind, rank, n, root, has_blocks(kind) ? counts : padded);
              check_apart(comm, base_call(kind, root, count), one);
              check_in_place(comm, base_call(kind, root, count), one);
              if (::testing::Test::HasFatalFailure()) return;
            }
          }
        }
      }
    });
  }
}

TEST(Collectives, FragmentsOfBlocks) {
  for (const auto& nodes : {uniform_nodes(3, 1), uniform_nodes(5, 1), uniform_nodes(2, 2)}) {
    Job job{nodes, kQuick};
    job.run([&](Communicator& comm, int rank) {
      const int n = comm.size();
      ASSERT_TRUE(comm.selector().force({"", {1000, 3}}).ok());
      for (Collective kind : kFixed) {
        SCOPED_TRACE(to_string(kind));
        std::vector<std::size_t> counts(n, has_blocks(kind) ? 1009 : 0);
        counts[0] = 1009;
        const Case one(kind, rank, n, n - 1, counts);
        check_apart(comm, base_call(kind, n - 1, 1009), one);
        check_in_place(comm, base_call(kind, n - 1, 1009), one);
      }
    });
  }
}

TEST(Collectives, UnevenBlocksWithGapsBetweenThem) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  for (const auto& nodes : kLayouts) {
    Job job{nodes, kQuick};
    job.run([&](Communicator& comm, int rank) {
      std::mt19937 random(seed);
      const int n = comm.size();
      for (int round = 0; round < 4; ++round) {
        std::vector<std::size_t> counts(n), gaps(n);
        for (auto& count : counts) count = random() % 3 == 0 ? 0 : random() % 2000;
        for (auto& gap : gaps) gap = random() % 3;
        const int root = static_cast<int>(random() % n);
        for (Collective kind :
             {Collective::kReduceScatterV, Collective::kAllGatherV, Collective::kGatherV, Collective::kScatterV}) {
          SCOPED_TRACE(::testing::Message() << to_string(kind) << " root " << root << " rank " << rank << " of " << n);
          const Case one(kind, rank, n, root, counts);
          CollectiveCall call = base_call(kind, root, counts[rank]);
          call.sent = call.received = {counts.data(), nullptr};
          check_apart(comm, call, one);
          check_in_place(comm, call, one);
        }
        // With gaps: what lies between the blocks stays as it was.
        std::vector<std::size_t> at(n);
        std::size_t end = 0;
        for (int r = 0; r < n; ++r) at[r] = end + gaps[r], end = at[r] + counts[r];
        Values own(counts[rank]), all(end + 1, kUntouched), expected(end + 1, kUntouched);
        for (std::size_t i = 0; i < own.size(); ++i) own[i] = value(rank, i);
        for (int r = 0; r < n; ++r) {
          for (std::size_t i = 0; i < counts[r]; ++i) expected[at[r] + i] = value(r, i);
        }
        CollectiveCall call = base_call(Collective::kAllGatherV, 0, 0);
        call.send = own.data();
        call.recv = all.data();
        call.received = {counts.data(), at.data()};
        ASSERT_TRUE(comm.run(call).ok());
        ASSERT_EQ(all, expected);
      }
    });
  }
}

TEST(Collectives, AllToAllWithCountsForEveryPair) {
  for (const auto& nodes : kLayouts) {
    Job job{nodes, kQuick};
    job.run([&](Communicator& comm, int rank) {
      const int n = comm.size();
      const auto pair_count = [&](int from, int to) { return static_cast<std::size_t>((from * 5 + to * 3) % 4 * 311); };
      std::vector<std::size_t> sent(n), received(n);
      Values send, expected;
      for (int r = 0; r < n; ++r) {
        sent[r] = pair_count(rank, r);
        received[r] = pair_count(r, rank);
        for (std::size_t i = 0; i < sent[r]; ++i) send.push_back(value(rank * 100 + r, i));
        for (std::size_t i = 0; i < received[r]; ++i) expected.push_back(value(r * 100 + rank, i));
      }
      Values recv(expected.size());
      CollectiveCall call = base_call(Collective::kAllToAllV, 0, 0);
      call.send = send.data();
      call.recv = recv.data();
      call.sent = {sent.data(), nullptr};
      call.received = {received.data(), nullptr};
      const Status status = comm.run(call);
      ASSERT_TRUE(status.ok()) << status.to_string();
      ASSERT_EQ(recv, expected);
    });
  }
}

CollectiveCall message(void* buffer, std::uint64_t count, int peer, bool sends) {
  CollectiveCall call = base_call(Collective::kSendRecv, peer, count);
  call.sends = sends;
  if (sends) {
    call.send = buffer;
  } else {
    call.recv = buffer;
  }
  return call;
}

TEST(Collectives, MessagesRoundARingInAGroup) {
  for (const auto& nodes : kLayouts) {
    if (nodes.size() == 1) continue;
    Job job{nodes, kQuick};
    job.run([&](Communicator& comm, int rank) {
      const int n = comm.size();
      for (std::size_t count : {0u, 1u, 70001u}) {
        Values send(count, rank), recv(count, -1), again(count, -1);
        CallGroup& group = CallGroup::of_this_thread();
        group.enter();
        ASSERT_TRUE(group.note(message(send.data(), count, (rank + 1) % n, true), comm, nullptr).ok());
        ASSERT_TRUE(group.note(message(recv.data(), count, (rank + n - 1) % n, false), comm, nullptr).ok());
        // To itself as well.
        ASSERT_TRUE(group.note(message(send.data(), count, rank, true), comm, nullptr).ok());
        ASSERT_TRUE(group.note(message(again.data(), count, rank, false), comm, nullptr).ok());
        const Status status = group.leave();
        ASSERT_TRUE(status.ok()) << status.to_string();
        ASSERT_EQ(recv, Values(count, (rank + n - 1) % n));
        ASSERT_EQ(again, send);
      }
    });
  }
}

TEST(Collectives, MessagesOfOtherSizesAreAMismatch) {
  Job job{uniform_nodes(2, 1), kQuick};
  job.run([&](Communicator& comm, int rank) {
    Values buffer(100, rank);
    const Status status = comm.run(message(buffer.data(), rank == 0 ? 50 : 100, 1 - rank, rank == 0));
    if (rank == 1) {
      EXPECT_EQ(status.code(), Code::kMismatch) << status.to_string();
    }
  });
}

TEST(Collectives, GroupsMergeSmallReductions) {
  Job job{uniform_nodes(3, 1), kQuick};
  job.run([&](Communicator& comm, int rank) {
    constexpr int kCalls = 50;
    std::vector<Values> values(kCalls);
    CallGroup& group = CallGroup::of_this_thread();
    group.enter();
    group.enter();
    foldcast_request_t request = nullptr;
    for (int c = 0; c < kCalls; ++c) {
      values[c].assign(1 + c * 13, rank + c);
      CollectiveCall call = base_call(Collective::kAllReduce, 0, values[c].size());
      call.send = api::kInPlace;
      call.recv = values[c].data();
      ASSERT_TRUE(group.note(call, comm, c == 7 ? &request : nullptr).ok());
    }
    ASSERT_TRUE(group.leave().ok());
    EXPECT_EQ(api::finish(*request).code(), Code::kInvalidArgument) << "its group has not ended";
    ASSERT_TRUE(group.leave().ok());
    ASSERT_TRUE(api::finish(*request).ok());
    delete request;
    for (int c = 0; c < kCalls; ++c) ASSERT_EQ(values[c], Values(values[c].size(), 3 + 3 * c)) << c;
  });
}

TEST(Collectives, SplitsDupsAndDestroysInAnyOrder) {
  for (const auto& nodes : {uniform_nodes(1, 4), uniform_nodes(4, 1), uniform_nodes(3, 2)}) {
    Job job{nodes, kQuick};
    job.run([&](Communicator& world, int rank) {
      const int n = world.size();
      auto odd_even = world.split(rank % 2, -rank);
      ASSERT_TRUE(odd_even.ok()) << odd_even.status().to_string();
      Communicator& half = **odd_even;
      const int members = (n - rank % 2 + 1) / 2;
      ASSERT_EQ(half.size(), members);
      EXPECT_EQ(half.rank(), members - 1 - rank / 2) << "the key turns the order round";
      const auto check = [](Communicator& comm, std::int32_t mine, std::int32_t expected) {
        CollectiveCall call = base_call(Collective::kAllReduce, 0, 1);
        call.send = &mine;
        std::int32_t result = 0;
        call.recv = &result;
        const Status status = comm.run(call);
        ASSERT_TRUE(status.ok()) << status.to_string();
        EXPECT_EQ(result, expected);
      };
      std::int32_t total = 0;
      for (int r = rank % 2; r < n; r += 2) total += r;
      check(half, rank, total);
      auto again = world.split(0, 0);
      ASSERT_TRUE(again.ok());
      auto only_first = half.split(half.rank() == 0 ? 3 : Communicator::kNoColour, 0);
      ASSERT_TRUE(only_first.ok()) << only_first.status().to_string();
      EXPECT_EQ(*only_first != nullptr, half.rank() == 0);
      odd_even->reset();
      check(**again, 1, n);
      check(world, 2, 2 * n);
    });
  }
}

TEST(Collectives, AbortFromAnotherThreadEndsTheCallEverywhere) {
  Job job{uniform_nodes(3, 1), kQuick};
  job.run([&](Communicator& world, int rank) {
    auto dup = world.split(0, 0);
    ASSERT_TRUE(dup.ok());
    std::thread killer;
    if (rank == 1) {
      killer = std::thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        (*dup)->abort();
      });
    }
    if (rank != 2) {
      float x = 1;
      CollectiveCall call = base_call(Collective::kAllReduce, 0, 1);
      call.send = call.recv = &x;
      const auto begin = std::chrono::steady_clock::now();
      const Status status = (*dup)->run(call);
      EXPECT_EQ(status.code(), Code::kAborted) << status.to_string();
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3));
    }
    if (killer.joinable()) killer.join();
    std::int32_t one = 1;
    CollectiveCall call = base_call(Collective::kAllReduce, 0, 1);
    call.send = call.recv = &one;
    ASSERT_TRUE(world.run(call).ok()) << "other communicators go on";
    EXPECT_EQ(one, 3);
  });
}

TEST(Collectives, ShrinkGoesOnWithoutARankThatLeft) {
  Job job{uniform_nodes(2, 2), kQuick};
  job.run([&](Communicator& world, int rank) {
    if (rank == 2) return;
    auto smaller = world.shrink();
    ASSERT_TRUE(smaller.ok()) << smaller.status().to_string();
    ASSERT_EQ((*smaller)->size(), 3);
    EXPECT_EQ((*smaller)->rank(), rank == 3 ? 2 : rank);
    std::int32_t value = 1 << rank;
    CollectiveCall call = base_call(Collective::kAllReduce, 0, 1);
    call.send = call.recv = &value;
    const Status status = (*smaller)->run(call);
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(value, 0b1011);
  });
}

TEST(Collectives, ManyCommunicatorsCostNoDescriptors) {
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  Job job{uniform_nodes(2, 2), kQuick};
  job.run([&](Communicator& world, int rank) {
    CollectiveCall barrier;
    barrier.kind = Collective::kBarrier;
    ASSERT_TRUE(world.run(barrier).ok());
    const auto before = descriptors();
    std::vector<std::unique_ptr<Communicator>> many;
    for (int i = 0; i < 100; ++i) {
      auto made = world.split(i % 2 == 0 ? 0 : rank % 2, rank);
      ASSERT_TRUE(made.ok()) << i << ": " << made.status().to_string();
      many.push_back(*std::move(made));
    }
    ASSERT_TRUE(world.run(barrier).ok());
    EXPECT_LE(descriptors(), before + 16);
    std::shuffle(many.begin(), many.end(), std::mt19937(rank));
    many.clear();
    ASSERT_TRUE(world.run(barrier).ok());
  });
}

TEST(Collectives, CommunicatorsFromSeveralThreads) {
  for (const char* thread : {"0", "1"}) {
    auto settings = kQuick;
    settings["FOLDCAST_PROGRESS_THREAD"] = thread;
    Job job{uniform_nodes(2, 2), settings};
    job.run([&](Communicator& world, int rank) {
      constexpr int kThreads = 3;
      std::vector<std::unique_ptr<Communicator>> comms;
      for (int t = 0; t < kThreads; ++t) {
        auto made = world.split(0, rank);
        ASSERT_TRUE(made.ok()) << made.status().to_string();
        comms.push_back(*std::move(made));
      }
      std::vector<std::thread> threads;
      for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
          for (int round = 0; round < 50; ++round) {
            Values values(1 + (round * 97 + t) % 3000, rank + t);
            CollectiveCall call = base_call(Collective::kAllReduce, 0, values.size());
            call.send = call.recv = values.data();
            const Status status = comms[t]->run(call);
            ASSERT_TRUE(status.ok()) << status.to_string();
            ASSERT_EQ(values, Values(values.size(), 6 + 4 * t));
          }
        });
      }
      for (auto& one : threads) one.join();
    });
  }
}

}  // namespace
}  // namespace foldcast
