// Everything src/core does, a few hundred times, for valgrind: run by leak-check.ts in a network
// namespace of its own.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>

#include <cstdio>
#include <cstdlib>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/rtnetlink.h>

#include "core/batch.h"
#include "core/elements.h"
#include "core/failure.h"
#include "core/links.h"
#include "core/monitor.h"
#include "core/nflog.h"
#include "core/nft_context.h"
#include "core/raw_socket.h"
#include "core/routes.h"
#include "core/snapshot.h"

namespace {

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "leak check: %s\n", what);
  std::exit(2);
}

// Bytes as lib/record.ts packs them; attributes and values as the kernel takes them.
struct Bytes {
  std::vector<uint8_t> all;

  void add(const void* data, size_t length) {
    const auto* bytes = static_cast<const uint8_t*>(data);
    all.insert(all.end(), bytes, bytes + length);
    all.resize((all.size() + 3) & ~size_t{3});
  }
  void attribute(uint16_t type, const void* data, size_t length) {
    const nlattr header{.nla_len = static_cast<uint16_t>(sizeof(nlattr) + length), .nla_type = type};
    add(&header, sizeof header);
    add(data, length);
  }
  void text(uint16_t type, const char* value) { attribute(type, value, std::strlen(value) + 1); }
  void nest(uint16_t type, const Bytes& inner) { attribute(type | NLA_F_NESTED, inner.all.data(), inner.all.size()); }
};

Bytes names(const char* set) {
  Bytes made;
  made.text(NFTA_SET_ELEM_LIST_TABLE, "t");
  made.text(NFTA_SET_ELEM_LIST_SET, set);
  return made;
}

// NFTA_SET_ELEM_DATA with a verdict.
Bytes value_of(int code, const char* chain) {
  Bytes verdict, data, value;
  const uint32_t number = htonl(static_cast<uint32_t>(code));
  verdict.attribute(NFTA_VERDICT_CODE, &number, sizeof number);
  if (chain) verdict.text(NFTA_VERDICT_CHAIN, chain);
  data.nest(NFTA_DATA_VERDICT, verdict);
  value.nest(NFTA_SET_ELEM_DATA, data);
  return value;
}

// A record of elements of 4 bytes, 0 being the first value and 1 the second.
Bytes record(uint16_t message, nft::Shape shape, const char* set, const std::vector<uint8_t>& data,
             const std::vector<Bytes>& values = {}) {
  Bytes attributes = names(set), tail;
  std::vector<uint32_t> value_at;
  for (const Bytes& value : values) {
    value_at.push_back(static_cast<uint32_t>(tail.all.size()));
    tail.add(value.all.data(), value.all.size());
  }
  const auto size = [](const auto& list) { return static_cast<uint32_t>(list.size() * sizeof(list[0])); };
  const uint16_t flags[] = {message, static_cast<uint16_t>(message == NFT_MSG_NEWSETELEM ? NLM_F_CREATE : 0)};
  const uint8_t kind[] = {NFPROTO_INET, static_cast<uint8_t>(shape), 1, 0};
  const uint32_t operation = 0, sizes[] = {size(attributes.all), size(data), size(value_at), size(tail.all), 4};
  Bytes made;
  made.add(&operation, sizeof operation);
  made.add(flags, sizeof flags);
  made.add(kind, sizeof kind);
  made.add(sizes, sizeof sizes);
  made.add(attributes.all.data(), attributes.all.size());
  made.add(data.data(), data.size());
  made.add(value_at.data(), size(value_at));
  made.add(tail.all.data(), tail.all.size());
  return made;
}

void send(nft::NetlinkSocket& socket, const std::vector<Bytes>& records) {
  std::vector<uint8_t> packed;
  for (const Bytes& each : records) packed.insert(packed.end(), each.all.begin(), each.all.end());
  nft::send_batch(socket, nft::read_steps(packed));
  // Cut off anywhere it must be refused, and nothing behind the end be read.
  for (size_t length = 1; length < packed.size(); length += 3) {
    const std::vector<uint8_t> part(packed.begin(), packed.begin() + static_cast<ptrdiff_t>(length));
    try {
      expect(nft::read_steps(part).size() < records.size(), "a cut record was taken for a whole one");
    } catch (const nft::Failure& failure) {
      expect(failure.err == EINVAL, "not EINVAL");
    }
  }
}

void round(nft::NetlinkSocket& socket) {
  nft::NftContext context;
  expect(context
             .run("add table inet t; add set inet t h { type ipv4_addr; }\n"
                  "add set inet t i { type ipv4_addr; flags interval; }\n"
                  "add map inet t m { type ipv4_addr : verdict; }\n"
                  "add chain inet t c; add rule inet t c tcp dport { 80, 443 } counter accept comment \"x\"",
                  0)
             .succeeded,
         "setting up");
  expect(!context.run("add rule inet t nowhere accept", 0).succeeded, "a wrong rule was accepted");
  expect(!context.run("not a command", 0).succeeded, "a wrong word was accepted");

  send(socket, {record(NFT_MSG_NEWSETELEM, nft::Shape::keys, "h", {1, 1, 1, 1, 2, 2, 2, 2}),
                record(NFT_MSG_NEWSETELEM, nft::Shape::ranges, "i", {9, 0, 0, 0, 255, 255, 255, 255}),
                record(NFT_MSG_NEWSETELEM, nft::Shape::keys, "m", {1, 1, 1, 1, 2, 2, 2, 2},
                       {value_of(NFT_JUMP, "c"), value_of(NF_DROP, nullptr)})});
  try {
    send(socket, {record(NFT_MSG_DELSETELEM, nft::Shape::keys, "h", {7, 7, 7, 7})});
    expect(false, "a missing element was deleted");
  } catch (const nft::Failure& failure) {
    expect(failure.details.size() == 1 && failure.details[0].key.size() == 4, "no element in the error");
  }
  for (const char* set : {"h", "i", "m"}) {
    expect(nft::dump_elements(socket, {NFPROTO_INET, "t", set}).has_value(), "no elements");
  }
  expect(nft::take_snapshot(socket, NFPROTO_INET, "t")->chains.size() == 1, "no snapshot");
  expect(!nft::take_snapshot(socket, NFPROTO_INET, "nothing"), "a snapshot of nothing");
  const nft::TableSnapshot chains = nft::take_snapshot_of_chains(socket, NFPROTO_INET, "t", {"c", "nothing"});
  expect(chains.chains.size() == 1 && chains.chains[0].rules.size() == 1, "not one chain with one rule");
  context.run("list ruleset", 0);
  context.run("delete table inet t", 0);
}

// A listener that hears something, one that is stopped with a batch nobody takes, and one that
// never hears anything.
void listening(nft::NetlinkSocket& links) {
  std::atomic<size_t> packets = 0, events = 0;
  const auto nflog = nft::open_nflog({.group = 5, .copy_range = 31, .queue_threshold = 8, .timeout = 1, .receive_buffer = 1 << 20});
  const auto monitor = nft::open_route_monitor(1, 1 << 20, NETLINK_ROUTE);
  nflog->start([&](const nft::NflogBatch& batch) { packets += batch.packets; nflog->taken(); }, [] {});
  monitor->start([&](const nft::RouteBatch& batch) { events += batch.messages.size(); }, [] {});
  try {
    nft::open_nflog({.group = 5, .copy_range = 31, .queue_threshold = 8, .timeout = 1, .receive_buffer = 1 << 20});
    expect(false, "a group was bound twice");
  } catch (const nft::Failure& failure) {
    expect(failure.err == EBUSY, "not EBUSY");
  }
  nft::open_nflog({.group = 6, .copy_range = 1, .queue_threshold = 1, .timeout = 1, .receive_buffer = 1 << 20})->start([](const nft::NflogBatch&) {}, [] {});

  const int sender = socket(AF_INET, SOCK_DGRAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(9);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (int i = 0; i < 50; i++) sendto(sender, "hello", 5, 0, reinterpret_cast<sockaddr*>(&to), sizeof to);
  close(sender);
  expect(nft::link_group(links, 1).has_value(), "no lo");
  expect(!nft::link_group(links, 99), "a link of nothing");
  expect(nft::set_link_group(links, 1, 7) == 0, "no group");
  expect(nft::set_link_group(links, 99, 7) == ENODEV, "a group of nothing");
  for (int i = 0; i < 500 && (packets < 50 || events == 0); i++) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  expect(packets == 50, "not all packets");
  expect(events > 0, "no link event");
  nflog->stop();
}

// A header of rtnetlink, with room for its kind's own.
std::vector<char> route_request(uint16_t type, uint16_t flags, size_t header) {
  std::vector<char> made(NLMSG_HDRLEN + header);
  nlmsghdr* message = mnl_nlmsg_put_header(made.data());
  message->nlmsg_len = static_cast<uint32_t>(made.size());
  message->nlmsg_type = type;
  message->nlmsg_flags = NLM_F_REQUEST | flags;
  return made;
}

// Dumps, an answer for each of several requests, and a monitor whose batches somebody takes.
void routing(nft::NetlinkSocket& links) {
  std::atomic<size_t> bytes = 0;
  const auto monitor = nft::open_route_monitor(1, 1 << 20, NETLINK_ROUTE);
  monitor->start([&](const nft::RouteBatch& batch) { bytes += batch.messages.size(); monitor->taken(); }, [] {});
  nft::RawSocket socket(NETLINK_ROUTE);
  socket.dump(route_request(RTM_GETLINK, NLM_F_DUMP, sizeof(ifinfomsg)));
  size_t read = 0;
  for (std::string chunk = socket.next(64); !chunk.empty(); chunk = socket.next(64)) read += chunk.size();
  expect(read > sizeof(nlmsghdr), "no dump of links");
  auto requests = route_request(RTM_GETLINK, 0, sizeof(ifinfomsg));
  const auto more = route_request(RTM_DELNEXTHOP, 0, 8);
  requests.insert(requests.end(), more.begin(), more.end());
  // Each refused, with a text of the kernel's.
  expect(socket.exchange(requests).size() > 2 * (NLMSG_HDRLEN + sizeof(nlmsgerr)), "no refusals with a text");
  try {
    socket.exchange(std::vector<char>(requests.begin(), requests.end() - 1));
    expect(false, "a cut request was sent");
  } catch (const nft::Failure& failure) {
    expect(failure.err == EINVAL, "not EINVAL");
  }
  nft::set_link_group(links, 1, 8);
  for (int i = 0; i < 500 && bytes == 0; i++) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  expect(bytes > 0, "no event of routing");
}

// The connection of a packet, in a message made by hand: the kernel here may lack
// CONFIG_NETFILTER_NETLINK_GLUE_CT.
void decoding(bool is_v6, bool has_ports) {
  char buffer[512] = {};
  nlmsghdr* message = mnl_nlmsg_put_header(buffer);
  message->nlmsg_type = NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET;
  static_cast<nfgenmsg*>(mnl_nlmsg_put_extra_header(message, sizeof(nfgenmsg)))->nfgen_family = is_v6 ? AF_INET6 : AF_INET;
  const uint8_t source[16] = {10, 0, 0, 1}, destination[16] = {10, 0, 0, 2};
  const uint16_t length = is_v6 ? 16 : 4;
  mnl_attr_put(message, NFULA_PAYLOAD, 5, "hello");
  nlattr* connection = mnl_attr_nest_start(message, NFULA_CT);
  nlattr* tuple = mnl_attr_nest_start(message, CTA_TUPLE_ORIG);
  nlattr* addresses = mnl_attr_nest_start(message, CTA_TUPLE_IP);
  mnl_attr_put(message, is_v6 ? CTA_IP_V6_SRC : CTA_IP_V4_SRC, length, source);
  mnl_attr_put(message, is_v6 ? CTA_IP_V6_DST : CTA_IP_V4_DST, length, destination);
  mnl_attr_nest_end(message, addresses);
  nlattr* protocol = mnl_attr_nest_start(message, CTA_TUPLE_PROTO);
  mnl_attr_put_u8(message, CTA_PROTO_NUM, 17);
  if (has_ports) mnl_attr_put_u16(message, CTA_PROTO_SRC_PORT, htons(1234));
  if (has_ports) mnl_attr_put_u16(message, CTA_PROTO_DST_PORT, htons(53));
  mnl_attr_nest_end(message, protocol);
  mnl_attr_nest_end(message, tuple);
  mnl_attr_nest_end(message, connection);

  nft::NflogBatch batch;
  nft::NflogDecoder(64).take(message, batch);
  nft::NflogRecord record;
  std::memcpy(&record, batch.records.data(), sizeof record);
  expect(batch.packets == 1 && record.length == batch.records.size(), "not one record");
  expect(record.original == (17u | length << 8), "another protocol or family");
  expect(record.ports == (has_ports ? 1234u << 16 | 53 : 0), "other ports");
  expect(record.protocol_flags >> 16 == (has_ports ? 12 : 4), "other flags");
  const uint8_t* rest = batch.records.data() + sizeof record;
  expect(!std::memcmp(rest, source, length) && !std::memcmp(rest + length, destination, length), "other addresses");
  expect(!std::memcmp(rest + 2 * length, "hello", 5) && record.payload_length == 5, "another payload");
}

}  // namespace

// The rounds of each part, 20 by default.
int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 20;
  for (int i = 0; i < 4; i++) decoding(i & 1, i & 2);
  nft::NetlinkSocket socket;
  for (int i = 0; i < rounds; i++) {
    nft::Monitor monitor(NFPROTO_INET, "t", {"quiet"}, 1 << 20);
    monitor.start([](const nft::MonitorEvent&) {}, [] {});
    round(socket);
    monitor.stop();
  }
  expect(std::system("ip link set lo up && nft 'add table inet l; add chain inet l o { type filter hook output priority 0; }; "
                     "add rule inet l o udp dport 9 log prefix \"a prefix\" group 5'") == 0,
         "setting up");
  const auto links = nft::open_links();
  for (int i = 0; i < rounds; i++) listening(*links);
  for (int i = 0; i < rounds; i++) routing(*links);
  return 0;
}
