#include "netlink.h"

#include "core/batch.h"
#include "core/elements.h"
#include "core/snapshot.h"
#include "promise_worker.h"
#include "snapshot_json.h"

namespace binding {

namespace {

Napi::Value from_batch(Napi::Env env, const nft::BatchResult& result) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("before", Napi::Number::New(env, result.before));
  object.Set("after", Napi::Number::New(env, result.after));
  object.Set("build", Napi::Number::New(env, result.build_microseconds));
  object.Set("kernel", Napi::Number::New(env, result.kernel_microseconds));
  Napi::Array counts = Napi::Array::New(env, result.last_counts.size());
  for (size_t i = 0; i < result.last_counts.size(); i++) {
    const nft::LastCount& last = result.last_counts[i];
    Napi::Object count = Napi::Object::New(env);
    count.Set("operation", Napi::Number::New(env, last.operation));
    count.Set("packets", Napi::BigInt::New(env, last.packets));
    count.Set("bytes", Napi::BigInt::New(env, last.bytes));
    counts.Set(static_cast<uint32_t>(i), count);
  }
  object.Set("lastCounts", counts);
  return object;
}

Napi::Value from_elements(Napi::Env env, const std::optional<nft::Elements>& found) {
  if (!found) return env.Null();
  Napi::Object object = Napi::Object::New(env);
  object.Set("keyLength", Napi::Number::New(env, found->set.key_length));
  object.Set("flags", Napi::Number::New(env, found->set.flags));
  object.Set("keys", to_bytes(env, found->keys.data(), found->keys.size()));
  object.Set("ranges", to_bytes(env, found->ranges.data(), found->ranges.size()));
  object.Set("catchAll", Napi::Boolean::New(env, found->catch_all));
  object.Set("isVerdictMap", Napi::Boolean::New(env, found->set.is_verdict_map()));
  Napi::Uint32Array indices = Napi::Uint32Array::New(env, found->verdict_of.size());
  std::copy(found->verdict_of.begin(), found->verdict_of.end(), indices.Data());
  object.Set("verdictOf", indices);
  Napi::Int32Array codes = Napi::Int32Array::New(env, found->verdicts.size());
  Napi::Array chains = Napi::Array::New(env, found->verdicts.size());
  for (size_t i = 0; i < found->verdicts.size(); i++) {
    codes[i] = found->verdicts[i].code;
    chains.Set(static_cast<uint32_t>(i), Napi::String::New(env, found->verdicts[i].chain));
  }
  object.Set("verdictCodes", codes);
  object.Set("verdictChains", chains);
  return object;
}

}  // namespace

Napi::Function Socket::define(Napi::Env env) {
  return DefineClass(env, "Socket",
                     {InstanceMethod<&Socket::batch>("batch"), InstanceMethod<&Socket::elements>("elements"),
                      InstanceMethod<&Socket::snapshot>("snapshot"), InstanceMethod<&Socket::chains>("chains"),
                      InstanceMethod<&Socket::generation>("generation"),
                      InstanceMethod<&Socket::close>("close")});
}

Socket::Socket(const Napi::CallbackInfo& info) : Napi::ObjectWrap<Socket>(info) {
  try {
    socket_ = std::make_shared<Exclusive<nft::NetlinkSocket>>();
  } catch (const nft::Failure& failure) {
    throw to_error(info.Env(), failure);
  }
}

// Copies the records: JavaScript may change or transfer its buffer while the worker builds the
// messages.
Napi::Value Socket::batch(const Napi::CallbackInfo& info) {
  const auto array = argument<Napi::Uint8Array>(info[0], &Napi::Value::IsTypedArray, "records");
  auto records = std::make_shared<std::vector<uint8_t>>(array.Data(), array.Data() + array.ByteLength());
  return PromiseWorker<nft::BatchResult>::run(
      info.Env(),
      [socket = socket_, records] {
        const std::vector<nft::Step> steps = nft::read_steps(*records);
        return socket->use([&](nft::NetlinkSocket& it) { return nft::send_batch(it, steps); });
      },
      from_batch);
}

Napi::Value Socket::elements(const Napi::CallbackInfo& info) {
  const nft::SetName name{static_cast<uint8_t>(number_argument(info[0], "family")), text_argument(info[1], "table"),
                          text_argument(info[2], "set")};
  return PromiseWorker<std::optional<nft::Elements>>::run(
      info.Env(),
      [socket = socket_, name] {
        return socket->use([&](nft::NetlinkSocket& it) { return nft::dump_elements(it, name); });
      },
      from_elements);
}

// The snapshot crosses as JSON text: one call into JavaScript's engine instead of ten a rule.
Napi::Value Socket::snapshot(const Napi::CallbackInfo& info) {
  const auto family = static_cast<uint8_t>(number_argument(info[0], "family"));
  const std::string table = text_argument(info[1], "table");
  return PromiseWorker<std::string>::run(
      info.Env(),
      [socket = socket_, family, table] {
        return socket->use([&](nft::NetlinkSocket& it) { return to_json(nft::take_snapshot(it, family, table)); });
      },
      [](Napi::Env env, const std::string& json) { return Napi::String::New(env, json); });
}

Napi::Value Socket::chains(const Napi::CallbackInfo& info) {
  const auto family = static_cast<uint8_t>(number_argument(info[0], "family"));
  const std::string table = text_argument(info[1], "table");
  const auto list = argument<Napi::Array>(info[2], &Napi::Value::IsArray, "names");
  std::vector<std::string> names;
  for (uint32_t i = 0; i < list.Length(); i++) names.push_back(text_argument(list.Get(i), "names"));
  return PromiseWorker<std::string>::run(
      info.Env(),
      [socket = socket_, family, table, names] {
        return socket->use(
            [&](nft::NetlinkSocket& it) { return to_json(nft::take_snapshot_of_chains(it, family, table, names)); });
      },
      [](Napi::Env env, const std::string& json) { return Napi::String::New(env, json); });
}

Napi::Value Socket::generation(const Napi::CallbackInfo& info) {
  return PromiseWorker<uint32_t>::run(
      info.Env(),
      [socket = socket_] { return socket->use([](nft::NetlinkSocket& it) { return it.generation(); }); },
      [](Napi::Env env, const uint32_t& generation) { return Napi::Number::New(env, generation); });
}

Napi::Value Socket::close(const Napi::CallbackInfo& info) {
  return close_on_worker(info, socket_);
}

}  // namespace binding
