#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/listener.h"
#include "core/netlink_socket.h"

namespace nft {

// A network interface; lib/links.ts has what each member means.
struct Link {
  uint32_t index = 0;
  std::string name;
  std::optional<std::string> kind;
  uint32_t group = 0;
  std::optional<uint32_t> master;
  std::optional<uint32_t> peer;
  std::optional<int32_t> peer_namespace;
  bool is_loopback = false;
  bool is_up = false;
};

// An rtnetlink socket for the functions below.
std::unique_ptr<NetlinkSocket> open_links();

// All links as of one moment, by index: repeated until none came or went meanwhile. Throws EINTR
// after too many attempts.
std::vector<Link> dump_links(NetlinkSocket& socket);
// Empty if there is none with this index.
std::optional<Link> get_link(NetlinkSocket& socket, uint32_t index);
// 0 or the errno of the kernel's refusal. The index must not be 0.
int set_link_group(NetlinkSocket& socket, uint32_t index, uint32_t group);

struct LinkEvent {
  enum class Kind { link = 0, removed = 1, overrun = 2, error = 3, addresses = 4 };

  Kind kind = Kind::link;
  Link link;    // of Kind::link and Kind::removed
  int err = 0;  // of Kind::error
};

// For Listener.
class LinkDecoder {
 public:
  using Batch = std::vector<LinkEvent>;

  void take(const nlmsghdr* message, Batch& batch);
  void overrun(Batch& batch) { batch.push_back({.kind = LinkEvent::Kind::overrun, .link = {}, .err = 0}); }
  void fail(int err, Batch& batch) { batch.push_back({.kind = LinkEvent::Kind::error, .link = {}, .err = err}); }
  // Each datagram has one message.
  bool is_full(const Batch& batch) { return batch.size() >= 1024; }
};

using LinkMonitor = Listener<LinkDecoder>;

std::unique_ptr<LinkMonitor> open_link_monitor(int receive_buffer, bool with_addresses);

}  // namespace nft
