#include "core/monitor.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/failure.h"

namespace nft {

namespace {

constexpr unsigned int nftables_group = 1u << (NFNLGRP_NFTABLES - 1);

bool is_change(uint16_t message) {
  switch (message) {
    case NFT_MSG_NEWTABLE:
    case NFT_MSG_DELTABLE:
    case NFT_MSG_NEWCHAIN:
    case NFT_MSG_DELCHAIN:
    case NFT_MSG_NEWRULE:
    case NFT_MSG_DELRULE:
    case NFT_MSG_NEWSET:
    case NFT_MSG_DELSET:
    case NFT_MSG_NEWSETELEM:
    case NFT_MSG_DELSETELEM:
    case NFT_MSG_NEWOBJ:
    case NFT_MSG_DELOBJ:
    case NFT_MSG_NEWFLOWTABLE:
    case NFT_MSG_DELFLOWTABLE:
      return true;
    default:
      return false;
  }
}

MonitorEvent failed(MonitorEvent::Kind kind, int err) {
  MonitorEvent event;
  event.kind = kind;
  event.err = err;
  return event;
}

}  // namespace

std::optional<MonitorEvent> CommitFilter::take(const nlmsghdr* message) {
  if (NFNL_SUBSYS_ID(message->nlmsg_type) != NFNL_SUBSYS_NFTABLES) return std::nullopt;
  const uint16_t type = NFNL_MSG_TYPE(message->nlmsg_type);
  if (type == NFT_MSG_NEWGEN) {
    if (!std::exchange(is_touched_, false)) return std::nullopt;
    MonitorEvent event;
    const auto attributes = Attributes<NFTA_GEN_MAX + 1>::of(message);
    if (attributes[NFTA_GEN_ID]) event.generation = u32_of(attributes[NFTA_GEN_ID]);
    if (attributes[NFTA_GEN_PROC_NAME]) event.process_name = text_of(attributes[NFTA_GEN_PROC_NAME]);
    return event;
  }
  if (!is_change(type) || generic_header(message)->nfgen_family != family_) return std::nullopt;
  // In each of these messages attribute 1 is the table's name (NFTA_TABLE_NAME, NFTA_CHAIN_TABLE,
  // NFTA_RULE_TABLE, ...).
  const auto attributes = Attributes<NFTA_SET_ELEM_LIST_MAX + 1>::of(message);
  if (!attributes[1] || text_of(attributes[1]) != table_) return std::nullopt;
  const bool is_element = type == NFT_MSG_NEWSETELEM || type == NFT_MSG_DELSETELEM;
  const nlattr* set = is_element ? attributes[NFTA_SET_ELEM_LIST_SET] : nullptr;
  if (!set || std::ranges::find(quiet_, text_of(set)) == quiet_.end()) is_touched_ = true;
  return std::nullopt;
}

Monitor::Monitor(uint8_t family, std::string table, std::vector<std::string> quiet, int receive_buffer)
    : socket_(std::in_place, nftables_group, receive_buffer),
      filter_(family, std::move(table), std::move(quiet)),
      buffer_(1 << 17) {
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_ < 0) throw Failure(errno, "eventfd");
}

Monitor::~Monitor() {
  stop();
  close(wake_);
}

void Monitor::start(OnEvent on_event, std::function<void()> on_end) {
  thread_ = std::thread([this, on_event = std::move(on_event), on_end = std::move(on_end)] {
    listen(on_event);
    on_end();
  });
}

void Monitor::stop() {
  const std::lock_guard lock(stopping_);
  if (!thread_.joinable()) return;
  eventfd_write(wake_, 1);
  thread_.join();
  socket_.reset();
}

void Monitor::listen(const OnEvent& on_event) {
  pollfd watched[] = {{.fd = socket_->fd(), .events = POLLIN, .revents = 0}, {.fd = wake_, .events = POLLIN, .revents = 0}};
  for (;;) {
    if (poll(watched, 2, -1) < 0 && errno != EINTR) {
      return on_event(failed(MonitorEvent::Kind::error, errno));
    }
    if (watched[1].revents) return;
    if (watched[0].revents && !receive(on_event)) return;
  }
}

bool Monitor::receive(const OnEvent& on_event) {
  const ssize_t got = recv(socket_->fd(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
  if (got < 0) {
    if (errno == EINTR || errno == EAGAIN) return true;
    const bool overrun = errno == ENOBUFS;
    const MonitorEvent event = failed(overrun ? MonitorEvent::Kind::overrun : MonitorEvent::Kind::error, errno);
    // A change so far may belong to a commit whose end is lost.
    filter_.reset();
    on_event(event);
    return overrun;
  }
  int left = static_cast<int>(got);
  for (auto* message = reinterpret_cast<nlmsghdr*>(buffer_.data()); mnl_nlmsg_ok(message, left);
       message = mnl_nlmsg_next(message, &left)) {
    if (const auto event = filter_.take(message)) on_event(*event);
  }
  return true;
}

}  // namespace nft
