#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nft {

// A message that came back, with how long ago (milliseconds).
struct EchoMessage {
  std::string source;  // 4 or 16 bytes
  std::string message;
  double age;
};

// Sends ICMP messages, and receives echo replies (a raw socket, or a datagram socket: icmp(7)). No
// call waits: replies stay in the socket's buffer until they are asked for, whatever else the process
// does meanwhile.
class EchoSocket {
 public:
  // The most messages that one receive() returns.
  static constexpr size_t most_messages = 256;

  // `family`: 4 or 6. `device`: only by this one; empty: any. `peer`: only with this address; empty:
  // any. `datagram`: needs no capability where net.ipv4.ping_group_range has the process's group; the
  // kernel chooses the identifier, and hands over replies with it alone.
  EchoSocket(int family, const std::string& device, const std::string& peer, bool datagram);
  ~EchoSocket();
  EchoSocket(const EchoSocket&) = delete;
  EchoSocket& operator=(const EchoSocket&) = delete;

  // A whole ICMP message; the kernel fills in the checksum of ICMPv6 alone.
  void send(const std::string& address, const std::string& message);
  // ENODEV if the device was replaced by another one of its name.
  std::vector<EchoMessage> receive();

 private:
  void set_up(const std::string& peer);

  int family_;
  bool datagram_;
  std::string device_;
  unsigned index_ = 0;
  int fd_;
};

}  // namespace nft
