#include "links.h"

#include <cerrno>

#include "promise_worker.h"

namespace binding {

namespace {

std::vector<uint32_t> numbers_argument(const Napi::Value& value, const char* name) {
  const auto array = argument<Napi::Uint32Array>(value, &Napi::Value::IsTypedArray, name);
  return {array.Data(), array.Data() + array.ElementLength()};
}

}  // namespace

Napi::Function LinkSocket::define(Napi::Env env) {
  return DefineClass(env, "LinkSocket",
                     {InstanceMethod<&LinkSocket::set_groups>("setGroups"), InstanceMethod<&LinkSocket::close>("close")});
}

LinkSocket::LinkSocket(const Napi::CallbackInfo& info) : Napi::ObjectWrap<LinkSocket>(info) {
  try {
    socket_ = std::make_shared<Exclusive<nft::NetlinkSocket>>(nft::open_links());
  } catch (const nft::Failure& failure) {
    throw to_error(info.Env(), failure);
  }
}

Napi::Value LinkSocket::set_groups(const Napi::CallbackInfo& info) {
  auto indices = numbers_argument(info[0], "indices");
  auto groups = numbers_argument(info[1], "groups");
  // As 64 bits: -1 is whatever group it is in.
  const auto given = argument<Napi::Float64Array>(info[2], &Napi::Value::IsTypedArray, "from");
  std::vector<double> from(given.Data(), given.Data() + given.ElementLength());
  if (indices.size() != groups.size() || indices.size() != from.size()) {
    throw Napi::RangeError::New(info.Env(), "nftables_napi: as many groups as indices");
  }
  return PromiseWorker<std::vector<uint32_t>>::run(
      info.Env(),
      [socket = socket_, indices = std::move(indices), groups = std::move(groups), from = std::move(from)] {
        return socket->use([&](nft::NetlinkSocket& it) {
          std::vector<uint32_t> errors(indices.size());
          for (size_t i = 0; i < indices.size(); i++) {
            const bool is_conditional = from[i] >= 0;
            const auto group = is_conditional ? nft::link_group(it, indices[i]) : std::nullopt;
            if (is_conditional && (!group || *group != static_cast<uint32_t>(from[i]))) {
              errors[i] = group ? ESTALE : ENODEV;
            } else {
              errors[i] = static_cast<uint32_t>(nft::set_link_group(it, indices[i], groups[i]));
            }
          }
          return errors;
        });
      },
      [](Napi::Env env, const std::vector<uint32_t>& errors) {
        Napi::Uint32Array array = Napi::Uint32Array::New(env, errors.size());
        std::copy(errors.begin(), errors.end(), array.Data());
        return array;
      });
}

Napi::Value LinkSocket::close(const Napi::CallbackInfo& info) {
  return close_on_worker(info, socket_);
}

}  // namespace binding
