#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/netlink_socket.h"
#include "core/verdict.h"

namespace nft {

enum class Change { add = 0, remove = 1, flush = 2 };

// What `data` holds: keys one after another, or pairs of first and last key, both inclusive.
enum class Shape {
  keys = 0,
  ranges = 1,               // one field: a start element and an end element (last + 1)
  concatenated_ranges = 2,  // several fields: one element with a closing key
};

// One change of one set. `verdict_of` has an index into `verdicts` for every key or range, or is empty.
struct SetOperation {
  Change change = Change::add;
  Shape shape = Shape::keys;
  uint8_t family = 0;
  std::string table;
  std::string set;
  uint32_t key_length = 0;
  std::vector<uint8_t> data;
  std::vector<uint32_t> verdict_of;
  std::vector<Verdict> verdicts;
};

struct BatchResult {
  uint32_t before = 0;
  uint32_t after = 0;
  double build_microseconds = 0;
  double kernel_microseconds = 0;
};

// Sends all operations as one transaction: either all of them happen or none. Throws Failure with the operation and, where
// the kernel names it, the element.
BatchResult send_batch(NetlinkSocket& socket, const std::vector<SetOperation>& operations);

}  // namespace nft
