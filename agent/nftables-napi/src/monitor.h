#pragma once

#include "core/monitor.h"
#include "listening.h"

namespace binding {

// JavaScript: new EventMonitor(family, table, quietSets, receiveBuffer, listener).
struct EventMonitoring {
  using Core = nft::Monitor;
  static constexpr const char* name = "EventMonitor";
  static std::unique_ptr<Core> open(const Napi::CallbackInfo& info);
  static Napi::Value to_value(Napi::Env env, const nft::MonitorEvent& event);
};
using EventMonitor = Listening<EventMonitoring>;

}  // namespace binding
