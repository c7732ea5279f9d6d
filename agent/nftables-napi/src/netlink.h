#pragma once

#include <napi.h>

#include "core/netlink_socket.h"
#include "exclusive.h"

namespace binding {

// JavaScript: new Socket(); batch(records), elements(family, table, set), snapshot(family, table),
// chains(family, table, names), generation(), close(), each a Promise.
class Socket : public Napi::ObjectWrap<Socket> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit Socket(const Napi::CallbackInfo& info);

 private:
  Napi::Value batch(const Napi::CallbackInfo& info);
  Napi::Value elements(const Napi::CallbackInfo& info);
  Napi::Value snapshot(const Napi::CallbackInfo& info);
  Napi::Value chains(const Napi::CallbackInfo& info);
  Napi::Value generation(const Napi::CallbackInfo& info);
  Napi::Value close(const Napi::CallbackInfo& info);

  std::shared_ptr<Exclusive<nft::NetlinkSocket>> socket_;
};

}  // namespace binding
