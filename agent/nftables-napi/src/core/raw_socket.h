#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/netlink_socket.h"

namespace nft {

// A netlink socket of any protocol for messages that the caller builds and reads: lib/raw-socket.ts.
class RawSocket {
 public:
  explicit RawSocket(int protocol);

  // Sends the request of a dump, which `next` reads. One dump at a time.
  void dump(std::vector<char> request);
  // The dump's next messages, whole ones, until they have `limit` bytes; empty at the end. The kernel
  // makes them while they are read: a slow reader loses nothing. EINTR at the end if the kernel says
  // that what it dumped changed meanwhile (NLM_F_DUMP_INTR).
  std::string next(size_t limit);
  // Sends requests, one after another in one buffer, each with NLM_F_ACK. Returns all answers; the
  // sequence number of each is the index of its request.
  std::string exchange(std::vector<char> requests);

 private:
  void send(std::vector<char>& messages);
  // Calls on_message for each message that waits, until it returns false.
  template <class OnMessage>
  bool receive(OnMessage on_message);

  NetlinkSocket socket_;
  std::vector<char> buffer_;
  uint32_t sequence_ = 0;
  bool is_dumping_ = false;
  bool is_interrupted_ = false;
};

}  // namespace nft
