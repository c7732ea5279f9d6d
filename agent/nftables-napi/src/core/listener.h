#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "core/failure.h"
#include "core/netlink_socket.h"

namespace nft {

// Reads a socket on a thread of its own for somebody who may be slower. Everything there is to read
// is one batch; the next one is read when that one was taken. Meanwhile the socket's buffer keeps
// what comes, and the kernel drops what does not fit there: memory is bounded, whatever the
// listener does. With `pause` the socket is left alone for so long after each batch: what comes
// meanwhile is one batch, and wakes no thread.
//
// A Decoder has a type Batch with empty(), and
//   void take(const nlmsghdr*, Batch&)   one message
//   void overrun(Batch&)                 the socket's buffer was full
//   void fail(int err, Batch&)           the socket is of no more use; this batch is the last one
//   bool is_full(const Batch&)           enough for one batch
template <class Decoder>
class Listener {
 public:
  using Batch = typename Decoder::Batch;
  using OnBatch = std::function<void(Batch)>;

  explicit Listener(std::unique_ptr<NetlinkSocket> socket, Decoder decoder = {},
                    std::chrono::milliseconds pause = std::chrono::milliseconds(0))
      : socket_(std::move(socket)), decoder_(std::move(decoder)), buffer_(1 << 17), pause_(pause) {
    wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_ < 0) throw Failure(errno, "eventfd");
  }
  ~Listener() {
    stop();
    close(wake_);
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // on_batch is called on the thread, and again only after taken(); on_end is called last, on the
  // thread.
  void start(OnBatch on_batch, std::function<void()> on_end) {
    thread_ = std::thread([this, on_batch = std::move(on_batch), on_end = std::move(on_end)] {
      listen(on_batch);
      on_end();
    });
  }

  // From any thread.
  void taken() {
    is_waiting_ = false;
    eventfd_write(wake_, 1);
  }

  // Waits for the thread's end, then closes the socket: at most for one batch. Idempotent, from any
  // thread but its own.
  void stop() {
    const std::lock_guard lock(stopping_);
    if (!thread_.joinable()) return;
    is_stopped_ = true;
    eventfd_write(wake_, 1);
    thread_.join();
    socket_.reset();
  }

 private:
  void listen(const OnBatch& on_batch) {
    // Looked at after each read of wake_ too: one read may take the wakes of taken() and of stop().
    auto next_read = std::chrono::steady_clock::now();
    for (bool usable = true; usable && !is_stopped_;) {
      const bool is_waiting = is_waiting_;
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(next_read - std::chrono::steady_clock::now());
      const bool is_pausing = left.count() > 0;
      pollfd watched[] = {{.fd = wake_, .events = POLLIN, .revents = 0},
                          {.fd = is_waiting || is_pausing ? -1 : socket_->fd(), .events = POLLIN, .revents = 0}};
      Batch batch;
      if (poll(watched, 2, is_pausing && !is_waiting ? static_cast<int>(left.count()) : -1) < 0) {
        if (errno == EINTR) continue;
        decoder_.fail(errno, batch);
        usable = false;
      } else {
        eventfd_t ignored;
        if (watched[0].revents) eventfd_read(wake_, &ignored);
        if (watched[1].revents) usable = read(batch);
      }
      if (batch.empty()) continue;
      next_read = std::chrono::steady_clock::now() + pause_;
      is_waiting_ = true;
      on_batch(std::move(batch));
    }
  }

  // False if the socket is of no more use.
  bool read(Batch& batch) {
    while (!decoder_.is_full(batch)) {
      const ssize_t got = recv(socket_->fd(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
      if (got < 0) {
        if (errno == EAGAIN) return true;
        if (errno == ENOBUFS) {
          decoder_.overrun(batch);
        } else if (errno != EINTR) {
          decoder_.fail(errno, batch);
          return false;
        }
        continue;
      }
      int left = static_cast<int>(got);
      for (auto* message = reinterpret_cast<nlmsghdr*>(buffer_.data()); mnl_nlmsg_ok(message, left);
           message = mnl_nlmsg_next(message, &left)) {
        decoder_.take(message, batch);
      }
    }
    return true;
  }

  std::unique_ptr<NetlinkSocket> socket_;  // null once stopped
  Decoder decoder_;
  std::vector<char> buffer_;
  const std::chrono::milliseconds pause_;
  int wake_;
  std::atomic<bool> is_waiting_ = false;  // for the listener to take a batch
  std::atomic<bool> is_stopped_ = false;
  std::mutex stopping_;
  std::thread thread_;
};

}  // namespace nft
