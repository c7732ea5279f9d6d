#include "core/batch.h"

#include <arpa/inet.h>
#include <libnftnl/common.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <span>

#include "core/failure.h"

namespace nft {

namespace {

// The length of an attribute is a 16-bit field, and all elements of a message are in one attribute.
constexpr size_t elements_limit = 64000;
constexpr size_t header_room = 1024;

size_t aligned(size_t length) { return MNL_ALIGN(length); }

// The most bytes one key or range of the operation takes: its elements, each a nest of nests, 4 bytes a header.
size_t element_room(const SetOperation& operation) {
  size_t verdict = 0;
  for (const Verdict& each : operation.verdicts) {
    verdict = std::max(verdict, 4 + 4 + 8 + 4 + aligned(each.chain.size() + 1));
  }
  const size_t key = 4 + 4 + aligned(operation.key_length);
  return 4 + key + verdict + (operation.shape == Shape::keys ? 0 : 4 + key + 8);
}

size_t width_of(const SetOperation& operation) {
  return operation.key_length * (operation.shape == Shape::keys ? 1 : 2);
}

size_t count_of(const SetOperation& operation) {
  return operation.change == Change::flush ? 0 : operation.data.size() / width_of(operation);
}

// The key after this one; false where there is none, because it is the highest.
bool increment(std::span<uint8_t> key) {
  for (size_t i = key.size(); i-- > 0;) {
    if (++key[i] != 0) return true;
  }
  return false;
}

// The netlink messages of one batch in one buffer, and which operation each belongs to.
class Batch {
 public:
  explicit Batch(const std::vector<SetOperation>& operations) : operations_(operations) {
    size_t room = 4 * header_room;
    for (const SetOperation& operation : operations) {
      const size_t bytes = count_of(operation) * element_room(operation);
      room += bytes + (bytes / (elements_limit / 2) + 1) * header_room;
    }
    // Zeroed: libmnl leaves the padding of strings as it finds it, and it goes to the kernel.
    buffer_ = std::make_unique<char[]>(room);
  }

  void build(uint32_t sequence) {
    first_sequence_ = sequence;
    length_ = nftnl_batch_begin(buffer_.get(), sequence++)->nlmsg_len;
    for (size_t i = 0; i < operations_.size(); i++) {
      const SetOperation& operation = operations_[i];
      if (operation.change == Change::flush) {
        finish(start(operation, i, sequence++));
      } else {
        sequence = put_elements(operation, i, sequence);
      }
    }
    if (messages_.empty()) return;
    // Only the last message asks for an acknowledgement: errors come without being asked for.
    reinterpret_cast<nlmsghdr*>(buffer_.get() + messages_.back().offset)->nlmsg_flags |= NLM_F_ACK;
    length_ += nftnl_batch_end(buffer_.get() + length_, sequence)->nlmsg_len;
  }

  // An upper bound of the sequence numbers build() uses.
  static uint32_t sequences(const std::vector<SetOperation>& operations) {
    size_t count = 2;
    for (const SetOperation& operation : operations) {
      count += 1 + count_of(operation) * element_room(operation) / (elements_limit / 2);
    }
    return static_cast<uint32_t>(count);
  }

  bool empty() const { return messages_.empty(); }
  const char* data() const { return buffer_.get(); }
  size_t length() const { return length_; }
  uint32_t last_sequence() const { return first_sequence_ + static_cast<uint32_t>(messages_.size()); }

  // The operation a sequence number belongs to, -1 for the batch's own messages.
  int operation_of(uint32_t sequence) const {
    const uint32_t index = sequence - first_sequence_ - 1;
    return index < messages_.size() ? static_cast<int>(messages_[index].operation) : -1;
  }

  // The key of the element that the byte at `offset` of a message belongs to, empty if it is in none.
  std::string key_at(uint32_t sequence, uint32_t offset) const {
    const uint32_t index = sequence - first_sequence_ - 1;
    if (index >= messages_.size()) return {};
    const char* begin = buffer_.get() + messages_[index].offset;
    const auto* message = reinterpret_cast<const nlmsghdr*>(begin);
    const nlattr* elements = Attributes<NFTA_SET_ELEM_LIST_MAX + 1>::of(message)[NFTA_SET_ELEM_LIST_ELEMENTS];
    if (!elements) return {};
    std::string found;
    each_nested(elements, [&](const nlattr* element) {
      const size_t at = static_cast<size_t>(reinterpret_cast<const char*>(element) - begin);
      if (offset < at || offset >= at + mnl_attr_get_len(element)) return;
      const nlattr* key = Attributes<NFTA_SET_ELEM_MAX + 1>::in(element)[NFTA_SET_ELEM_KEY];
      const auto* value = static_cast<const nlattr*>(mnl_attr_get_payload(key));
      found.assign(static_cast<const char*>(mnl_attr_get_payload(value)), mnl_attr_get_payload_len(value));
    });
    return found;
  }

 private:
  struct Message {
    size_t offset;
    size_t operation;
  };

  nlmsghdr* start(const SetOperation& operation, size_t index, uint32_t sequence) {
    const bool add = operation.change == Change::add;
    // Adding what is there already is no error, as with nft's `add element`; NLM_F_EXCL would make it one.
    nlmsghdr* message = nftnl_nlmsg_build_hdr(buffer_.get() + length_, add ? NFT_MSG_NEWSETELEM : NFT_MSG_DELSETELEM,
                                              operation.family, add ? NLM_F_CREATE : 0, sequence);
    mnl_attr_put_strz(message, NFTA_SET_ELEM_LIST_TABLE, operation.table.c_str());
    mnl_attr_put_strz(message, NFTA_SET_ELEM_LIST_SET, operation.set.c_str());
    messages_.push_back({length_, index});
    return message;
  }

  void finish(nlmsghdr* message) { length_ += MNL_ALIGN(message->nlmsg_len); }

  uint32_t put_elements(const SetOperation& operation, size_t index, uint32_t sequence) {
    const size_t count = count_of(operation);
    const size_t room = element_room(operation);
    for (size_t done = 0; done < count;) {
      nlmsghdr* message = start(operation, index, sequence++);
      nlattr* elements = mnl_attr_nest_start(message, NFTA_SET_ELEM_LIST_ELEMENTS);
      const size_t begin = message->nlmsg_len;
      while (done < count && message->nlmsg_len - begin + room <= elements_limit) {
        put_element(message, operation, done++);
      }
      mnl_attr_nest_end(message, elements);
      finish(message);
    }
    return sequence;
  }

  void put_element(nlmsghdr* message, const SetOperation& operation, size_t index) {
    const size_t length = operation.key_length;
    const uint8_t* first = operation.data.data() + index * width_of(operation);
    nlattr* element = mnl_attr_nest_start(message, NFTA_LIST_ELEM);
    put_key(message, NFTA_SET_ELEM_KEY, first, length);
    if (operation.shape == Shape::concatenated_ranges) put_key(message, NFTA_SET_ELEM_KEY_END, first + length, length);
    if (!operation.verdict_of.empty()) put_verdict(message, operation.verdicts[operation.verdict_of[index]]);
    mnl_attr_nest_end(message, element);
    // After its start: the kernel refuses an end that ends nothing (EEXIST).
    if (operation.shape == Shape::ranges) put_range_end(message, first + length, length);
  }

  // A range that ends at the highest key has no end element: it is open to the right.
  void put_range_end(nlmsghdr* message, const uint8_t* last, size_t length) {
    end_.assign(last, last + length);
    if (!increment(end_)) return;
    nlattr* element = mnl_attr_nest_start(message, NFTA_LIST_ELEM);
    put_key(message, NFTA_SET_ELEM_KEY, end_.data(), length);
    mnl_attr_put_u32(message, NFTA_SET_ELEM_FLAGS, htonl(NFT_SET_ELEM_INTERVAL_END));
    mnl_attr_nest_end(message, element);
  }

  static void put_key(nlmsghdr* message, uint16_t attribute, const uint8_t* key, size_t length) {
    nlattr* nest = mnl_attr_nest_start(message, attribute);
    mnl_attr_put(message, NFTA_DATA_VALUE, length, key);
    mnl_attr_nest_end(message, nest);
  }

  static void put_verdict(nlmsghdr* message, const Verdict& verdict) {
    nlattr* data = mnl_attr_nest_start(message, NFTA_SET_ELEM_DATA);
    nlattr* nest = mnl_attr_nest_start(message, NFTA_DATA_VERDICT);
    mnl_attr_put_u32(message, NFTA_VERDICT_CODE, htonl(static_cast<uint32_t>(verdict.code)));
    if (!verdict.chain.empty()) mnl_attr_put_strz(message, NFTA_VERDICT_CHAIN, verdict.chain.c_str());
    mnl_attr_nest_end(message, nest);
    mnl_attr_nest_end(message, data);
  }

  const std::vector<SetOperation>& operations_;
  std::unique_ptr<char[]> buffer_;
  size_t length_ = 0;
  uint32_t first_sequence_ = 0;
  std::vector<Message> messages_;
  std::vector<uint8_t> end_;
};

void check(const std::vector<SetOperation>& operations) {
  for (const SetOperation& operation : operations) {
    const auto require = [](bool holds, const char* what) {
      if (!holds) throw Failure(EINVAL, what);
    };
    require(operation.table.size() < NFT_NAME_MAXLEN && operation.set.size() < NFT_NAME_MAXLEN, "name too long");
    if (operation.change == Change::flush) continue;
    require(operation.key_length > 0 && operation.key_length <= NFT_DATA_VALUE_MAXLEN, "key length");
    require(operation.data.size() % width_of(operation) == 0, "length of the keys");
    require(operation.verdict_of.empty() || operation.verdict_of.size() == count_of(operation), "number of verdicts");
    for (uint32_t index : operation.verdict_of) require(index < operation.verdicts.size(), "verdict index");
    for (const Verdict& verdict : operation.verdicts) require(verdict.chain.size() < NFT_NAME_MAXLEN, "chain name");
  }
}

// Appends what one NLMSG_ERROR says; true if it was the acknowledgement of the last message.
bool read_answer(const nlmsghdr* message, const Batch& batch, std::vector<FailureDetail>& errors) {
  const auto* answer = static_cast<const nlmsgerr*>(mnl_nlmsg_get_payload(message));
  if (answer->error == 0) return message->nlmsg_seq == batch.last_sequence();
  FailureDetail detail{.err = -answer->error, .operation = batch.operation_of(message->nlmsg_seq), .key = {}, .text = {}};
  if (message->nlmsg_flags & NLM_F_ACK_TLVS) {
    size_t skip = sizeof(nlmsgerr);
    if (!(message->nlmsg_flags & NLM_F_CAPPED)) skip += answer->msg.nlmsg_len - sizeof(nlmsghdr);
    each_attribute(message, skip, [&](const nlattr* attribute) {
      const uint16_t type = mnl_attr_get_type(attribute);
      if (type == NLMSGERR_ATTR_MSG) detail.text = text_of(attribute);
      if (type == NLMSGERR_ATTR_OFFS) detail.key = batch.key_at(message->nlmsg_seq, mnl_attr_get_u32(attribute));
    });
  }
  errors.push_back(std::move(detail));
  return false;
}

void transmit(NetlinkSocket& socket, const Batch& batch) {
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  ssize_t sent;
  do {
    sent = sendto(socket.fd(), batch.data(), batch.length(), 0, reinterpret_cast<sockaddr*>(&kernel), sizeof kernel);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) throw Failure(errno, "netlink send");

  // The kernel handles the batch inside send(): every answer is in the queue by now, so reading doesn't wait.
  bool acknowledged = false;
  std::vector<FailureDetail> errors;
  std::vector<char> buffer(1 << 16);
  for (;;) {
    ssize_t got = recv(socket.fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) break;
      throw Failure(errno, "netlink receive");
    }
    int left = static_cast<int>(got);
    for (auto* message = reinterpret_cast<nlmsghdr*>(buffer.data()); mnl_nlmsg_ok(message, left);
         message = mnl_nlmsg_next(message, &left)) {
      if (message->nlmsg_type == NLMSG_ERROR) acknowledged = read_answer(message, batch, errors) || acknowledged;
    }
  }
  if (!errors.empty()) {
    Failure failure(errors.front().err, "batch refused");
    failure.details = std::move(errors);
    throw failure;
  }
  if (!acknowledged) throw Failure(EPROTO, "batch not acknowledged");
}

}  // namespace

BatchResult send_batch(NetlinkSocket& socket, const std::vector<SetOperation>& operations) {
  using Clock = std::chrono::steady_clock;
  using Microseconds = std::chrono::duration<double, std::micro>;
  check(operations);
  BatchResult result;
  const auto began = Clock::now();
  Batch batch(operations);
  batch.build(socket.next_sequence(Batch::sequences(operations)));
  result.build_microseconds = Microseconds(Clock::now() - began).count();
  result.before = result.after = socket.generation();
  if (batch.empty()) return result;
  socket.reserve_send_buffer(batch.length());
  const auto sending = Clock::now();
  transmit(socket, batch);
  result.kernel_microseconds = Microseconds(Clock::now() - sending).count();
  result.after = socket.generation();
  return result;
}

}  // namespace nft
