#pragma once

#include "kernels/cpu/targets.h"

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "hwy/highway.h"
#include "kernels/reducer.h"

namespace foldcast::kernels::test {

/// Run-time dispatch chooses `target` while this lives.
class ForcedTarget {
 public:
  explicit ForcedTarget(std::int64_t target) { choose(target); }
  ~ForcedTarget() { choose(0); }
  ForcedTarget(const ForcedTarget&) = delete;
  ForcedTarget& operator=(const ForcedTarget&) = delete;

 private:
  static void choose(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

/// Calls `body` under each instruction set that is compiled in and that this machine has.
template <class Body>
void on_every_target(const Body& body) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    const ForcedTarget forced(target);
    ASSERT_EQ(cpu_target(), hwy::TargetName(target));
    SCOPED_TRACE(std::string("on ") + hwy::TargetName(target));
    body();
    if (testing::Test::HasFatalFailure()) return;
  }
}

/// Names the instances of a test that is parameterised by datatype.
inline std::string datatype_name(const testing::TestParamInfo<Datatype>& tested) {
  return std::string(to_string(tested.param));
}

/// For INSTANTIATE_TEST_SUITE_P.
inline auto every_number() {
  return testing::Values(Datatype::kInt8, Datatype::kUint8, Datatype::kInt16, Datatype::kUint16, Datatype::kInt32,
                         Datatype::kUint32, Datatype::kInt64, Datatype::kUint64, Datatype::kFloat16,
                         Datatype::kBfloat16, Datatype::kFloat32, Datatype::kFloat64, Datatype::kFloat8E4m3,
                         Datatype::kFloat8E5m2);
}
inline auto every_datatype() {
  return testing::Values(Datatype::kInt8, Datatype::kUint8, Datatype::kInt16, Datatype::kUint16, Datatype::kInt32,
                         Datatype::kUint32, Datatype::kInt64, Datatype::kUint64, Datatype::kFloat16,
                         Datatype::kBfloat16, Datatype::kFloat32, Datatype::kFloat64, Datatype::kFloat8E4m3,
                         Datatype::kFloat8E5m2, Datatype::kBool);
}

}  // namespace foldcast::kernels::test
