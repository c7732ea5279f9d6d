#include "core/nflog.h"

#include <arpa/inet.h>
#include <endian.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netfilter/nfnetlink_log.h>

#include <algorithm>
#include <cerrno>

#include "core/failure.h"

namespace nft {

namespace {

constexpr uint16_t config_type = NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_CONFIG;
constexpr uint16_t packet_type = NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET;

// Room for the attributes of one packet beside its payload; what does not fit only makes the kernel
// hand over sooner.
constexpr uint32_t packet_overhead = 256;
constexpr uint32_t least_buffer = 4096;
constexpr uint32_t largest_buffer = 1 << 17;  // the kernel's limit, and the size of Listener's own buffer

// 0, or the errno of the kernel's refusal. One message does all, so no packet comes with other
// settings.
int bind_group(NetlinkSocket& socket, const NflogOptions& options, uint16_t flags) {
  const nfgenmsg header{.nfgen_family = AF_UNSPEC, .version = NFNETLINK_V0, .res_id = htons(options.group)};
  nfulnl_msg_config_mode mode{};
  mode.copy_mode = NFULNL_COPY_PACKET;
  mode.copy_range = htonl(options.copy_range);
  const uint64_t wanted = uint64_t{options.queue_threshold} * (options.copy_range + packet_overhead);
  const auto buffer = static_cast<uint32_t>(std::clamp<uint64_t>(wanted, least_buffer, largest_buffer));
  Request request = Request::of(config_type, NLM_F_REQUEST | NLM_F_ACK, header);
  request.value(NFULA_CFG_CMD, nfulnl_msg_config_cmd{NFULNL_CFG_CMD_BIND})
      .value(NFULA_CFG_MODE, mode)
      .value(NFULA_CFG_NLBUFSIZ, htonl(buffer))
      .value(NFULA_CFG_TIMEOUT, htonl(options.timeout))
      .value(NFULA_CFG_QTHRESH, htonl(options.queue_threshold))
      .value(NFULA_CFG_FLAGS, htons(flags));
  try {
    return socket.ask(request, [](const nlmsghdr*) {}) == Answer::complete ? 0 : ENOENT;
  } catch (const Failure& failure) {
    return failure.err;
  }
}

void bind_group(NetlinkSocket& socket, const NflogOptions& options) {
  const std::string what = "nflog group " + std::to_string(options.group);
  int err = 0;
  for (int attempt = 0; attempt < 3; attempt++) {
    err = bind_group(socket, options, NFULNL_CFG_F_SEQ | NFULNL_CFG_F_CONNTRACK);
    if (err != EAGAIN) break;  // EAGAIN: the kernel has just loaded what it needs for connections
  }
  // Without CONFIG_NETFILTER_NETLINK_GLUE_CT there are no connections; nothing is bound yet then.
  if (err == EOPNOTSUPP || err == EAGAIN) err = bind_group(socket, options, NFULNL_CFG_F_SEQ);
  if (err == EPERM) {
    // The kernel says that of a group somebody else has, and of missing capabilities: for those to
    // any question.
    try {
      socket.generation();
    } catch (const Failure& failure) {
      throw Failure(failure.err, what);
    }
    err = EBUSY;
  }
  if (err == EBUSY) throw Failure(err, what + ": somebody else listens to it");
  if (err != 0) throw Failure(err, what);
}

struct Tuple {
  const uint8_t* source = nullptr;
  const uint8_t* destination = nullptr;
  uint32_t address_length = 0;
  uint8_t protocol = 0;
  bool has_ports = false;
  uint32_t ports = 0;
};

// The original direction out of NFULA_CT, with addresses that point into the message. Without
// addresses: unknown.
Tuple read_tuple(const nlattr* connection) {
  Tuple tuple;
  const auto directions = Attributes<CTA_TUPLE_ORIG + 1>::in(connection);
  if (!directions[CTA_TUPLE_ORIG]) return tuple;
  const auto parts = Attributes<CTA_TUPLE_PROTO + 1>::in(directions[CTA_TUPLE_ORIG]);
  if (!parts[CTA_TUPLE_IP] || !parts[CTA_TUPLE_PROTO]) return tuple;
  const auto protocol = Attributes<CTA_PROTO_DST_PORT + 1>::in(parts[CTA_TUPLE_PROTO]);
  if (protocol[CTA_PROTO_NUM]) tuple.protocol = mnl_attr_get_u8(protocol[CTA_PROTO_NUM]);
  if (protocol[CTA_PROTO_SRC_PORT] && protocol[CTA_PROTO_DST_PORT]) {
    tuple.has_ports = true;
    tuple.ports = uint32_t{ntohs(mnl_attr_get_u16(protocol[CTA_PROTO_SRC_PORT]))} << 16 |
                  ntohs(mnl_attr_get_u16(protocol[CTA_PROTO_DST_PORT]));
  }
  const auto addresses = Attributes<CTA_IP_V6_DST + 1>::in(parts[CTA_TUPLE_IP]);
  const bool is_v6 = addresses[CTA_IP_V6_SRC];
  const nlattr* source = addresses[is_v6 ? CTA_IP_V6_SRC : CTA_IP_V4_SRC];
  const nlattr* destination = addresses[is_v6 ? CTA_IP_V6_DST : CTA_IP_V4_DST];
  if (!source || !destination) return tuple;
  tuple.source = static_cast<const uint8_t*>(mnl_attr_get_payload(source));
  tuple.destination = static_cast<const uint8_t*>(mnl_attr_get_payload(destination));
  tuple.address_length = is_v6 ? 16 : 4;
  return tuple;
}

uint32_t index_of_prefix(const nlattr* attribute, NflogBatch& batch) {
  std::string_view prefix;
  if (attribute) {
    const char* text = static_cast<const char*>(mnl_attr_get_payload(attribute));
    prefix = {text, strnlen(text, mnl_attr_get_payload_len(attribute))};
  }
  const auto known = batch.prefixes.find(prefix);
  if (known != batch.prefixes.end()) return known->second;
  const auto index = static_cast<uint32_t>(batch.prefixes.size());
  batch.prefixes.emplace(prefix, index);
  return index;
}

}  // namespace

void NflogDecoder::count_lost(uint32_t sequence, Batch& batch) {
  const uint32_t gap = sequence - next_sequence_;  // modulo 2 ** 32, as the kernel counts
  next_sequence_ = sequence + 1;
  if (gap == 0) return;
  batch.lost += gap - (is_overrun_counted_ ? 1 : 0);
  is_overrun_counted_ = false;
}

// The gap only shows with the next packet that gets through, which may be long after.
void NflogDecoder::overrun(Batch& batch) {
  if (!is_overrun_counted_) batch.lost++;
  is_overrun_counted_ = true;
}

void NflogDecoder::take(const nlmsghdr* message, Batch& batch) {
  if (message->nlmsg_type != packet_type) return;
  const auto attributes = Attributes<NFULA_CT + 1>::of(message);
  NflogRecord record{};
  uint32_t flags = 0;
  record.prefix = index_of_prefix(attributes[NFULA_PREFIX], batch);
  record.hook_family = generic_header(message)->nfgen_family;
  if (const nlattr* at = attributes[NFULA_PACKET_HDR]) {
    const auto* header = static_cast<const nfulnl_msg_packet_hdr*>(mnl_attr_get_payload(at));
    record.hook_family |= uint32_t{header->hook} << 8;
    record.protocol_flags = ntohs(header->hw_protocol);
  }
  if (attributes[NFULA_IFINDEX_INDEV]) record.input = u32_of(attributes[NFULA_IFINDEX_INDEV]);
  if (attributes[NFULA_IFINDEX_OUTDEV]) record.output = u32_of(attributes[NFULA_IFINDEX_OUTDEV]);
  if (const nlattr* at = attributes[NFULA_TIMESTAMP]) {
    nfulnl_msg_packet_timestamp time;  // not aligned in the message
    std::memcpy(&time, mnl_attr_get_payload(at), sizeof time);
    record.seconds = static_cast<uint32_t>(be64toh(time.sec));
    record.microseconds = static_cast<uint32_t>(be64toh(time.usec));
    flags |= NflogRecord::has_timestamp;
  }
  if (attributes[NFULA_SEQ]) {
    record.sequence = u32_of(attributes[NFULA_SEQ]);
    flags |= NflogRecord::has_sequence;
    count_lost(record.sequence, batch);
  }
  const Tuple tuple = attributes[NFULA_CT] ? read_tuple(attributes[NFULA_CT]) : Tuple{};
  if (tuple.address_length) {
    record.original = tuple.protocol | tuple.address_length << 8;
    record.ports = tuple.ports;
    flags |= NflogRecord::has_original | (tuple.has_ports ? NflogRecord::has_ports : 0);
  }
  record.protocol_flags |= flags << 16;
  const nlattr* payload = attributes[NFULA_PAYLOAD];
  record.payload_length = payload ? mnl_attr_get_payload_len(payload) : 0;
  const size_t whole = sizeof record + 2 * tuple.address_length + record.payload_length;
  record.length = static_cast<uint32_t>((whole + 3) / 4 * 4);

  const size_t start = batch.records.size();
  batch.records.resize(start + record.length);
  uint8_t* to = batch.records.data() + start;
  const auto put = [&](const void* from, size_t length) {
    if (length) std::memcpy(to, from, length);
    to += length;
  };
  put(&record, sizeof record);
  put(tuple.source, tuple.address_length);
  put(tuple.destination, tuple.address_length);
  put(payload ? mnl_attr_get_payload(payload) : nullptr, record.payload_length);
  batch.packets++;
}

std::unique_ptr<Nflog> open_nflog(const NflogOptions& options) {
  auto socket = std::make_unique<NetlinkSocket>(0, options.receive_buffer);
  bind_group(*socket, options);
  return std::make_unique<Nflog>(std::move(socket), NflogDecoder(options.queue_threshold));
}

}  // namespace nft
