#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "core/listener.h"
#include "core/netlink_socket.h"

namespace nft {

// The argument of one call of the listener.
struct RouteBatch {
  std::string messages;  // whole ones, as the kernel sent them
  bool overrun = false;  // before, amid or after them, an unknown number is lost
  int err = 0;           // the socket failed; this batch is the last one

  bool empty() const { return messages.empty() && !overrun && err == 0; }
};

// For Listener: keeps messages as they are. lib/rtnetlink/ and lib/conntrack-monitor.ts read them.
class RouteDecoder {
 public:
  using Batch = RouteBatch;

  void take(const nlmsghdr* message, Batch& batch) {
    batch.messages.append(reinterpret_cast<const char*>(message), message->nlmsg_len);
  }
  void overrun(Batch& batch) { batch.overrun = true; }
  void fail(int err, Batch& batch) { batch.err = err; }
  bool is_full(const Batch& batch) { return batch.messages.size() >= 256 * 1024; }
};

using RouteMonitor = Listener<RouteDecoder>;

// `groups`: one bit for each multicast group of the protocol, the first for group 1. `pause`: see
// Listener.
inline std::unique_ptr<RouteMonitor> open_route_monitor(
    uint32_t groups, int receive_buffer, int protocol,
    std::chrono::milliseconds pause = std::chrono::milliseconds(0)) {
  return std::make_unique<RouteMonitor>(std::make_unique<NetlinkSocket>(groups, receive_buffer, protocol),
                                        RouteDecoder{}, pause);
}

}  // namespace nft
