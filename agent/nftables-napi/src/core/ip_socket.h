#pragma once

#include <string>

namespace nft {

// Whole IP packets of one family, with their headers, from any source address (SOCK_RAW with
// IPPROTO_RAW). They pass routing, conntrack and the hooks of netfilter like the machine's own
// packets. No call waits, and nothing is received.
class IpSocket {
 public:
  // `family`: 4 or 6.
  explicit IpSocket(int family);
  ~IpSocket();
  IpSocket(const IpSocket&) = delete;
  IpSocket& operator=(const IpSocket&) = delete;

  // The kernel computes IPv4's header checksum, and no other.
  void send(const std::string& packet);

 private:
  int family_;
  int fd_;
};

}  // namespace nft
