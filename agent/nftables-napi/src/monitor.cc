#include "monitor.h"

namespace binding {

Napi::Value EventMonitoring::to_value(Napi::Env env, const nft::MonitorEvent& event) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("kind", Napi::Number::New(env, static_cast<int>(event.kind)));
  object.Set("errno", Napi::Number::New(env, event.err));
  object.Set("generation", Napi::Number::New(env, event.generation));
  object.Set("processName", event.process_name ? Napi::Value(Napi::String::New(env, *event.process_name)) : env.Null());
  return object;
}

std::unique_ptr<nft::Monitor> EventMonitoring::open(const Napi::CallbackInfo& info) {
  const auto family = static_cast<uint8_t>(number_argument(info[0], "family"));
  const std::string table = text_argument(info[1], "table");
  const auto list = argument<Napi::Array>(info[2], &Napi::Value::IsArray, "quietSets");
  std::vector<std::string> quiet;
  for (uint32_t i = 0; i < list.Length(); i++) quiet.push_back(text_argument(list.Get(i), "quietSets"));
  const auto receive_buffer = static_cast<int>(number_argument(info[3], "receiveBuffer"));
  return std::make_unique<nft::Monitor>(family, table, std::move(quiet), receive_buffer);
}

}  // namespace binding
