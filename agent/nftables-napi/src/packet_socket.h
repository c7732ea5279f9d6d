#pragma once

#include <memory>

#include "core/packet_socket.h"
#include "promise_worker.h"

namespace binding {

// JavaScript: new PacketSocket(link, protocol); send(frame), receive(), which do not wait; close(), a
// Promise.
class PacketSocket : public Napi::ObjectWrap<PacketSocket> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit PacketSocket(const Napi::CallbackInfo& info);

 private:
  Napi::Value send(const Napi::CallbackInfo& info);
  Napi::Value receive(const Napi::CallbackInfo& info);
  Napi::Value close(const Napi::CallbackInfo& info);
  nft::PacketSocket& socket();

  std::shared_ptr<nft::PacketSocket> socket_;
};

}  // namespace binding
