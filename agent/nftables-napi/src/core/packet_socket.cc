#include "core/packet_socket.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "core/failure.h"

namespace nft {

namespace {

constexpr int packet_buffer = 256 * 1024;

// Neighbour solicitations and advertisements directly behind the IPv6 header: the kernel takes no
// others (RFC 4861 7.1 has no options before them).
constexpr uint32_t solicitation = 135;
constexpr uint32_t next_header_at = ETH_HLEN + 6;
constexpr uint32_t type_at = ETH_HLEN + 40;
const sock_filter neighbour_messages[] = {
    BPF_STMT(BPF_LD | BPF_B | BPF_ABS, next_header_at),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_ICMPV6, 0, 3),
    BPF_STMT(BPF_LD | BPF_B | BPF_ABS, type_at),
    BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, solicitation, 0, 1),
    BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, solicitation + 1, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, 0),
    BPF_STMT(BPF_RET | BPF_K, 0xffff),
};

void must(int result, const char* what) {
  if (result < 0) throw Failure(errno, what);
}

// Without a protocol nothing arrives before the filter is there.
void set_up(int fd, uint32_t link, uint16_t protocol) {
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &packet_buffer, sizeof packet_buffer);
  if (protocol == ETH_P_IPV6) {
    const sock_fprog program{.len = sizeof neighbour_messages / sizeof *neighbour_messages,
                             .filter = const_cast<sock_filter*>(neighbour_messages)};
    must(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), "packet filter");
  }
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(protocol);
  address.sll_ifindex = static_cast<int>(link);
  must(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), "packet bind");
}

}  // namespace

PacketSocket::PacketSocket(uint32_t link, uint16_t protocol)
    : fd_(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  must(fd_, "packet socket");
  try {
    set_up(fd_, link, protocol);
  } catch (...) {
    close(fd_);
    throw;
  }
}

PacketSocket::~PacketSocket() { close(fd_); }

void PacketSocket::send(const std::vector<char>& frame) {
  ssize_t sent;
  do sent = ::send(fd_, frame.data(), frame.size(), 0);
  while (sent < 0 && errno == EINTR);
  if (sent < 0) throw Failure(errno, "packet send");
}

std::vector<std::string> PacketSocket::receive() {
  std::vector<std::string> frames;
  char buffer[longest_frame];
  while (frames.size() < most_frames) {
    const ssize_t got = recv(fd_, buffer, sizeof buffer, 0);
    if (got >= 0) {
      frames.emplace_back(buffer, static_cast<size_t>(got));
    } else if (errno != EINTR) {
      if (errno == EAGAIN) break;
      throw Failure(errno, "packet receive");
    }
  }
  return frames;
}

}  // namespace nft
