// How fast the kernels are against copying memory, which is the best a reduction of large operands can hope for.
//
// Sizes are bytes of one operand. The rate counts each byte that is read or written: two per element byte for memcpy,
// three for a two-input reduction into a third buffer, n + 1 for n inputs.

#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

#include "core/base/datatype.h"
#include "core/base/reduce_op.h"
#include "kernels/reducer.h"

namespace foldcast::kernels {
namespace {

using Buffer = std::vector<std::byte>;

/// Small positive numbers in any of the types: no NaNs, no subnormals, no overflow.
Buffer numbers(std::size_t bytes) { return Buffer(bytes, std::byte{0x3C}); }

void count_bytes(benchmark::State& state, std::int64_t streams) {
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * state.range(0) * streams);
}

void copy_memory(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const Buffer source = numbers(bytes);
  Buffer target(bytes);
  for (auto _ : state) {
    std::memcpy(target.data(), source.data(), bytes);
    benchmark::ClobberMemory();
  }
  count_bytes(state, 2);
}

void two_inputs(benchmark::State& state, ReduceOp op, Datatype dtype) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const Buffer a = numbers(bytes);
  const Buffer b = numbers(bytes);
  Buffer target(bytes);
  for (auto _ : state) {
    reduce(op, dtype, target.data(), a.data(), b.data(), bytes / size_of(dtype));
    benchmark::ClobberMemory();
  }
  count_bytes(state, 3);
}

/// Integers, whose sum stays any number however often it is added to; floats would run into infinity.
void in_place(benchmark::State& state, Datatype dtype) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const Buffer a(bytes);
  Buffer target = numbers(bytes);
  for (auto _ : state) {
    reduce(ReduceOp::kSum, dtype, target.data(), target.data(), a.data(), bytes / size_of(dtype));
    benchmark::ClobberMemory();
  }
  count_bytes(state, 3);
}

void several_inputs(benchmark::State& state, Datatype dtype, std::size_t input_count) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const std::vector<Buffer> inputs(input_count, numbers(bytes));
  std::vector<const std::byte*> pointers;
  for (const Buffer& input : inputs) pointers.push_back(input.data());
  Buffer target(bytes);
  for (auto _ : state) {
    reduce_n(ReduceOp::kSum, dtype, target.data(), pointers, bytes / size_of(dtype));
    benchmark::ClobberMemory();
  }
  count_bytes(state, static_cast<std::int64_t>(input_count) + 1);
}

void average(benchmark::State& state, Datatype dtype) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  Buffer target = numbers(bytes);
  for (auto _ : state) {
    divide(dtype, target.data(), 3, bytes / size_of(dtype));
    benchmark::ClobberMemory();
  }
  count_bytes(state, 2);
}

void sizes(benchmark::internal::Benchmark* bench) {
  for (const std::int64_t bytes : {64, 4 << 10, 256 << 10, 64 << 20}) bench->Arg(bytes);
}

BENCHMARK(copy_memory)->Apply(sizes);
BENCHMARK_CAPTURE(two_inputs, sum_float32, ReduceOp::kSum, Datatype::kFloat32)->Apply(sizes);
BENCHMARK_CAPTURE(two_inputs, min_float32, ReduceOp::kMin, Datatype::kFloat32)->Apply(sizes);
BENCHMARK_CAPTURE(two_inputs, sum_float64, ReduceOp::kSum, Datatype::kFloat64)->Apply(sizes);
BENCHMARK_CAPTURE(two_inputs, sum_bfloat16, ReduceOp::kSum, Datatype::kBfloat16)->Apply(sizes);
BENCHMARK_CAPTURE(two_inputs, sum_float16, ReduceOp::kSum, Datatype::kFloat16)->Apply(sizes);
BENCHMARK_CAPTURE(two_inputs, sum_int32, ReduceOp::kSum, Datatype::kInt32)->Apply(sizes);
BENCHMARK_CAPTURE(two_inputs, prod_int8, ReduceOp::kProd, Datatype::kInt8)->Apply(sizes);
BENCHMARK_CAPTURE(two_inputs, prod_int64, ReduceOp::kProd, Datatype::kInt64)->Apply(sizes);
BENCHMARK_CAPTURE(in_place, sum_int32, Datatype::kInt32)->Apply(sizes);
BENCHMARK_CAPTURE(several_inputs, sum_float32_3, Datatype::kFloat32, 3)->Apply(sizes);
BENCHMARK_CAPTURE(several_inputs, sum_float32_8, Datatype::kFloat32, 8)->Apply(sizes);
BENCHMARK_CAPTURE(several_inputs, sum_bfloat16_8, Datatype::kBfloat16, 8)->Apply(sizes);
BENCHMARK_CAPTURE(average, float32, Datatype::kFloat32)->Apply(sizes);
BENCHMARK_CAPTURE(average, int32, Datatype::kInt32)->Apply(sizes);

}  // namespace
}  // namespace foldcast::kernels

BENCHMARK_MAIN();
