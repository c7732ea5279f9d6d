#pragma once

#include <cerrno>
#include <memory>
#include <mutex>

#include "core/failure.h"

namespace binding {

// Something that serves one thread at a time, shared by a JavaScript object and the work it has
// under way. It is freed once, by whichever of the two lets go last.
template <class Thing>
class Exclusive {
 public:
  template <class... Args>
  explicit Exclusive(Args&&... args) : thing_(std::make_unique<Thing>(std::forward<Args>(args)...)) {}
  explicit Exclusive(std::unique_ptr<Thing> thing) : thing_(std::move(thing)) {}

  template <class Use>
  auto use(Use use) {
    const std::lock_guard lock(mutex_);
    if (!thing_) throw nft::Failure(EBADF, "closed");
    return use(*thing_);
  }

  void close() {
    const std::lock_guard lock(mutex_);
    thing_.reset();
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<Thing> thing_;
};

}  // namespace binding
