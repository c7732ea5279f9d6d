#include "packet_socket.h"

#include <cerrno>

namespace binding {

namespace {

template <class Call>
auto attempt(Napi::Env env, Call call) {
  try {
    return call();
  } catch (const nft::Failure& failure) {
    throw to_error(env, failure);
  }
}

}  // namespace

Napi::Function PacketSocket::define(Napi::Env env) {
  return DefineClass(env, "PacketSocket",
                     {InstanceMethod<&PacketSocket::send>("send"), InstanceMethod<&PacketSocket::receive>("receive"),
                      InstanceMethod<&PacketSocket::close>("close")});
}

PacketSocket::PacketSocket(const Napi::CallbackInfo& info) : Napi::ObjectWrap<PacketSocket>(info) {
  const auto link = number_argument(info[0], "link");
  const auto protocol = static_cast<uint16_t>(number_argument(info[1], "protocol"));
  attempt(info.Env(), [&] { socket_ = std::make_shared<nft::PacketSocket>(link, protocol); });
}

nft::PacketSocket& PacketSocket::socket() {
  if (!socket_) throw nft::Failure(EBADF, "closed");
  return *socket_;
}

Napi::Value PacketSocket::send(const Napi::CallbackInfo& info) {
  const auto frame = argument<Napi::Uint8Array>(info[0], &Napi::Value::IsTypedArray, "frame");
  attempt(info.Env(), [&] { socket().send({frame.Data(), frame.Data() + frame.ByteLength()}); });
  return info.Env().Undefined();
}

Napi::Value PacketSocket::receive(const Napi::CallbackInfo& info) {
  const auto frames = attempt(info.Env(), [&] { return socket().receive(); });
  Napi::Array array = Napi::Array::New(info.Env(), frames.size());
  for (uint32_t i = 0; i < frames.size(); i++) {
    array.Set(i, to_bytes(info.Env(), frames[i].data(), frames[i].size()));
  }
  return array;
}

// The kernel waits until no processor sends or receives by it (packet_release: synchronize_net).
Napi::Value PacketSocket::close(const Napi::CallbackInfo& info) {
  return PromiseWorker<bool>::run(
      info.Env(),
      [socket = std::move(socket_)]() mutable {
        socket.reset();
        return true;
      },
      [](Napi::Env env, const bool&) { return env.Undefined(); });
}

}  // namespace binding
