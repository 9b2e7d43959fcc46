//===- PtxMachine.h - Runs PTX without a GPU --------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An interpreter of the PTX that generated kernels are, those of the warp level
// and the portable ones. It knows no more instructions than they have, and
// refuses others. It is there to find
// what an assembler does not: wrong addresses, layouts and phases, deadlocks,
// races. So it is strict where a GPU may be lucky:
//   - warps run in random order, a random number of instructions at a time, and
//     one of them at times far behind the others;
//   - asynchronous copies land late: their place is poisoned at once, and gets
//     the bytes at a random time before the barrier that they arrive at;
//   - products take place at a random time between their start and the wait for
//     them; until then their sums can't be read and their operands in registers
//     can't be written;
//   - products see what threads and their copies wrote only after a proxy
//     fence; what was fetched by tensor maps they see without;
//   - a tensor map is used only by threads that have acquired it;
//   - blocks of a cluster run side by side; none is signalled after its end;
//   - instructions of a whole warp need all of its lanes, and all warps of a
//     warpgroup execute the same ones of the group;
//   - every access to global memory lies in an array that was announced;
//   - when no warp can go on, that is an error.
// Source: PTX ISA 9.0.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_WARP_PTXMACHINE_H
#define HEDDLE_TEST_UNIT_WARP_PTXMACHINE_H

#include <array>
#include <cstdint>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::test {

/// What a kernel does that it must not, or an instruction that is not known.
struct PtxError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// An operand: a register, a constant, a list of registers or an address.
struct PtxOperand {
  enum class Kind { Register, Constant, List, Address, Special } kind;
  int64_t value = 0; ///< register's number, bits of the constant, or offset
  int64_t base = -1; ///< of an address: a register's number
  std::vector<int64_t> list; ///< of an address: coordinates
};

struct PtxInstruction {
  std::string name;               ///< "ld.global.v4.b32"
  std::vector<std::string> parts; ///< of the name, without the first
  std::string word;               ///< the first: "ld"
  std::vector<PtxOperand> operands;
  int64_t guard = -1; ///< register of a predicate
  bool negated = false;
  int64_t target = -1; ///< of a branch
  std::string text;

  bool has(std::string_view part) const;
};

/// A kernel's instructions, one after the other.
struct PtxProgram {
  /// Parses the entry `symbol` of a module.
  PtxProgram(std::string_view ptx, std::string_view symbol);

  std::vector<PtxInstruction> instructions;
  int64_t registers = 0;
  std::map<int64_t, int64_t> constants; ///< in lists, by register
  int64_t threads = 0;
  int64_t cluster = 1; ///< blocks that run together
};

/// What this machine takes for a tensor map: 128 bytes, as those that a driver
/// encodes. A matrix of 16-bit elements and the box that a copy brings of it.
struct alignas(64) PtxTensorMap {
  static constexpr uint64_t known = 0x70616d20726f736e;
  uint64_t mark = known;
  uint64_t address = 0;
  int64_t columns = 0, rows = 0, stride = 0; ///< the last in bytes
  int64_t boxColumns = 0, boxRows = 0;
  int64_t unused[9] = {};
};
static_assert(sizeof(PtxTensorMap) == 128);

/// One block of threads, or those of a cluster.
class PtxMachine {
public:
  PtxMachine(const PtxProgram &program, int64_t sharedBytes, uint64_t seed);

  /// How many blocks the grid has.
  std::array<uint32_t, 3> grid = {1, 1, 1};

  /// Announces an array that the kernel may read and write.
  void allow(const void *from, int64_t bytes) {
    ranges.push_back(
        {reinterpret_cast<uint64_t>(from),
         reinterpret_cast<uint64_t>(from) + static_cast<uint64_t>(bytes)});
  }

  /// Runs block (x, y, z) to its end, with the others of its cluster, of which
  /// it is the first. Throws a PtxError.
  void run(const std::array<uint32_t, 3> &block,
           const std::vector<uint64_t> &parameters);

private:
  static constexpr int lanes = 32;
  /// Where shared memory begins: aligned as PTX asks, and no more.
  static constexpr int64_t sharedStart = 3072;

  struct Range {
    uint64_t from, end;
  };
  struct Product {
    const PtxInstruction *instruction;
    uint64_t left, right; ///< descriptors
    bool adds;
  };
  struct Copy {
    int64_t to = 0; ///< as `placeOf` says
    int64_t size = 16;
    std::array<uint8_t, 16> bytes = {};
  };
  /// Copies of a warp and the barriers that its lanes arrive at, or a box and
  /// the barrier that is told of its bytes.
  struct Landing {
    std::vector<Copy> copies;
    std::vector<int64_t> barriers;
    int64_t fetched = 0; ///< bytes of a box
  };
  struct Barrier {
    int64_t count = 0, pending = 0, phase = 0;
    int64_t bytes = 0; ///< expected that have not come
  };
  struct Warp {
    int64_t number = 0;                        ///< in its block
    int64_t block = 0;                         ///< in the cluster
    std::array<int64_t, lanes> atCluster = {}; ///< arrivals at its barrier
    std::array<int64_t, lanes> pc = {};
    std::array<bool, lanes> done = {};
    std::vector<uint64_t> values; ///< [register][lane]
    std::vector<uint8_t> flying;  ///< registers that products write
    std::vector<uint8_t> held;    ///< registers that products read
    std::vector<Product> open, committed;
    std::vector<Copy> copies;
    std::vector<std::vector<Copy>> groups; ///< that are committed
    uint64_t fenced = 0;                   ///< time of the last proxy fence
    int64_t waitsFor = -1;                 ///< number of a named barrier
    int64_t steps = 0;                     ///< instructions of its warpgroup
  };

  bool step(Warp &warp);
  bool stepAt(Warp &warp, int64_t at, uint32_t mask);
  bool execute(Warp &warp, const PtxInstruction &op, uint32_t mask);
  bool executeMemory(Warp &warp, const PtxInstruction &op, uint32_t mask);
  bool executeWarp(Warp &warp, const PtxInstruction &op, uint32_t mask);
  void compute(Warp &warp, const PtxInstruction &op, int lane);
  bool waitsForBarrier(Warp &warp, const PtxInstruction &op, uint32_t mask);
  void startProduct(Warp &warp, const PtxInstruction &op);
  void finishProducts(Warp &warp);
  void loadMatrices(Warp &warp, const PtxInstruction &op);
  void multiplyAtOnce(Warp &warp, const PtxInstruction &op);
  void multiply(Warp &warp, const Product &product);
  float element(Warp &warp, bool bf16, uint64_t descriptor, int64_t row,
                int64_t depth, bool along);
  void land(size_t which);
  Barrier &barrierAt(int64_t place);
  void arrive(int64_t place);
  static void complete(Barrier &barrier);
  void fetch(Warp &warp, const PtxInstruction &op, int lane);
  bool clusterHasMet();
  bool meetCluster(Warp &warp, const PtxInstruction &op, uint32_t mask);
  bool meetBlock(Warp &warp, const PtxInstruction &op);
  void keepStep(Warp &warp, const PtxInstruction &op);
  bool haveParted();

  uint64_t read(Warp &warp, const PtxOperand &operand, int lane,
                bool product = false) const;
  void write(Warp &warp, const PtxOperand &operand, int lane, uint64_t value);
  void write(Warp &warp, int64_t number, int lane, uint64_t value);
  uint64_t addressOf(Warp &warp, const PtxOperand &operand, int lane) const;
  uint8_t *globalAt(uint64_t address, int64_t bytes) const;
  /// Where `bytes` bytes of shared memory are in `shared`.
  int64_t placeOf(const Warp &warp, uint64_t address, int64_t bytes) const;
  void touch(Warp &warp, int64_t place, int64_t bytes);
  bool ended(int64_t block) const;
  bool chance(int percent) {
    return static_cast<int>(random() % 100) < percent;
  }
  [[noreturn]] void fail(const Warp &warp, const PtxInstruction &op,
                         const std::string &what) const;

  const PtxProgram &program;
  std::mt19937_64 random;
  std::vector<Range> ranges;
  int64_t sharedBytes, window; ///< of a block, and until the next one's
  std::vector<uint8_t> shared;
  /// Of 16 bytes of shared memory: when they were written, and by which warp.
  std::vector<uint64_t> writtenAt;
  std::vector<int32_t> writtenBy;
  uint64_t time = 0;
  std::vector<Warp> warps;
  std::vector<Landing> landings;
  std::map<int64_t, Barrier> barriers; ///< by place
  struct NamedBarrier {
    int64_t arrived = 0; ///< threads
    bool votes = false;  ///< of those that have arrived
    bool vote = false, result = false;
  };
  std::vector<std::array<NamedBarrier, 16>> named; ///< of a block
  /// Instructions of a block's warpgroup, as far as its first warp is.
  std::map<std::pair<int64_t, int64_t>, std::vector<const PtxInstruction *>>
      stepsOf;
  int64_t clusterPhase = 0; ///< of the cluster's barrier
  std::map<std::pair<const Warp *, int>, std::vector<uint64_t>> acquired;
  std::array<uint32_t, 3> block = {};
  std::vector<uint64_t> parameters;
};

float fromHalf(bool bf16, uint16_t bits);
uint16_t toHalf(bool bf16, float value);

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_WARP_PTXMACHINE_H
