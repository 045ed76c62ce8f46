#include "tools/foldcast/perf_layout.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "tools/foldcast/perf_shape.h"

namespace foldcast::tools {
namespace {

constexpr int kSizes[] = {1, 2, 3, 5, 7, 8};

std::vector<Collective> with_buffers() {
  std::vector<Collective> list;
  for (std::size_t i = 1; i < kCollectiveCount; ++i) {
    auto kind = static_cast<Collective>(i);
    if (kind != Collective::kBarrier) list.push_back(kind);
  }
  return list;
}

TEST(VariableCounts, KeepTheirMeanAndLeaveSomeWithNothing) {
  for (int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 100}) {
    for (std::size_t mean : {0u, 1u, 2u, 7u, 1000u}) {
      std::size_t sum = 0;
      bool some_have_nothing = false;
      for (int r = 0; r < ranks; ++r) {
        std::size_t count = variable_count(mean, r, ranks);
        EXPECT_LE(count, 2 * mean);
        sum += count;
        some_have_nothing |= count == 0;
      }
      EXPECT_EQ(sum, mean * static_cast<std::size_t>(ranks)) << ranks << " ranks, mean " << mean;
      EXPECT_TRUE(some_have_nothing || ranks < 3) << ranks << " ranks, mean " << mean;
    }
  }
}

/// What every rank receives from a source must be inside of what that source gives, and pieces must not overlap.
class LayoutTest : public ::testing::TestWithParam<Collective> {
 protected:
  PerfCall call(int ranks, int rank, std::size_t count) const {
    PerfCall made;
    made.kind = GetParam();
    made.count = count;
    made.ranks = ranks;
    made.rank = rank;
    made.root = ranks - 1;
    return made;
  }
};

TEST_P(LayoutTest, PiecesFitAndDoNotOverlap) {
  for (int ranks : kSizes) {
    for (std::size_t count : {0u, 1u, 6u, 1009u}) {
      for (int form = 0; form < 4; ++form) {
        for (int rank = 0; rank < ranks; ++rank) {
          PerfCall one = call(ranks, rank, count);
          one.in_place = (form & 1) != 0 && has_in_place(GetParam());
          one.gaps = (form & 2) != 0;
          CallLayout layout = CallLayout::of(one);
          for (const auto* pieces : {&layout.inputs, &layout.outputs}) {
            std::size_t end = 0;
            for (const Piece& piece : *pieces) {
              EXPECT_GE(piece.at, end);
              end = piece.at + piece.count;
            }
            EXPECT_LE(end, layout.room);
          }
        }
      }
    }
  }
}

TEST_P(LayoutTest, WhatOneGetsAnotherGives) {
  if (reduces(GetParam())) return;  // there everybody's data goes into every element
  for (int ranks : kSizes) {
    std::map<int, std::map<std::size_t, int>> given;  // by rank and element
    std::map<int, std::map<std::size_t, int>> taken;
    for (int rank = 0; rank < ranks; ++rank) {
      CallLayout layout = CallLayout::of(call(ranks, rank, 11));
      for (const Piece& piece : layout.inputs) {
        EXPECT_EQ(piece.source, rank);
        for (std::size_t i = 0; i < piece.count; ++i) ++given[rank][piece.first + i];
      }
      for (const Piece& piece : layout.outputs) {
        for (std::size_t i = 0; i < piece.count; ++i) ++taken[piece.source][piece.first + i];
      }
    }
    for (const auto& [source, elements] : taken) {
      for (const auto& [element, times] : elements) {
        EXPECT_EQ(given[source][element], 1) << "element " << element << " of rank " << source;
        bool to_all = GetParam() == Collective::kBroadcast || GetParam() == Collective::kAllGather ||
                      GetParam() == Collective::kAllGatherV;
        EXPECT_EQ(times, to_all ? ranks : 1);
      }
    }
    EXPECT_EQ(given.size(), taken.size());
  }
}

INSTANTIATE_TEST_SUITE_P(Collectives, LayoutTest, ::testing::ValuesIn(with_buffers()),
                         [](const auto& one) { return std::string(to_string(one.param)); });

TEST(Layout, CountsOfAnAllToAllAgreeBetweenTheTwoSides) {
  for (int ranks : kSizes) {
    for (bool in_place : {false, true}) {
      for (int a = 0; a < ranks; ++a) {
        for (int b = 0; b < ranks; ++b) {
          PerfCall one{.kind = Collective::kAllToAllV, .count = 10, .ranks = ranks, .rank = a, .in_place = in_place};
          PerfCall other = one;
          other.rank = b;
          CallLayout at_a = CallLayout::of(one);
          EXPECT_EQ(at_a.send_counts[static_cast<std::size_t>(b)],
                    CallLayout::of(other).recv_counts[static_cast<std::size_t>(a)]);
          if (in_place) {
            EXPECT_EQ(at_a.send_counts, at_a.recv_counts);
          }
        }
      }
    }
  }
}

TEST(Shape, RoundsAsNcclTestsDo) {
  std::vector<PerfSize> sizes = {{1, 1}, {7, 2}, {8, 3}, {15, 1}};
  EXPECT_EQ(sized(sizes, Collective::kAllReduce, Datatype::kFloat64, 3),
            (std::vector<SizedCount>{{0, 0, 3}, {1, 8, 4}}));
  EXPECT_EQ(sized({{1000, 1}}, Collective::kAllReduce, Datatype::kFloat32, 8),
            (std::vector<SizedCount>{{250, 1000, 1}}));
  // 250 elements over 8 ranks: 31, of which blocks of 16 bytes leave 28.
  EXPECT_EQ(sized({{1000, 1}}, Collective::kAllGather, Datatype::kFloat32, 8), (std::vector<SizedCount>{{28, 896, 1}}));
  EXPECT_EQ(sized({{1000, 1}}, Collective::kReduceScatter, Datatype::kInt8, 8),
            (std::vector<SizedCount>{{112, 896, 1}}));
  EXPECT_EQ(sized({{1000, 1}}, Collective::kGather, Datatype::kFloat32, 8), (std::vector<SizedCount>{{31, 992, 1}}));
  EXPECT_EQ(sized({{8, 1}}, Collective::kAllToAll, Datatype::kFloat32, 8), (std::vector<SizedCount>{{0, 0, 1}}));
  EXPECT_EQ(sized({{8, 1}, {64, 1}}, Collective::kBarrier, Datatype::kFloat32, 8),
            (std::vector<SizedCount>{{0, 0, 1}}));
}

TEST(Shape, BusFactorsAreThoseOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(Collective::kAllReduce, 8), 1.75);
  for (Collective kind : {Collective::kAllGather, Collective::kReduceScatter, Collective::kAllToAll,
                          Collective::kGather, Collective::kScatter, Collective::kAllToAllV}) {
    EXPECT_DOUBLE_EQ(bus_factor(kind, 8), 0.875);
  }
  for (Collective kind : {Collective::kBroadcast, Collective::kReduce, Collective::kSendRecv}) {
    EXPECT_DOUBLE_EQ(bus_factor(kind, 8), 1);
  }
  EXPECT_EQ(bus_factor(Collective::kBarrier, 8), 0);
  EXPECT_EQ(bus_factor(Collective::kAllReduce, 1), 0);
}

}  // namespace
}  // namespace foldcast::tools
