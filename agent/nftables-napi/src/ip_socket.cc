#include "ip_socket.h"

#include <cerrno>

#include "promise_worker.h"

namespace binding {

namespace {

template <class Call>
void ip_attempt(Napi::Env env, Call call) {
  try {
    call();
  } catch (const nft::Failure& failure) {
    throw to_error(env, failure);
  }
}

}  // namespace

Napi::Function IpSocket::define(Napi::Env env) {
  return DefineClass(env, "IpSocket",
                     {InstanceMethod<&IpSocket::send>("send"), InstanceMethod<&IpSocket::close>("close")});
}

IpSocket::IpSocket(const Napi::CallbackInfo& info) : Napi::ObjectWrap<IpSocket>(info) {
  const auto family = static_cast<int>(number_argument(info[0], "family"));
  ip_attempt(info.Env(), [&] { socket_ = std::make_unique<nft::IpSocket>(family); });
}

Napi::Value IpSocket::send(const Napi::CallbackInfo& info) {
  const auto packet = argument<Napi::Uint8Array>(info[0], &Napi::Value::IsTypedArray, "packet");
  ip_attempt(info.Env(), [&] {
    if (!socket_) throw nft::Failure(EBADF, "closed");
    socket_->send({reinterpret_cast<const char*>(packet.Data()), packet.ByteLength()});
  });
  return info.Env().Undefined();
}

Napi::Value IpSocket::close(const Napi::CallbackInfo& info) {
  socket_.reset();
  return info.Env().Undefined();
}

}  // namespace binding
