#include "echo_socket.h"

#include <cerrno>

#include "promise_worker.h"

namespace binding {

namespace {

template <class Call>
auto echo_attempt(Napi::Env env, Call call) {
  try {
    return call();
  } catch (const nft::Failure& failure) {
    throw to_error(env, failure);
  }
}

std::string echo_bytes(const Napi::Value& value, const char* name) {
  const auto array = argument<Napi::Uint8Array>(value, &Napi::Value::IsTypedArray, name);
  return {reinterpret_cast<const char*>(array.Data()), array.ByteLength()};
}

}  // namespace

Napi::Function EchoSocket::define(Napi::Env env) {
  return DefineClass(env, "EchoSocket",
                     {InstanceMethod<&EchoSocket::send>("send"), InstanceMethod<&EchoSocket::receive>("receive"),
                      InstanceMethod<&EchoSocket::close>("close")});
}

EchoSocket::EchoSocket(const Napi::CallbackInfo& info) : Napi::ObjectWrap<EchoSocket>(info) {
  const auto family = static_cast<int>(number_argument(info[0], "family"));
  const auto device = text_argument(info[1], "device");
  const auto peer = echo_bytes(info[2], "peer");
  const auto datagram = info[3].ToBoolean().Value();
  echo_attempt(info.Env(), [&] { socket_ = std::make_unique<nft::EchoSocket>(family, device, peer, datagram); });
}

nft::EchoSocket& EchoSocket::socket() {
  if (!socket_) throw nft::Failure(EBADF, "closed");
  return *socket_;
}

Napi::Value EchoSocket::send(const Napi::CallbackInfo& info) {
  const auto address = echo_bytes(info[0], "address");
  const auto message = echo_bytes(info[1], "message");
  echo_attempt(info.Env(), [&] { socket().send(address, message); });
  return info.Env().Undefined();
}

Napi::Value EchoSocket::receive(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const auto messages = echo_attempt(env, [&] { return socket().receive(); });
  Napi::Array array = Napi::Array::New(env, messages.size());
  for (uint32_t i = 0; i < messages.size(); i++) {
    Napi::Object object = Napi::Object::New(env);
    object.Set("source", to_bytes(env, messages[i].source.data(), messages[i].source.size()));
    object.Set("message", to_bytes(env, messages[i].message.data(), messages[i].message.size()));
    object.Set("age", Napi::Number::New(env, messages[i].age));
    array.Set(i, object);
  }
  return array;
}

Napi::Value EchoSocket::close(const Napi::CallbackInfo& info) {
  socket_.reset();
  return info.Env().Undefined();
}

}  // namespace binding
