#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace nft {

// Ethernet frames of one protocol on one link (AF_PACKET), of IPv6 only neighbour solicitations and
// advertisements. No call waits. Sees frames before netfilter does, and what it sends passes none of
// netfilter's hooks.
class PacketSocket {
 public:
  // The most frames that one receive() returns.
  static constexpr size_t most_frames = 64;
  // Longer frames are cut off: those that are read here are shorter than 100 bytes.
  static constexpr size_t longest_frame = 1514;

  // `protocol`: ETH_P_ARP or ETH_P_IPV6.
  PacketSocket(uint32_t link, uint16_t protocol);
  ~PacketSocket();
  PacketSocket(const PacketSocket&) = delete;
  PacketSocket& operator=(const PacketSocket&) = delete;

  // A whole frame, with its Ethernet header.
  void send(const std::vector<char>& frame);
  // Frames that wait, oldest first. Those that found no room in the socket's buffer are lost.
  std::vector<std::string> receive();

 private:
  int fd_;
};

}  // namespace nft
