// The data path of the shared-memory node group: every verb, size, place and order, checked against a serial reference.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>

#include "hierarchy/shm/piece_cut.h"
#include "hierarchy/shm/slot_writer.h"
#include "tests/hierarchy/node_group_fixture.h"

namespace foldcast::hierarchy {
namespace {

constexpr Mapping kMappings[] = {Mapping::kEach, Mapping::kShared};
constexpr int kSizes[] = {1, 2, 3, 5, 7, 8};
constexpr Verb kVerbs[] = {Verb::kAllReduce, Verb::kReduceScatter, Verb::kAllGather, Verb::kBroadcast, Verb::kBarrier,
                           Verb::kReduce,    Verb::kGather,        Verb::kScatter,   Verb::kAllToAll};

/// Shards of no elements among them, and one of most.
std::vector<std::uint64_t> uneven_cuts(std::uint64_t count, std::uint16_t owners) {
  std::vector<std::uint64_t> cuts(owners + std::size_t{1}, count);
  cuts[0] = 0;
  for (std::size_t owner = 1; owner < owners; ++owner)
    cuts[owner] = owner % 3 == 0 ? cuts[owner - 1] : count * owner / 9;
  return cuts;
}

std::vector<Case> cases_of(int size) {
  const auto n = static_cast<std::uint64_t>(size);
  std::vector<Case> cases;
  std::uint64_t sequence = 0;
  auto add = [&](Case one) {
    for (bool in_place : {false, true}) {
      one = fit(one, size);
      one.in_place = in_place;
      one.lean = !in_place;
      one.sequence = ++sequence;
      one.lane = static_cast<std::uint8_t>(sequence / 2 % NodeGroup::kLanes);
      cases.push_back(one);
    }
  };
  add({.verb = Verb::kBarrier});
  for (std::uint64_t count : {std::uint64_t{0}, std::uint64_t{1}, n - 1, n, std::uint64_t{257}, std::uint64_t{6007}}) {
    add({.verb = Verb::kAllReduce, .count = count});
    add({.verb = Verb::kAllReduce, .op = left_op(), .count = count});
    add({.verb = Verb::kAllToAll, .count = count});
    for (std::uint16_t owners = 1; owners <= n; ++owners) {
      for (Verb verb : {Verb::kReduceScatter, Verb::kAllGather}) {
        add({.verb = verb, .count = count, .owners = owners});
        add({.verb = verb, .count = count, .owners = owners, .cuts = uneven_cuts(count, owners)});
      }
    }
    for (int root : {0, size / 2, size - 1}) {
      for (Verb verb : {Verb::kBroadcast, Verb::kReduce, Verb::kGather, Verb::kScatter}) {
        add({.verb = verb, .count = count, .root = root});
      }
    }
  }
  return cases;
}

TEST(ShmNodeGroup, EveryVerbSizeAndPlace) {
  const std::uint64_t seed = fresh_seed();
  for (int size : kSizes) {
    for (Mapping mapping : kMappings) {
      // Small slots, so that the larger counts take many pieces and the ring wraps.
      as_threads({.name = {}, .size = size, .slot_bytes = 2048, .slots = 2}, mapping, [&](NodeGroup& group) {
        EXPECT_EQ(group.size(), size);
        for (const Case& one : cases_of(size)) {
          const std::string wrong = run_case(group, one, seed);
          ASSERT_EQ(wrong, "") << "size " << size << ", seed " << seed;
        }
      });
    }
  }
}

TEST(ShmNodeGroup, EveryDatatypeAndOp) {
  const std::uint64_t seed = fresh_seed();
  as_threads({.name = {}, .size = 3, .slot_bytes = 512, .slots = 4}, Mapping::kEach, [&](NodeGroup& group) {
    std::uint64_t sequence = 0;
    for (std::size_t dtype = 0; dtype < kDatatypeCount; ++dtype) {
      for (std::size_t op = 0; op < kReduceOpCount; ++op) {
        if (!is_defined(static_cast<Datatype>(dtype), static_cast<ReduceOp>(op))) continue;
        EXPECT_TRUE(group.caps().supports(static_cast<Datatype>(dtype), static_cast<ReduceOp>(op)));
        for (std::uint64_t count : {1u, 7u, 1009u}) {
          Case one{.dtype = static_cast<Datatype>(dtype), .op = static_cast<ReduceOp>(op), .count = count};
          one.sequence = ++sequence;
          ASSERT_EQ(run_case(group, one, seed), "") << "seed " << seed;
          one.verb = Verb::kReduceScatter;
          one.owners = 2;
          one.sequence = ++sequence;
          ASSERT_EQ(run_case(group, one, seed), "") << "seed " << seed;
        }
      }
    }
  });
}

TEST(ShmNodeGroup, LargeCallsWithDefaultSlots) {
  const std::uint64_t seed = fresh_seed();
  for (int size : {2, 3, 5}) {
    for (bool cross_memory : {false, true}) {
      as_threads({.name = {}, .size = size, .cross_memory = cross_memory}, Mapping::kEach, [&](NodeGroup& group) {
        std::uint64_t sequence = 0;
        for (Verb verb : kVerbs) {
          for (bool in_place : {false, true}) {
            Case one = fit({.verb = verb, .dtype = Datatype::kFloat32, .count = 100003, .owners = 2}, size);
            // Who reads and who writes past others need not agree.
            one.in_place = in_place != (verb == Verb::kAllToAll && group.rank() == 1);
            one.root = size - 1;
            one.sequence = ++sequence;
            ASSERT_EQ(run_case(group, one, seed), "") << "seed " << seed << ", cross memory " << cross_memory;
          }
        }
      });
    }
  }
}

TEST(ShmNodeGroup, SameBitsOnEveryRankInRankOrder) {
  const std::uint64_t seed = fresh_seed();
  constexpr int kSize = 5;
  for (std::size_t count : {3u, 1000u, 20011u}) {
    std::mt19937_64 random(seed + count);
    std::uniform_real_distribution<float> numbers(-1e3F, 1e3F);
    std::vector<std::vector<float>> inputs(kSize, std::vector<float>(count));
    for (auto& input : inputs) std::generate(input.begin(), input.end(), [&] { return numbers(random); });
    std::vector<float> wanted = inputs[0];
    for (int rank = 1; rank < kSize; ++rank) {
      for (std::size_t i = 0; i < count; ++i) wanted[i] = wanted[i] + inputs[static_cast<std::size_t>(rank)][i];
    }
    as_threads({.name = {}, .size = kSize, .slot_bytes = 8192}, Mapping::kEach, [&](NodeGroup& group) {
      std::vector<float>& mine = inputs[static_cast<std::size_t>(group.rank())];
      EngineCall call;
      call.verb = Verb::kAllReduce;
      call.input = reinterpret_cast<const std::byte*>(mine.data());
      call.output = reinterpret_cast<std::byte*>(mine.data());
      call.count = count;
      call.signature = {Collective::kAllReduce, Datatype::kFloat32, ReduceOp::kSum, WireFormat::kExact, 0, count};
      ASSERT_EQ(group.post(call, 0), Posted::kAccepted);
      auto ended = finish(group, 1);
      ASSERT_TRUE(ended && ended->front().status.ok());
      EXPECT_EQ(std::memcmp(mine.data(), wanted.data(), count * sizeof(float)), 0) << "seed " << seed;
    });
  }
}

std::vector<Completion> poll_once(NodeGroup& group) {
  std::vector<Completion> ended(5);
  ended.resize(group.poll(ended));
  if (ended.empty()) std::this_thread::yield();
  return ended;
}

/// Random calls on both lanes, many outstanding, each rank interleaving the lanes and sleeping as it likes.
void soak(int size, Mapping mapping, std::uint64_t seed, std::size_t calls, std::uint64_t slot_bytes) {
  std::mt19937_64 random(seed);
  auto below = [&](std::uint64_t n) { return random() % n; };
  std::vector<std::vector<Case>> lanes(NodeGroup::kLanes);
  for (std::size_t i = 0; i < calls; ++i) {
    Case one{.verb = kVerbs[below(std::size(kVerbs))], .dtype = static_cast<Datatype>(below(kDatatypeCount))};
    one.op = below(9) == 0 ? left_op() : static_cast<ReduceOp>(below(kReduceOpCount));
    one.count = below(3) == 0 ? below(9) : below(5) == 0 ? below(9 * slot_bytes) : below(300);
    one.owners = static_cast<std::uint16_t>(1 + below(static_cast<std::uint64_t>(size)));
    one.root = static_cast<std::int32_t>(below(static_cast<std::uint64_t>(size)));
    if (below(3) == 0) one.cuts = uneven_cuts(one.count, one.owners);
    one = fit(one, size);
    one.lean = below(2) == 0;
    one.lane = static_cast<std::uint8_t>(below(NodeGroup::kLanes));
    one.sequence = i;
    lanes[one.lane].push_back(one);
  }
  as_threads({.name = {}, .size = size, .slot_bytes = slot_bytes, .slots = 4}, mapping, [&](NodeGroup& group) {
    const auto rank = static_cast<std::uint32_t>(group.rank());
    std::mt19937_64 own(seed + rank + 1);
    std::vector<std::unique_ptr<Exchange>> exchanges;
    std::size_t next[NodeGroup::kLanes] = {};
    std::size_t ended = 0;
    while (ended < calls) {
      for (int burst = static_cast<int>(own() % 100); burst > 0; --burst) {
        const std::size_t lane = own() % NodeGroup::kLanes;
        if (next[lane] == lanes[lane].size()) continue;
        Case mine = lanes[lane][next[lane]];
        mine.in_place = own() % 2 == 0;  // nobody else's business
        auto exchange = std::make_unique<Exchange>(mine, rank, size, seed);
        if (group.post(exchange->call(), exchanges.size()) == Posted::kRetry) break;
        exchanges.push_back(std::move(exchange));
        ++next[lane];
      }
      if (own() % 50 == 0) std::this_thread::sleep_for(std::chrono::microseconds(own() % 500));
      // Until all is posted nobody may block: a peer may need a call that this rank has yet to post.
      const bool all_posted = exchanges.size() == calls;
      auto some = all_posted ? finish(group, calls - ended) : std::optional(poll_once(group));
      ASSERT_TRUE(some) << "hangs on rank " << rank << " of " << size << ", seed " << seed;
      for (const Completion& completion : *some) {
        ASSERT_TRUE(completion.status.ok()) << completion.status.to_string();
        ASSERT_EQ(exchanges[completion.cookie]->check(), "") << "seed " << seed;
        exchanges[completion.cookie].reset();
      }
      ended += some->size();
    }
  });
}

TEST(ShmNodeGroup, RandomCallsOnBothLanes) {
  const std::uint64_t seed = fresh_seed();
  for (int size : kSizes) {
    for (Mapping mapping : kMappings) soak(size, mapping, seed + static_cast<std::uint64_t>(size), 250, 1024);
  }
  // With parts so large that they are read where they are, among others that are not.
  for (int size : {2, 3}) soak(size, Mapping::kEach, seed, 250, 65536);
}

TEST(ShmNodeGroup, ManyOutstandingThenRetry) {
  for (int size : {1, 2, 5}) {
    as_threads({.name = {}, .size = size, .slot_bytes = 512, .slots = 4}, Mapping::kEach, [&](NodeGroup& group) {
      std::vector<std::int64_t> values(1000, group.rank() + 1);
      std::size_t accepted = 0;
      auto post = [&] {
        EngineCall call;
        call.verb = Verb::kAllReduce;
        call.input = call.output = reinterpret_cast<std::byte*>(&values[accepted]);
        call.count = 1;
        call.key.sequence = accepted;
        call.signature = {Collective::kAllReduce, Datatype::kInt64, ReduceOp::kSum, WireFormat::kExact, 0, 1};
        return group.post(call, accepted);
      };
      while (accepted < values.size() && post() == Posted::kAccepted) ++accepted;
      EXPECT_GE(accepted, 64u);
      EXPECT_LT(accepted, values.size()) << "a queue without bound";
      auto ended = finish(group, accepted);
      ASSERT_TRUE(ended);
      for (std::size_t i = 0; i < accepted; ++i) {
        EXPECT_TRUE((*ended)[i].status.ok());
        EXPECT_EQ((*ended)[i].cookie, i) << "a lane completes in order";
        EXPECT_EQ(values[i], size * (size + 1) / 2);
      }
      ASSERT_EQ(post(), Posted::kAccepted);
      ASSERT_TRUE(finish(group, 1));
    });
  }
}

TEST(ShmNodeGroup, NoWakeUpIsLost) {
  // Every rank sleeps whenever it can, in lock-step: one lost wake-up hangs the rest.
  for (int size : {2, 3, 5}) {
    for (Mapping mapping : kMappings) {
      as_threads({.name = {}, .size = size, .slot_bytes = 64, .slots = 1}, mapping, [&](NodeGroup& group) {
        std::mt19937 random(static_cast<unsigned>(group.rank()));
        for (std::uint64_t i = 0; i < 3000; ++i) {
          std::uint32_t value = 1;
          EngineCall call;
          call.verb = i % 3 == 0 ? Verb::kBarrier : Verb::kAllReduce;
          call.lane = static_cast<std::uint8_t>(i % 2);
          call.input = call.output = reinterpret_cast<std::byte*>(&value);
          call.count = 1;
          call.key.sequence = i;
          call.signature = {Collective::kAllReduce, Datatype::kUint32, ReduceOp::kSum, WireFormat::kExact, 0, 1};
          if (random() % 512 == 0) std::this_thread::yield();
          ASSERT_EQ(group.post(call, i), Posted::kAccepted);
          auto ended = finish(group, 1);
          ASSERT_TRUE(ended) << "call " << i << " hangs on rank " << group.rank() << " of " << size;
          ASSERT_EQ(value, call.verb == Verb::kBarrier ? 1u : static_cast<std::uint32_t>(size));
        }
      });
    }
  }
}

TEST(SlotWriter, CopiesExactlyWhicheverWay) {
  std::mt19937_64 random(fresh_seed());
  std::vector<std::byte> source(100000), target(source.size());
  for (std::byte& byte : source) byte = static_cast<std::byte>(random());
  SlotWriter writer;
  for (int round = 0; round < 2000; ++round) {
    const std::size_t from = random() % 200, to = 64 + random() % 200, bytes = random() % 90000;
    std::fill(target.begin(), target.end(), std::byte{0x5a});
    writer.write(&target[to], &source[from], bytes);
    ASSERT_EQ(std::memcmp(&target[to], &source[from], bytes), 0) << bytes;
    ASSERT_EQ(target[to - 1], std::byte{0x5a});
    ASSERT_EQ(target[to + bytes], std::byte{0x5a});
  }
}

TEST(PieceCut, PartsTileEveryShardAndFitTheSlot) {
  std::mt19937_64 random(fresh_seed());
  for (int round = 0; round < 20000; ++round) {
    const auto size = static_cast<std::uint32_t>(1 + random() % 9);
    const std::uint64_t slot_bytes = 64 * size * (1 + random() % 100);
    EngineCall call;
    const Case one = fit({.verb = kVerbs[random() % std::size(kVerbs)],
                          .count = random() % 3 == 0 ? random() % 20 : random() % 50000,
                          .owners = static_cast<std::uint16_t>(1 + random() % size)},
                         static_cast<int>(size));
    const auto cuts = uneven_cuts(one.count, one.owners);
    call.verb = one.verb;
    call.owners = one.owners;
    call.count = one.verb == Verb::kBarrier ? 0 : one.count;
    call.peer = static_cast<std::int32_t>(random() % size);
    const bool uneven = random() % 2 == 0 && (one.verb == Verb::kReduceScatter || one.verb == Verb::kAllGather);
    if (uneven) call.cuts = cuts.data();
    call.signature.dtype = static_cast<Datatype>(random() % kDatatypeCount);
    const PieceCut cut(call, size, slot_bytes);
    ASSERT_GE(cut.pieces(), 1u);
    std::uint64_t reached = 0;
    for (std::uint32_t owner = 0; owner < cut.owners(); ++owner) {
      ASSERT_EQ(reached, uneven ? cuts[owner] : schedule::cut(call.count, owner, cut.owners()));
      for (std::uint64_t piece = 0; piece < cut.pieces(); ++piece) {
        const auto part = cut.part(owner, piece);
        ASSERT_EQ(part.first, reached);
        ASSERT_GE(part.last, part.first);
        reached = part.last;
        const std::uint64_t bytes = part.size() * cut.element_bytes();
        // A group of one uses no slots.
        if (size > 1) {
          ASSERT_LE(cut.offset(owner) + bytes, cut.is_inline() ? 8 : slot_bytes);
        }
        if (owner + 1 < cut.owners() && cut.offset(1) != 0) {
          ASSERT_LE(bytes, cut.offset(1));
        }
      }
    }
    ASSERT_EQ(reached, call.count);
  }
}

}  // namespace
}  // namespace foldcast::hierarchy
