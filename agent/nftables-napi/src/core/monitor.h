#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/netlink_socket.h"

namespace nft {

struct MonitorEvent {
  enum class Kind { change = 0, overrun = 1, error = 2 };

  Kind kind = Kind::change;
  uint32_t generation = 0;
  std::optional<std::string> process_name;
  int err = 0;  // of Kind::error
};

// Looks for messages of one table until the NEWGEN that ends a commit; those of elements of `quiet`
// sets don't count.
class CommitFilter {
 public:
  CommitFilter(uint8_t family, std::string table, std::vector<std::string> quiet)
      : family_(family), table_(std::move(table)), quiet_(std::move(quiet)) {}

  // The event, if this message ends a commit that touched the table.
  std::optional<MonitorEvent> take(const nlmsghdr* message);
  void reset() { is_touched_ = false; }

 private:
  uint8_t family_;
  std::string table_;
  std::vector<std::string> quiet_;
  bool is_touched_ = false;
};

// Listens to the nf_tables multicast group on a thread of its own, and calls on_event on that
// thread until stop(). After an event of Kind::error nothing more comes.
class Monitor {
 public:
  using Batch = MonitorEvent;
  using OnEvent = std::function<void(const MonitorEvent&)>;

  Monitor(uint8_t family, std::string table, std::vector<std::string> quiet, int receive_buffer);
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  // on_end is called last, on the thread.
  void start(OnEvent on_event, std::function<void()> on_end);
  // For src/listening.h: this one does not wait for the listener, as a commit is a few bytes
  // however large.
  void taken() {}
  // Waits for the thread's end, then closes the socket: at most for one call of on_event.
  // Idempotent, from any thread but the monitor's own.
  void stop();

 private:
  void listen(const OnEvent& on_event);
  // One datagram; false if the socket is of no more use.
  bool receive(const OnEvent& on_event);

  std::optional<NetlinkSocket> socket_;  // empty once stopped
  CommitFilter filter_;
  int wake_;
  std::vector<char> buffer_;
  std::mutex stopping_;
  std::thread thread_;
};

}  // namespace nft
