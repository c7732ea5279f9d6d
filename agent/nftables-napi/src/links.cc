#include "links.h"

#include <cerrno>

namespace binding {

namespace {

template <class Integer>
Napi::Value number_or_null(Napi::Env env, const std::optional<Integer>& value) {
  return value ? Napi::Value(Napi::Number::New(env, *value)) : env.Null();
}

Napi::Object to_object(Napi::Env env, const nft::Link& link) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("index", Napi::Number::New(env, link.index));
  object.Set("name", Napi::String::New(env, link.name));
  object.Set("kind", link.kind ? Napi::Value(Napi::String::New(env, *link.kind)) : env.Null());
  object.Set("group", Napi::Number::New(env, link.group));
  object.Set("master", number_or_null(env, link.master));
  object.Set("peer", number_or_null(env, link.peer));
  object.Set("peerNamespace", number_or_null(env, link.peer_namespace));
  object.Set("isLoopback", Napi::Boolean::New(env, link.is_loopback));
  object.Set("isUp", Napi::Boolean::New(env, link.is_up));
  return object;
}

std::vector<uint32_t> numbers_argument(const Napi::Value& value, const char* name) {
  const auto array = argument<Napi::Uint32Array>(value, &Napi::Value::IsTypedArray, name);
  return {array.Data(), array.Data() + array.ElementLength()};
}

}  // namespace

Napi::Function LinkSocket::define(Napi::Env env) {
  return DefineClass(env, "LinkSocket",
                     {InstanceMethod<&LinkSocket::list>("list"), InstanceMethod<&LinkSocket::get_many>("getMany"),
                      InstanceMethod<&LinkSocket::set_groups>("setGroups"), InstanceMethod<&LinkSocket::close>("close")});
}

LinkSocket::LinkSocket(const Napi::CallbackInfo& info) : Napi::ObjectWrap<LinkSocket>(info) {
  try {
    socket_ = std::make_shared<Exclusive<nft::NetlinkSocket>>(nft::open_links());
  } catch (const nft::Failure& failure) {
    throw to_error(info.Env(), failure);
  }
}

Napi::Value LinkSocket::list(const Napi::CallbackInfo& info) {
  return PromiseWorker<std::vector<nft::Link>>::run(
      info.Env(), [socket = socket_] { return socket->use([](nft::NetlinkSocket& it) { return nft::dump_links(it); }); },
      [](Napi::Env env, const std::vector<nft::Link>& links) {
        Napi::Array array = Napi::Array::New(env, links.size());
        for (uint32_t i = 0; i < links.size(); i++) {
          const Napi::HandleScope scope(env);
          array.Set(i, to_object(env, links[i]));
        }
        return array;
      });
}

Napi::Value LinkSocket::get_many(const Napi::CallbackInfo& info) {
  auto indices = numbers_argument(info[0], "indices");
  return PromiseWorker<std::vector<std::optional<nft::Link>>>::run(
      info.Env(),
      [socket = socket_, indices = std::move(indices)] {
        return socket->use([&](nft::NetlinkSocket& it) {
          std::vector<std::optional<nft::Link>> links;
          for (const uint32_t index : indices) links.push_back(nft::get_link(it, index));
          return links;
        });
      },
      [](Napi::Env env, const std::vector<std::optional<nft::Link>>& links) {
        Napi::Array array = Napi::Array::New(env, links.size());
        for (uint32_t i = 0; i < links.size(); i++) {
          const Napi::HandleScope scope(env);
          array.Set(i, links[i] ? Napi::Value(to_object(env, *links[i])) : env.Null());
        }
        return array;
      });
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
            const auto link = is_conditional ? nft::get_link(it, indices[i]) : std::nullopt;
            if (is_conditional && (!link || link->group != static_cast<uint32_t>(from[i]))) {
              errors[i] = link ? ESTALE : ENODEV;
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

std::unique_ptr<nft::LinkMonitor> LinkMonitoring::open(const Napi::CallbackInfo& info) {
  return nft::open_link_monitor(static_cast<int>(number_argument(info[0], "receiveBuffer")), info[1].ToBoolean());
}

Napi::Value LinkMonitoring::to_value(Napi::Env env, const Core::Batch& events) {
  Napi::Array array = Napi::Array::New(env, events.size());
  for (uint32_t i = 0; i < events.size(); i++) {
    const Napi::HandleScope scope(env);
    const nft::LinkEvent& event = events[i];
    const bool has_link = event.kind == nft::LinkEvent::Kind::link || event.kind == nft::LinkEvent::Kind::removed;
    Napi::Object object = Napi::Object::New(env);
    object.Set("kind", Napi::Number::New(env, static_cast<int>(event.kind)));
    object.Set("errno", Napi::Number::New(env, event.err));
    object.Set("link", has_link ? Napi::Value(to_object(env, event.link)) : env.Null());
    array.Set(i, object);
  }
  return array;
}

}  // namespace binding
