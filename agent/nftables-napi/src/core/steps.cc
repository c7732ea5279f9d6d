#include <cerrno>
#include <cstring>

#include "core/batch.h"
#include "core/failure.h"

namespace nft {

namespace {

// The header of lib/record.ts, in the machine's byte order. Behind it: attributes, data, value_at,
// values, each padded to 4 bytes.
struct Header {
  uint32_t operation;
  uint16_t message;
  uint16_t flags;
  uint8_t family;
  uint8_t shape;
  uint8_t whole;
  uint8_t reserved;
  uint32_t attributes;  // these four: bytes
  uint32_t data;
  uint32_t value_at;
  uint32_t values;
  uint32_t key_length;
};
static_assert(sizeof(Header) == 32);

void require(bool holds, const char* what) {
  if (!holds) throw Failure(EINVAL, what);
}

size_t padded(size_t length) { return (length + 3) & ~size_t{3}; }

class Packed {
 public:
  explicit Packed(std::span<const uint8_t> bytes) : rest_(bytes) {}

  bool empty() const { return rest_.empty(); }
  std::span<const uint8_t> take(size_t length) {
    require(padded(length) <= rest_.size(), "a record is cut off");
    const auto taken = rest_.first(length);
    rest_ = rest_.subspan(padded(length));
    return taken;
  }

 private:
  std::span<const uint8_t> rest_;
};

size_t width_of(const Step& step) { return step.key_length * (step.shape == Shape::keys ? 1 : 2); }

void check(const Step& step) {
  require(step.attributes.size() % 4 == 0, "attributes");
  if (step.shape == Shape::none) return;
  require(step.key_length > 0 && step.key_length <= NFT_DATA_VALUE_MAXLEN, "key length");
  require(step.data.size() % width_of(step) == 0, "length of the keys");
  require(step.value_at.empty() || step.value_at.size() == step.data.size() / width_of(step), "number of values");
  for (const uint32_t at : step.value_at) {
    require(at % 4 == 0 && at < step.values.size() && step.values.size() - at >= sizeof(nlattr), "value");
    const auto* value = reinterpret_cast<const nlattr*>(step.values.data() + at);
    require(value->nla_len >= sizeof(nlattr) && padded(value->nla_len) <= step.values.size() - at, "value length");
  }
}

}  // namespace

std::vector<Step> read_steps(std::span<const uint8_t> packed) {
  std::vector<Step> steps;
  for (Packed rest(packed); !rest.empty();) {
    Header header;
    std::memcpy(&header, rest.take(sizeof header).data(), sizeof header);
    Step step;
    step.operation = header.operation;
    step.message = header.message;
    step.flags = header.flags;
    step.family = header.family;
    require(header.shape <= static_cast<uint8_t>(Shape::concatenated_ranges), "shape");
    step.shape = static_cast<Shape>(header.shape);
    step.whole = header.whole != 0;
    step.key_length = header.key_length;
    step.attributes = rest.take(header.attributes);
    step.data = rest.take(header.data);
    const auto value_at = rest.take(header.value_at);
    step.value_at = {reinterpret_cast<const uint32_t*>(value_at.data()), value_at.size() / sizeof(uint32_t)};
    step.values = rest.take(header.values);
    check(step);
    steps.push_back(step);
  }
  return steps;
}

}  // namespace nft
