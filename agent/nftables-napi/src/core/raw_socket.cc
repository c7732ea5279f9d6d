#include "core/raw_socket.h"

#include <sys/socket.h>

#include <cerrno>

#include "core/failure.h"

namespace nft {

namespace {

// As in netlink_socket.cc: the kernel makes dump messages of up to 32 KB.
constexpr size_t raw_receive_size = 1 << 17;
constexpr int raw_receive_buffer = 4 << 20;

// Both begin with an int: 0 or a negative errno.
int error_of(const nlmsghdr* message) { return -*static_cast<const int*>(mnl_nlmsg_get_payload(message)); }

}  // namespace

RawSocket::RawSocket(int protocol) : socket_(0, raw_receive_buffer, protocol), buffer_(raw_receive_size) {
  if (protocol != NETLINK_ROUTE) return;
  // The kernel heeds the filters in requests of dumps, and refuses what it does not know. No such
  // option before Linux 4.20.
  const int on = 1;
  setsockopt(socket_.fd(), SOL_NETLINK, NETLINK_GET_STRICT_CHK, &on, sizeof on);
}

void RawSocket::send(std::vector<char>& messages) {
  socket_.reserve_send_buffer(messages.size());
  if (::send(socket_.fd(), messages.data(), messages.size(), 0) < 0) throw Failure(errno, "netlink send");
}

template <class OnMessage>
bool RawSocket::receive(OnMessage on_message) {
  ssize_t got;
  do got = ::recv(socket_.fd(), buffer_.data(), buffer_.size(), 0);
  while (got < 0 && errno == EINTR);
  if (got < 0) throw Failure(errno, "netlink receive");
  int left = static_cast<int>(got);
  for (auto* message = reinterpret_cast<nlmsghdr*>(buffer_.data()); mnl_nlmsg_ok(message, left);
       message = mnl_nlmsg_next(message, &left)) {
    if (!on_message(message)) return false;
  }
  return true;
}

void RawSocket::dump(std::vector<char> request) {
  if (is_dumping_) throw Failure(EBUSY, "netlink dump");
  auto* header = reinterpret_cast<nlmsghdr*>(request.data());
  if (!mnl_nlmsg_ok(header, static_cast<int>(request.size()))) throw Failure(EINVAL, "netlink dump");
  header->nlmsg_seq = sequence_ = socket_.next_sequence();
  send(request);
  is_dumping_ = true;
  is_interrupted_ = false;
}

std::string RawSocket::next(size_t limit) {
  std::string messages;
  try {
    while (is_dumping_ && messages.size() < limit) {
      receive([&](nlmsghdr* message) {
        if (message->nlmsg_seq != sequence_) return true;
        if (message->nlmsg_flags & NLM_F_DUMP_INTR) is_interrupted_ = true;
        if (message->nlmsg_type == NLMSG_DONE || message->nlmsg_type == NLMSG_ERROR) {
          is_dumping_ = false;
          if (const int err = error_of(message)) throw Failure(err, "netlink dump");
          if (is_interrupted_) throw Failure(EINTR, "netlink dump");
          return false;
        }
        messages.append(reinterpret_cast<const char*>(message), message->nlmsg_len);
        return true;
      });
    }
  } catch (...) {
    // Nobody reads the rest: what still comes of it has another sequence number than the next
    // request.
    is_dumping_ = false;
    throw;
  }
  return messages;
}

std::string RawSocket::exchange(std::vector<char> requests) {
  if (is_dumping_) throw Failure(EBUSY, "netlink exchange");
  uint32_t count = 0;
  int left = static_cast<int>(requests.size());
  uint32_t first = 0;
  for (auto* message = reinterpret_cast<nlmsghdr*>(requests.data()); mnl_nlmsg_ok(message, left);
       message = mnl_nlmsg_next(message, &left)) {
    const uint32_t sequence = socket_.next_sequence();
    if (count++ == 0) first = sequence;
    message->nlmsg_seq = sequence;
    message->nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
  }
  if (left != 0) throw Failure(EINVAL, "netlink exchange");
  if (count > 0) send(requests);
  std::string answers;
  for (uint32_t settled = 0; settled < count;) {
    receive([&](nlmsghdr* message) {
      const uint32_t index = message->nlmsg_seq - first;
      if (index >= count) return true;
      message->nlmsg_seq = index;
      answers.append(reinterpret_cast<const char*>(message), message->nlmsg_len);
      if (message->nlmsg_type == NLMSG_ERROR) settled++;
      return true;
    });
  }
  return answers;
}

}  // namespace nft
