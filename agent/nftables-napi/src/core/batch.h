#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/netlink_socket.h"

namespace nft {

// The content of a step's `data`: keys one after another, or pairs of first and last key, both
// inclusive.
enum class Shape : uint8_t {
  none = 0,  // no elements: the attributes are all of the message
  keys = 1,
  ranges = 2,               // one field: a start element and an end element (last + 1)
  concatenated_ranges = 3,  // several fields: one element with a closing key
};

// One message, or the many that its elements take. Points into memory of the caller.
struct Step {
  uint32_t operation = 0;  // what errors name
  uint16_t message = 0;    // NFT_MSG_*
  uint16_t flags = 0;      // NLM_F_* besides NLM_F_REQUEST
  uint8_t family = 0;
  Shape shape = Shape::none;
  // Ranges as libnftables writes a whole anonymous set: a first end at key 0, a mark at what is
  // open to the right.
  bool whole = false;
  std::span<const uint8_t> attributes;  // as they go to the kernel, before the elements
  uint32_t key_length = 0;
  std::span<const uint8_t> data;
  // For every key or range the offset of an attribute in `values` (NFTA_SET_ELEM_DATA, padded);
  // empty for a set.
  std::span<const uint32_t> value_at;
  std::span<const uint8_t> values;
};

// The steps in a packed buffer, which must outlive them; lib/record.ts writes it. Throws Failure
// (EINVAL) where it doesn't add up.
std::vector<Step> read_steps(std::span<const uint8_t> packed);

// The last count of a deleted rule with a counter whose step asked for it (NLM_F_ECHO).
struct LastCount {
  uint32_t operation = 0;
  uint64_t packets = 0;
  uint64_t bytes = 0;
};

struct BatchResult {
  uint32_t before = 0;
  uint32_t after = 0;
  std::vector<LastCount> last_counts;
  double build_microseconds = 0;
  double kernel_microseconds = 0;
};

// Sends all steps as one transaction: either all of them happen or none. Throws Failure with the
// operation and, where the kernel names it, the element or the expression.
BatchResult send_batch(NetlinkSocket& socket, const std::vector<Step>& steps);

}  // namespace nft
