// The library as a program sees it: through the C header and its C++ face, in a job of one process.

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "core/api/foldcast.h"
#include "core/api/foldcast.hpp"

namespace {

/// A job of one process needs no launcher, no port and no network.
class OneRank : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(foldcast_comm_init(&comm_), FOLDCAST_SUCCESS) << foldcast_last_error(); }
  void TearDown() override { EXPECT_EQ(foldcast_comm_destroy(comm_), FOLDCAST_SUCCESS); }
  foldcast_comm_t comm_ = nullptr;
};

TEST_F(OneRank, KnowsItself) {
  int value = -1;
  EXPECT_EQ(foldcast_comm_rank(comm_, &value), FOLDCAST_SUCCESS);
  EXPECT_EQ(value, 0);
  EXPECT_EQ(foldcast_comm_size(comm_, &value), FOLDCAST_SUCCESS);
  EXPECT_EQ(value, 1);
  EXPECT_EQ(foldcast_comm_node_count(comm_, &value), FOLDCAST_SUCCESS);
  EXPECT_EQ(value, 1);
  EXPECT_EQ(foldcast_comm_local_rank(comm_, &value), FOLDCAST_SUCCESS);
  EXPECT_EQ(value, 0);
}

TEST_F(OneRank, AllReduceCopies) {
  std::vector<float> send{1, 2, 3}, recv(3);
  EXPECT_EQ(foldcast_all_reduce(send.data(), recv.data(), 3, FOLDCAST_FLOAT32, FOLDCAST_SUM, comm_, nullptr),
            FOLDCAST_SUCCESS);
  EXPECT_EQ(recv, send);
  EXPECT_EQ(foldcast_all_reduce(FOLDCAST_IN_PLACE, recv.data(), 3, FOLDCAST_FLOAT32, FOLDCAST_AVG, comm_, nullptr),
            FOLDCAST_SUCCESS);
  EXPECT_EQ(recv, send);
  EXPECT_EQ(foldcast_all_reduce(nullptr, nullptr, 0, FOLDCAST_FLOAT32, FOLDCAST_SUM, comm_, nullptr), FOLDCAST_SUCCESS);
  EXPECT_EQ(foldcast_barrier(comm_, nullptr), FOLDCAST_SUCCESS);
}

TEST_F(OneRank, NonBlocking) {
  std::int64_t value = 5;
  foldcast_request_t request = nullptr;
  ASSERT_EQ(foldcast_iall_reduce(FOLDCAST_IN_PLACE, &value, 1, FOLDCAST_INT64, FOLDCAST_MAX, comm_, nullptr, &request),
            FOLDCAST_SUCCESS);
  int done = 0;
  while (done == 0) ASSERT_EQ(foldcast_request_test(&request, &done), FOLDCAST_SUCCESS);
  EXPECT_EQ(request, nullptr);
  EXPECT_EQ(foldcast_request_wait(&request), FOLDCAST_SUCCESS);
  EXPECT_EQ(value, 5);
}

TEST_F(OneRank, BadArgumentsExplainThemselves) {
  float x[2] = {};
  const auto expect = [](foldcast_result_t result, foldcast_result_t code, const char* words) {
    EXPECT_EQ(result, code);
    EXPECT_NE(std::string(foldcast_last_error()).find(words), std::string::npos) << foldcast_last_error();
  };
  expect(foldcast_all_reduce(x, nullptr, 1, FOLDCAST_FLOAT32, FOLDCAST_SUM, comm_, nullptr), FOLDCAST_INVALID_ARGUMENT,
         "receive buffer is NULL");
  expect(foldcast_all_reduce(x, reinterpret_cast<char*>(x) + 1, 1, FOLDCAST_FLOAT32, FOLDCAST_SUM, comm_, nullptr),
         FOLDCAST_INVALID_ARGUMENT, "overlap");
  expect(foldcast_all_reduce(x, x, 1, static_cast<foldcast_datatype_t>(77), FOLDCAST_SUM, comm_, nullptr),
         FOLDCAST_INVALID_ARGUMENT, "unknown datatype");
  expect(foldcast_all_reduce(x, x, 1, FOLDCAST_FLOAT32, static_cast<foldcast_op_t>(-1), comm_, nullptr),
         FOLDCAST_INVALID_ARGUMENT, "unknown op");
  expect(foldcast_all_reduce(x, x, 1, FOLDCAST_FLOAT32, FOLDCAST_SUM, nullptr, nullptr), FOLDCAST_INVALID_ARGUMENT,
         "communicator is NULL");
  expect(foldcast_all_reduce(x, x, 1, FOLDCAST_FLOAT32, FOLDCAST_SUM, comm_, x), FOLDCAST_UNSUPPORTED, "stream");
  expect(foldcast_comm_set_path(comm_, static_cast<foldcast_path_t>(9)), FOLDCAST_INVALID_ARGUMENT, "unknown path");
  expect(foldcast_comm_init(nullptr), FOLDCAST_INVALID_ARGUMENT, "NULL");
  EXPECT_EQ(foldcast_comm_destroy(nullptr), FOLDCAST_SUCCESS);
}

TEST_F(OneRank, ExplainsAndPrints) {
  const char* text = nullptr;
  foldcast_shape_t shape{FOLDCAST_ALL_REDUCE, 4, FOLDCAST_FLOAT32, FOLDCAST_SUM, 0};
  ASSERT_EQ(foldcast_explain(comm_, &shape, &text), FOLDCAST_SUCCESS);
  EXPECT_NE(std::string(text).find("chosen: self"), std::string::npos) << text;
  ASSERT_EQ(foldcast_steps(comm_, &shape, FOLDCAST_STEPS_TEXT, &text), FOLDCAST_SUCCESS);
  EXPECT_NE(std::string(text).find("copy"), std::string::npos) << text;
  ASSERT_EQ(foldcast_steps(comm_, &shape, FOLDCAST_STEPS_GRAPHVIZ, &text), FOLDCAST_SUCCESS);
  EXPECT_EQ(std::string(text).rfind("digraph", 0), 0u) << text;
  EXPECT_EQ(foldcast_steps(comm_, &shape, static_cast<foldcast_steps_format_t>(7), &text), FOLDCAST_INVALID_ARGUMENT);
  foldcast_plan_info_t info;
  shape = {FOLDCAST_ALL_REDUCE, SIZE_MAX / 2, FOLDCAST_FLOAT64, FOLDCAST_SUM, 0};
  EXPECT_EQ(foldcast_plan(comm_, &shape, &info), FOLDCAST_INVALID_ARGUMENT);
  shape = {FOLDCAST_ALL_REDUCE, SIZE_MAX, FOLDCAST_INT8, FOLDCAST_SUM, 0};
  EXPECT_EQ(foldcast_explain(comm_, &shape, &text), FOLDCAST_INVALID_ARGUMENT);
  shape.collective = static_cast<foldcast_collective_t>(99);
  EXPECT_EQ(foldcast_explain(comm_, &shape, &text), FOLDCAST_INVALID_ARGUMENT);
}

TEST(CAbi, AnUnknownTransportIsNotReplacedSilently) {
  ::setenv("FOLDCAST_TRANSPORT", "pigeon", 1);
  foldcast_comm_t comm = nullptr;
  EXPECT_EQ(foldcast_comm_init(&comm), FOLDCAST_INVALID_ARGUMENT);
  EXPECT_NE(std::string(foldcast_last_error()).find("pigeon"), std::string::npos);
  ::unsetenv("FOLDCAST_TRANSPORT");
}

TEST(CAbi, NamesMatchTheLibrarys) {
  EXPECT_STREQ(foldcast_version(), "0.1.0");
  EXPECT_STREQ(foldcast_datatype_string(FOLDCAST_BFLOAT16), "bfloat16");
  EXPECT_STREQ(foldcast_op_string(FOLDCAST_AVG), "avg");
  EXPECT_STREQ(foldcast_result_string(FOLDCAST_PEER_FAILED), "peer failed");
  EXPECT_STREQ(foldcast_result_string(FOLDCAST_INTERNAL_ERROR), "internal error");
  EXPECT_STREQ(foldcast_result_string(static_cast<foldcast_result_t>(256)), "unknown");
  EXPECT_EQ(foldcast_datatype_size(FOLDCAST_FLOAT64), 8u);
  EXPECT_EQ(foldcast_datatype_size(static_cast<foldcast_datatype_t>(40)), 0u);
}

TEST(CppFace, ThrowsWhatFails) {
  foldcast::api::Communicator comm;
  std::vector<double> values{1, 2};
  comm.all_reduce(std::span(values));
  EXPECT_EQ(values, (std::vector<double>{1, 2}));
  EXPECT_THROW(comm.all_reduce(values.data(), values.data() + 1, 2, FOLDCAST_FLOAT64, FOLDCAST_SUM),
               foldcast::api::Error);
  EXPECT_EQ(comm.size(), 1);
  const foldcast_shape_t shape{FOLDCAST_ALL_REDUCE, 1024, FOLDCAST_FLOAT32, FOLDCAST_SUM, 0};
  EXPECT_FALSE(comm.explain(shape).empty());
  EXPECT_STREQ(comm.plan(shape).name, "self");
}

}  // namespace
