#include "nflog.h"

namespace binding {

std::unique_ptr<nft::Nflog> NflogListening::open(const Napi::CallbackInfo& info) {
  return nft::open_nflog({
      .group = static_cast<uint16_t>(number_argument(info[0], "group")),
      .copy_range = number_argument(info[1], "copyRange"),
      .queue_threshold = number_argument(info[2], "queueThreshold"),
      .timeout = number_argument(info[3], "timeout"),
      .receive_buffer = static_cast<int>(number_argument(info[4], "receiveBuffer")),
  });
}

// Packets cross as one piece of bytes, whatever their number; lib/nflog.ts makes objects of them.
Napi::Value NflogListening::to_value(Napi::Env env, const nft::NflogBatch& batch) {
  Napi::Array prefixes = Napi::Array::New(env, batch.prefixes.size());
  for (const auto& [prefix, index] : batch.prefixes) prefixes.Set(index, Napi::String::New(env, prefix));
  Napi::Object object = Napi::Object::New(env);
  object.Set("records", to_bytes(env, batch.records.data(), batch.records.size()));
  object.Set("prefixes", prefixes);
  object.Set("lost", Napi::Number::New(env, batch.lost));
  object.Set("errno", Napi::Number::New(env, batch.err));
  return object;
}

}  // namespace binding
