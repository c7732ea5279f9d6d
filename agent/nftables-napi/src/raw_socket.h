#pragma once

#include "core/raw_socket.h"
#include "exclusive.h"
#include "promise_worker.h"

namespace binding {

// JavaScript: new RawSocket(protocol); dump(request), next(limit), exchange(requests), close(), each a
// Promise.
class RawSocket : public Napi::ObjectWrap<RawSocket> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit RawSocket(const Napi::CallbackInfo& info);

 private:
  Napi::Value dump(const Napi::CallbackInfo& info);
  Napi::Value next(const Napi::CallbackInfo& info);
  Napi::Value exchange(const Napi::CallbackInfo& info);
  Napi::Value close(const Napi::CallbackInfo& info);

  std::shared_ptr<Exclusive<nft::RawSocket>> socket_;
};

}  // namespace binding
