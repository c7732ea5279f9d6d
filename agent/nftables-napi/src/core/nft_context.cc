#include "core/nft_context.h"

#include <nftables/libnftables.h>

#include <cerrno>
#include <mutex>

#include "core/failure.h"

namespace nft {

namespace {

// libnftables 1.0.6 shares state between contexts: a cache of interface names, the set-up of libxtables and gmp, and what libc
// answers in static buffers (getprotobynumber(), getservbyport()). So one call into it at a time, whatever the number of
// contexts and threads. The kernel would put commits in a row anyway.
std::mutex& library() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

// Opens the socket only: where none can be had it throws, while nft_ctx_new() would call exit(). The context is made by the
// first run, on its thread, so that creating an NftContext never waits for the lock.
NftContext::NftContext() = default;

NftContext::~NftContext() {
  if (!context_) return;
  const std::lock_guard lock(library());
  nft_ctx_free(context_);
}

RunResult NftContext::run(const std::string& text, unsigned int output_flags, bool dry_run) {
  const std::lock_guard lock(library());
  RunResult result;
  if (!context_) context_ = nft_ctx_new(NFT_CTX_DEFAULT);
  if (!context_) throw Failure(ENOMEM, "nft_ctx_new");
  nft_ctx_output_set_flags(context_, output_flags);
  nft_ctx_set_dry_run(context_, dry_run);
  if (nft_ctx_buffer_output(context_) || nft_ctx_buffer_error(context_)) throw Failure(ENOMEM, "nft_ctx_buffer_output");
  result.before = socket_.generation();
  result.succeeded = nft_run_cmd_from_buffer(context_, text.c_str()) == 0;
  result.after = socket_.generation();
  result.output = nft_ctx_get_output_buffer(context_);
  result.errors = nft_ctx_get_error_buffer(context_);
  // Frees both buffers: a listing can have hundreds of megabytes.
  nft_ctx_unbuffer_output(context_);
  nft_ctx_unbuffer_error(context_);
  return result;
}

}  // namespace nft
