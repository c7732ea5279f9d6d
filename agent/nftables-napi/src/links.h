#pragma once

#include "core/links.h"
#include "exclusive.h"
#include "listening.h"

namespace binding {

// JavaScript: new LinkSocket(); list(), getMany(indices), setGroups(indices, groups, from),
// close(), each a Promise.
class LinkSocket : public Napi::ObjectWrap<LinkSocket> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit LinkSocket(const Napi::CallbackInfo& info);

 private:
  Napi::Value list(const Napi::CallbackInfo& info);
  Napi::Value get_many(const Napi::CallbackInfo& info);
  Napi::Value set_groups(const Napi::CallbackInfo& info);
  Napi::Value close(const Napi::CallbackInfo& info);

  std::shared_ptr<Exclusive<nft::NetlinkSocket>> socket_;
};

// JavaScript: new LinkMonitor(receiveBuffer, addresses, listener).
struct LinkMonitoring {
  using Core = nft::LinkMonitor;
  static constexpr const char* name = "LinkMonitor";
  static std::unique_ptr<Core> open(const Napi::CallbackInfo& info);
  static Napi::Value to_value(Napi::Env env, const Core::Batch& events);
};
using LinkMonitor = Listening<LinkMonitoring>;

}  // namespace binding
