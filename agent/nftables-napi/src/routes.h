#pragma once

#include "core/routes.h"
#include "listening.h"

namespace binding {

// JavaScript: new RouteMonitor(groups, receiveBuffer, protocol, pause, listener): messages of any netlink
// protocol; at least `pause` milliseconds between two batches.
struct RouteMonitoring {
  using Core = nft::RouteMonitor;
  static constexpr const char* name = "RouteMonitor";
  static std::unique_ptr<Core> open(const Napi::CallbackInfo& info);
  static Napi::Value to_value(Napi::Env env, const Core::Batch& batch);
};
using RouteMonitor = Listening<RouteMonitoring>;

}  // namespace binding
