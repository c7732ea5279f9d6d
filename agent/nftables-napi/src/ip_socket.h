#pragma once

#include <napi.h>

#include <memory>

#include "core/ip_socket.h"

namespace binding {

// JavaScript: new IpSocket(family); send(packet), close(). All are synchronous, as no call waits.
class IpSocket : public Napi::ObjectWrap<IpSocket> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit IpSocket(const Napi::CallbackInfo& info);

 private:
  Napi::Value send(const Napi::CallbackInfo& info);
  Napi::Value close(const Napi::CallbackInfo& info);

  std::unique_ptr<nft::IpSocket> socket_;
};

}  // namespace binding
