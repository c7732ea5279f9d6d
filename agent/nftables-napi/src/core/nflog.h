#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/listener.h"
#include "core/netlink_socket.h"

namespace nft {

struct NflogOptions {
  uint16_t group = 0;
  uint32_t copy_range = 0;
  uint32_t queue_threshold = 0;
  uint32_t timeout = 0;  // in 1/100 s
  int receive_buffer = 0;
};

// The header before each packet in NflogBatch::records, in the machine's byte order; lib/nflog.ts
// reads it by the word. Behind it are both addresses of the original direction, then the payload,
// then padding to a multiple of 4.
struct NflogRecord {
  enum Flag : uint16_t { has_timestamp = 1, has_sequence = 2, has_original = 4, has_ports = 8 };

  uint32_t length;          // 0: of all this, a multiple of 4
  uint32_t payload_length;  // 1
  uint32_t prefix;          // 2: its index among the prefixes
  uint32_t hook_family;     // 3: family | hook << 8
  uint32_t protocol_flags;  // 4: EtherType | flags << 16
  uint32_t input;           // 5: link index, 0 for none
  uint32_t output;          // 6: link index, 0 for none
  uint32_t seconds;         // 7
  uint32_t microseconds;    // 8
  uint32_t sequence;        // 9
  uint32_t original;        // 10: protocol | bytes of an address << 8
  uint32_t ports;           // 11: destination | source << 16
};
static_assert(sizeof(NflogRecord) == 48);

struct NflogBatch {
  std::vector<uint8_t> records;
  std::map<std::string, uint32_t, std::less<>> prefixes;
  uint32_t packets = 0;
  uint32_t lost = 0;
  int err = 0;

  bool empty() const { return packets == 0 && lost == 0 && err == 0; }
};

// For Listener.
class NflogDecoder {
 public:
  using Batch = NflogBatch;

  explicit NflogDecoder(uint32_t queue_threshold) : queue_threshold_(queue_threshold) {}
  void take(const nlmsghdr* message, Batch& batch);
  void overrun(Batch& batch);
  void fail(int err, Batch& batch) { batch.err = err; }
  // A datagram has up to queue_threshold packets.
  bool is_full(const Batch& batch) { return batch.packets > 0 && batch.packets + queue_threshold_ > 1024; }

 private:
  void count_lost(uint32_t sequence, Batch& batch);

  uint32_t queue_threshold_;
  uint32_t next_sequence_ = 0;
  // An overrun was counted as one packet before the gap that says how many they were.
  bool is_overrun_counted_ = false;
};

using Nflog = Listener<NflogDecoder>;

// Binds the group. Throws EBUSY if another socket has it.
std::unique_ptr<Nflog> open_nflog(const NflogOptions& options);

}  // namespace nft
