// How fast the kernels are against the memory they run on.
//
// Names are what/datatype or format/how/bytes, the bytes those of one operand (of wire formats: of the floats): 4 KiB
// fit the nearest cache, 256 KiB the next, 64 MiB none. bytes_per_second counts each byte that is read or written once:
// two for a copied byte, n + 1 for a reduction of n inputs into a further buffer. items_per_second counts elements of
// the result. limit/* is what memory gives: the same streams with next to no arithmetic. Compare within one run.

#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/base/datatype.h"
#include "core/base/reduce_op.h"
#include "kernels/reducer.h"
#include "kernels/wire_format.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace foldcast::kernels {
namespace {

/// Operands begin at different places of a page, as those of a program do: equal ones make loads wait for stores.
class Buffer {
 public:
  Buffer(std::size_t bytes, std::size_t number) : memory_(bytes + 4096 + 64) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    start_ = (0 - address) % 64 + number * 576 % 4096;
  }
  std::byte* data() { return memory_.data() + start_; }

 private:
  std::vector<std::byte> memory_;
  std::size_t start_;
};

/// Small positive numbers in any of the types: no NaNs, no subnormals, no overflow.
std::vector<Buffer> operands(std::size_t how_many, std::size_t bytes) {
  std::vector<Buffer> buffers;
  for (std::size_t k = 0; k < how_many; ++k) {
    buffers.emplace_back(bytes, k);
    std::memset(buffers.back().data(), 0x3C, bytes);
  }
  return buffers;
}

std::size_t bytes_of(const benchmark::State& state) { return static_cast<std::size_t>(state.range(0)); }

void report(benchmark::State& state, std::size_t bytes, std::size_t items) {
  const auto rounds = static_cast<std::int64_t>(state.iterations());
  state.SetBytesProcessed(rounds * static_cast<std::int64_t>(bytes));
  state.SetItemsProcessed(rounds * static_cast<std::int64_t>(items));
}

enum class Copy { kLibc, kKernel };

/// With `just_beyond` the target lies 16 bytes further into its page than the source: some processors' string
/// instructions, which C libraries copy with, then do a few bytes at a time.
void copying(benchmark::State& state, Copy by, bool just_beyond) {
  const std::size_t bytes = bytes_of(state);
  auto buffers = operands(2, bytes + 4096);
  const std::byte* const source = buffers[0].data();
  std::byte* target = buffers[1].data();
  if (just_beyond) {
    target += (reinterpret_cast<std::uintptr_t>(source) + 16 - reinterpret_cast<std::uintptr_t>(target)) % 4096;
  }
  for (auto _ : state) {
    by == Copy::kLibc ? void(std::memcpy(target, source, bytes)) : copy_bytes(target, source, bytes);
    benchmark::ClobberMemory();
  }
  report(state, 2 * bytes, bytes);
}

#ifdef __SSE2__
/// Two inputs read and one target written past the caches, joined by the cheapest instruction there is.
void triad(benchmark::State& state) {
  const std::size_t bytes = bytes_of(state);
  auto buffers = operands(3, bytes);
  const auto* const a = reinterpret_cast<const __m128i*>(buffers[0].data());
  const auto* const b = reinterpret_cast<const __m128i*>(buffers[1].data());
  auto* const target = reinterpret_cast<__m128i*>(buffers[2].data());
  for (auto _ : state) {
    for (std::size_t i = 0; i < bytes / 16; i += 4) {
      for (std::size_t k = i; k < i + 4; ++k) {
        _mm_stream_si128(target + k, _mm_or_si128(_mm_load_si128(a + k), _mm_load_si128(b + k)));
      }
    }
    _mm_sfence();
    benchmark::ClobberMemory();
  }
  report(state, 3 * bytes, bytes);
}
#endif

struct Reduction {
  ReduceOp op;
  Datatype dtype;
  std::size_t inputs;
  bool in_place = false;
};

void reduction(benchmark::State& state, const Reduction& what) {
  const std::size_t bytes = bytes_of(state);
  auto buffers = operands(what.inputs + 1, bytes);
  std::vector<const std::byte*> inputs;
  for (std::size_t k = 0; k < what.inputs; ++k) inputs.push_back(buffers[k].data());
  std::byte* const target = what.in_place ? buffers[0].data() : buffers.back().data();
  const std::size_t count = bytes / size_of(what.dtype);
  for (auto _ : state) {
    reduce_n(what.op, what.dtype, target, inputs, count);
    benchmark::ClobberMemory();
  }
  report(state, (what.inputs + 1) * bytes, count);
}

void average(benchmark::State& state, Datatype dtype) {
  const std::size_t bytes = bytes_of(state);
  auto buffers = operands(1, bytes);
  for (auto _ : state) {
    divide(dtype, buffers[0].data(), 3, bytes / size_of(dtype));
    benchmark::ClobberMemory();
  }
  report(state, 2 * bytes, bytes / size_of(dtype));
}

enum class Direction { kEncode, kEncodeAndRound, kDecode };

void wire(benchmark::State& state, WireFormat format, Direction direction) {
  const std::size_t bytes = bytes_of(state);
  const std::size_t count = bytes / sizeof(float);
  const std::size_t encoded = wire_bytes(format, count);
  auto buffers = operands(2, bytes);
  auto* const values = reinterpret_cast<float*>(buffers[0].data());
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 1009) / 512 - 1;
  encode(format, buffers[1].data(), values, count);
  for (auto _ : state) {
    if (direction == Direction::kEncode) encode(format, buffers[1].data(), values, count);
    if (direction == Direction::kEncodeAndRound) encode_and_round(format, buffers[1].data(), values, count);
    if (direction == Direction::kDecode) decode(format, values, buffers[1].data(), count);
    benchmark::ClobberMemory();
  }
  report(state, (direction == Direction::kEncodeAndRound ? 2 * bytes : bytes) + encoded, count);
}

template <class... Arguments>
void add(const std::string& name, Arguments... arguments) {
  auto* const bench = benchmark::RegisterBenchmark(name.c_str(), arguments...);
  for (const std::int64_t bytes : {4 << 10, 256 << 10, 64 << 20}) bench->Arg(bytes);
}

void add_reduction(const Reduction& what) {
  const std::string name = "reduce/" + std::string(to_string(what.dtype)) + "/" + std::string(to_string(what.op)) +
                           std::to_string(what.inputs) + (what.in_place ? "_in_place" : "");
  add(name, reduction, what);
}

void add_all() {
  for (const bool just_beyond : {false, true}) {
    const std::string where = just_beyond ? "_just_beyond" : "";
    add("copy/bytes/memcpy" + where, copying, Copy::kLibc, just_beyond);
    add("copy/bytes/kernel" + where, copying, Copy::kKernel, just_beyond);
  }
#ifdef __SSE2__
  add("limit/bytes/triad", triad);
#endif
  constexpr Datatype kFloats[] = {Datatype::kFloat32, Datatype::kFloat64,    Datatype::kBfloat16,
                                  Datatype::kFloat16, Datatype::kFloat8E4m3, Datatype::kFloat8E5m2};
  for (const Datatype dtype : kFloats) {
    for (const std::size_t inputs : {2, 4}) add_reduction({ReduceOp::kSum, dtype, inputs});
  }
  for (const Datatype dtype : {Datatype::kFloat32, Datatype::kBfloat16, Datatype::kFloat8E4m3}) {
    add_reduction({ReduceOp::kMin, dtype, 2});
  }
  for (const std::size_t inputs : {2, 4}) add_reduction({ReduceOp::kSum, Datatype::kInt32, inputs});
  add_reduction({.op = ReduceOp::kSum, .dtype = Datatype::kInt32, .inputs = 2, .in_place = true});
  add_reduction({ReduceOp::kProd, Datatype::kInt8, 2});
  add_reduction({ReduceOp::kProd, Datatype::kInt64, 2});
  add_reduction({ReduceOp::kLand, Datatype::kBool, 2});
  for (const Datatype dtype : {Datatype::kFloat32, Datatype::kBfloat16, Datatype::kInt32}) {
    add("divide/" + std::string(to_string(dtype)) + "/3", average, dtype);
  }
  for (const WireFormat format : {WireFormat::kBfloat16, WireFormat::kFloat16, WireFormat::kFloat8}) {
    const std::string name = "wire/" + std::string(to_string(format));
    add(name + "/encode", wire, format, Direction::kEncode);
    add(name + "/encode_and_round", wire, format, Direction::kEncodeAndRound);
    add(name + "/decode", wire, format, Direction::kDecode);
  }
}

}  // namespace
}  // namespace foldcast::kernels

int main(int argc, char** argv) {
  foldcast::kernels::add_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
