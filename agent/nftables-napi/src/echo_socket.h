#pragma once

#include <napi.h>

#include <memory>

#include "core/echo_socket.h"

namespace binding {

// JavaScript: new EchoSocket(family, device, peer); send(address, message), receive(), close(). All
// are synchronous, as no call waits.
class EchoSocket : public Napi::ObjectWrap<EchoSocket> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit EchoSocket(const Napi::CallbackInfo& info);

 private:
  Napi::Value send(const Napi::CallbackInfo& info);
  Napi::Value receive(const Napi::CallbackInfo& info);
  Napi::Value close(const Napi::CallbackInfo& info);
  nft::EchoSocket& socket();

  std::unique_ptr<nft::EchoSocket> socket_;
};

}  // namespace binding
