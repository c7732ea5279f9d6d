#pragma once

#include "core/nflog.h"
#include "listening.h"

namespace binding {

// JavaScript: new Nflog(group, copyRange, queueThreshold, timeout, receiveBuffer, listener).
struct NflogListening {
  using Core = nft::Nflog;
  static constexpr const char* name = "Nflog";
  static std::unique_ptr<Core> open(const Napi::CallbackInfo& info);
  static Napi::Value to_value(Napi::Env env, const nft::NflogBatch& batch);
};
using Nflog = Listening<NflogListening>;

}  // namespace binding
