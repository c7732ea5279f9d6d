#pragma once

#include <napi.h>

#include <memory>

namespace binding {

struct MonitorState;

// JavaScript: new EventMonitor(family, table, receiveBuffer, listener); close(): Promise; ref(); unref().
// The listener is held until close(), and with it whatever it refers to: a monitor is not collected while it runs.
class EventMonitor : public Napi::ObjectWrap<EventMonitor> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit EventMonitor(const Napi::CallbackInfo& info);

 private:
  Napi::Value close(const Napi::CallbackInfo& info);
  void ref(const Napi::CallbackInfo& info);
  void unref(const Napi::CallbackInfo& info);

  std::shared_ptr<MonitorState> state_;
};

}  // namespace binding
