#include "core/nft_context.h"

#include <nftables/libnftables.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>

#include "core/failure.h"

namespace nft {

namespace {

// libnftables 1.0.6 shares state between contexts: a cache of interface names, the set-up of
// libxtables and gmp, and what libc answers in static buffers (getprotobynumber(),
// getservbyport()). So one call into it at a time, whatever the number of contexts and threads. The
// kernel would put commits in a row anyway.
std::mutex& library() {
  static std::mutex mutex;
  return mutex;
}

// The text as a file in memory. libnftables says where an error is only for files: for a buffer it
// leaves out the line and column, and shows the first line of the text whichever it means (seen in
// 1.0.6).
class TextFile {
 public:
  explicit TextFile(const std::string& text) {
    fd_ = memfd_create("nft", MFD_CLOEXEC);
    if (fd_ < 0) throw Failure(errno, "memfd_create");
    // The grammar ends each command with a newline.
    if (!put(text) || !put("\n")) {
      const int err = errno;
      close(fd_);
      throw Failure(err, "write to memory file");
    }
  }
  ~TextFile() { close(fd_); }
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  bool put(const std::string& text) {
    for (size_t done = 0; done < text.size();) {
      const ssize_t written = write(fd_, text.data() + done, text.size() - done);
      if (written < 0 && errno != EINTR) return false;
      if (written > 0) done += static_cast<size_t>(written);
    }
    return true;
  }

  int fd_;
};

}  // namespace

// Opens the socket only: where none can be had it throws, while nft_ctx_new() would call exit().
// The context is made by the first run, on its thread, so that creating an NftContext never waits
// for the lock.
NftContext::NftContext() = default;

NftContext::~NftContext() {
  if (!context_) return;
  const std::lock_guard lock(library());
  nft_ctx_free(context_);
}

RunResult NftContext::run(const std::string& text, unsigned int output_flags) {
  const std::lock_guard lock(library());
  RunResult result;
  const TextFile file(text);
  if (!context_) context_ = nft_ctx_new(NFT_CTX_DEFAULT);
  if (!context_) throw Failure(ENOMEM, "nft_ctx_new");
  nft_ctx_output_set_flags(context_, output_flags);
  if (nft_ctx_buffer_output(context_) || nft_ctx_buffer_error(context_)) throw Failure(ENOMEM, "nft_ctx_buffer_output");
  result.succeeded = nft_run_cmd_from_filename(context_, file.path().c_str()) == 0;
  result.output = nft_ctx_get_output_buffer(context_);
  result.errors = nft_ctx_get_error_buffer(context_);
  // Frees both buffers: a listing can have hundreds of megabytes.
  nft_ctx_unbuffer_output(context_);
  nft_ctx_unbuffer_error(context_);
  return result;
}

}  // namespace nft
