#pragma once

#include <cerrno>
#include <chrono>
#include <thread>

#include "core/failure.h"
#include "core/netlink_socket.h"

namespace nft {

// Repeats read() until no commit fell into it, and answers what it answered: complete or absent. A
// dump of several messages is only as of one moment if the generation did not change meanwhile; the
// kernel's own NLM_F_DUMP_INTR covers one dump, the comparison covers several. Throws EINTR after
// too many attempts. `generation` is the one that was read.
template <class Read>
Answer consistently(NetlinkSocket& socket, uint32_t& generation, Read read) {
  for (int attempt = 0; attempt < 25; attempt++) {
    generation = socket.generation();
    const Answer answer = read();
    if (answer != Answer::interrupted && socket.generation() == generation) return answer;
    // Somebody commits in a row, or a hash table is growing: longer pauses give them time to finish
    // (0.6 s in all).
    std::this_thread::sleep_for(std::chrono::milliseconds(2 * attempt));
  }
  throw Failure(EINTR, "the rules kept changing during the dump");
}

}  // namespace nft
