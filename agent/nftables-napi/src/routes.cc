#include "routes.h"

namespace binding {

std::unique_ptr<nft::RouteMonitor> RouteMonitoring::open(const Napi::CallbackInfo& info) {
  return nft::open_route_monitor(static_cast<uint32_t>(number_argument(info[0], "groups")),
                                 static_cast<int>(number_argument(info[1], "receiveBuffer")),
                                 static_cast<int>(number_argument(info[2], "protocol")),
                                 std::chrono::milliseconds(static_cast<int>(number_argument(info[3], "pause"))));
}

Napi::Value RouteMonitoring::to_value(Napi::Env env, const Core::Batch& batch) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("messages", to_bytes(env, batch.messages.data(), batch.messages.size()));
  object.Set("overrun", Napi::Boolean::New(env, batch.overrun));
  object.Set("errno", Napi::Number::New(env, batch.err));
  return object;
}

}  // namespace binding
