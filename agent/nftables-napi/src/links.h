#pragma once

#include <napi.h>

#include "core/links.h"
#include "exclusive.h"

namespace binding {

// JavaScript: new LinkSocket(); setGroups(indices, groups, from), close(), each a Promise.
class LinkSocket : public Napi::ObjectWrap<LinkSocket> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit LinkSocket(const Napi::CallbackInfo& info);

 private:
  Napi::Value set_groups(const Napi::CallbackInfo& info);
  Napi::Value close(const Napi::CallbackInfo& info);

  std::shared_ptr<Exclusive<nft::NetlinkSocket>> socket_;
};

}  // namespace binding
