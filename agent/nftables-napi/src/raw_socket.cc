#include "raw_socket.h"

namespace binding {

namespace {

// A copy: JavaScript may change or transfer its buffer meanwhile.
std::vector<char> bytes_argument(const Napi::Value& value, const char* name) {
  const auto array = argument<Napi::Uint8Array>(value, &Napi::Value::IsTypedArray, name);
  return {array.Data(), array.Data() + array.ByteLength()};
}

Napi::Value from_messages(Napi::Env env, const std::string& messages) {
  return to_bytes(env, messages.data(), messages.size());
}

}  // namespace

Napi::Function RawSocket::define(Napi::Env env) {
  return DefineClass(env, "RawSocket",
                     {InstanceMethod<&RawSocket::dump>("dump"), InstanceMethod<&RawSocket::next>("next"),
                      InstanceMethod<&RawSocket::exchange>("exchange"), InstanceMethod<&RawSocket::close>("close")});
}

RawSocket::RawSocket(const Napi::CallbackInfo& info) : Napi::ObjectWrap<RawSocket>(info) {
  try {
    socket_ = std::make_shared<Exclusive<nft::RawSocket>>(static_cast<int>(number_argument(info[0], "protocol")));
  } catch (const nft::Failure& failure) {
    throw to_error(info.Env(), failure);
  }
}

Napi::Value RawSocket::dump(const Napi::CallbackInfo& info) {
  return PromiseWorker<bool>::run(
      info.Env(),
      [socket = socket_, request = bytes_argument(info[0], "request")] {
        socket->use([&](nft::RawSocket& it) { it.dump(request); });
        return true;
      },
      [](Napi::Env env, const bool&) { return env.Undefined(); });
}

Napi::Value RawSocket::next(const Napi::CallbackInfo& info) {
  return PromiseWorker<std::string>::run(
      info.Env(),
      [socket = socket_, limit = number_argument(info[0], "limit")] {
        return socket->use([&](nft::RawSocket& it) { return it.next(limit); });
      },
      from_messages);
}

Napi::Value RawSocket::exchange(const Napi::CallbackInfo& info) {
  return PromiseWorker<std::string>::run(
      info.Env(),
      [socket = socket_, requests = bytes_argument(info[0], "requests")] {
        return socket->use([&](nft::RawSocket& it) { return it.exchange(requests); });
      },
      from_messages);
}

Napi::Value RawSocket::close(const Napi::CallbackInfo& info) {
  return close_on_worker(info, socket_);
}

}  // namespace binding
