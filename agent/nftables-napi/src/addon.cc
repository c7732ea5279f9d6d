#include <linux/netfilter.h>
#include <napi.h>
#include <nftables/libnftables.h>

#include <cstring>

#include "core/elements.h"
#include "echo_socket.h"
#include "ip_socket.h"
#include "links.h"
#include "monitor.h"
#include "netlink.h"
#include "nflog.h"
#include "nftables.h"
#include "packet_socket.h"
#include "raw_socket.h"
#include "routes.h"

namespace {

struct Constant {
  const char* name;
  uint32_t value;
};

template <size_t Count>
Napi::Object to_object(Napi::Env env, const Constant (&constants)[Count]) {
  Napi::Object object = Napi::Object::New(env);
  for (const Constant& each : constants) object.Set(each.name, Napi::Number::New(env, each.value));
  return object;
}

constexpr Constant families[] = {{"ip", NFPROTO_IPV4},     {"ip6", NFPROTO_IPV6},       {"inet", NFPROTO_INET},
                                 {"arp", NFPROTO_ARP},     {"bridge", NFPROTO_BRIDGE},  {"netdev", NFPROTO_NETDEV}};

constexpr Constant output_flags[] = {{"json", NFT_CTX_OUTPUT_JSON}, {"numeric", NFT_CTX_OUTPUT_NUMERIC_ALL}};

constexpr Constant verdicts[] = {{"accept", NF_ACCEPT},
                                 {"drop", NF_DROP},
                                 {"continue", static_cast<uint32_t>(NFT_CONTINUE)},
                                 {"return", static_cast<uint32_t>(NFT_RETURN)},
                                 {"jump", static_cast<uint32_t>(NFT_JUMP)},
                                 {"goto", static_cast<uint32_t>(NFT_GOTO)}};

constexpr Constant set_flags[] = {{"anonymous", NFT_SET_ANONYMOUS}, {"constant", NFT_SET_CONSTANT},
                                  {"interval", NFT_SET_INTERVAL},   {"map", NFT_SET_MAP},
                                  {"timeout", NFT_SET_TIMEOUT},     {"eval", NFT_SET_EVAL},
                                  {"object", NFT_SET_OBJECT},       {"concat", NFT_SET_CONCAT}};

// [errno, name, message] of every error this C library knows, in this process's language.
Napi::Array errors(Napi::Env env) {
  Napi::Array list = Napi::Array::New(env);
  for (int err = 1; err < 4096; err++) {
    const char* name = strerrorname_np(err);
    if (!name) continue;
    Napi::Array row = Napi::Array::New(env, 3);
    row.Set(0u, Napi::Number::New(env, err));
    row.Set(1u, Napi::String::New(env, name));
    row.Set(2u, Napi::String::New(env, std::strerror(err)));
    list.Set(list.Length(), row);
  }
  return list;
}

Napi::Object init(Napi::Env env, Napi::Object exports) {
  exports.Set("Context", binding::Context::define(env));
  exports.Set("Socket", binding::Socket::define(env));
  exports.Set("EventMonitor", binding::EventMonitor::define(env));
  exports.Set("EchoSocket", binding::EchoSocket::define(env));
  exports.Set("IpSocket", binding::IpSocket::define(env));
  exports.Set("LinkSocket", binding::LinkSocket::define(env));
  exports.Set("Nflog", binding::Nflog::define(env));
  exports.Set("PacketSocket", binding::PacketSocket::define(env));
  exports.Set("RawSocket", binding::RawSocket::define(env));
  exports.Set("RouteMonitor", binding::RouteMonitor::define(env));
  exports.Set("families", to_object(env, families));
  exports.Set("outputFlags", to_object(env, output_flags));
  exports.Set("verdicts", to_object(env, verdicts));
  exports.Set("setFlags", to_object(env, set_flags));
  exports.Set("errors", errors(env));
  return exports;
}

}  // namespace

NODE_API_MODULE(nftables_napi, init)
