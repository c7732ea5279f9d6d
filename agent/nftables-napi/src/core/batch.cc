#include "core/batch.h"

#include <arpa/inet.h>
#include <libnftnl/common.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <span>

#include "core/digest.h"
#include "core/failure.h"

namespace nft {

namespace {

// The length of an attribute is a 16-bit field, and all elements of a message are in one attribute.
constexpr size_t elements_limit = 64000;
// Room for headers, for a nest and for a first end, more than they take.
constexpr size_t header_room = 192;
// NFTNL_UDATA_SET_ELEM_FLAGS, 4 bytes, SET_ELEM_F_INTERVAL_OPEN: libnftables' mark
// (src/expression.c), which only its lists read.
constexpr uint8_t open_interval[] = {1, 4, 1, 0, 0, 0};

constexpr uint16_t deleted_rule = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_DELRULE;

// The flags of an end element, or the mark of an element that is open to the right.
constexpr size_t mark_room = 12;

size_t aligned(size_t length) { return MNL_ALIGN(length); }

const nlattr* value_of(const Step& step, uint32_t at) { return reinterpret_cast<const nlattr*>(step.values.data() + at); }

// The most bytes one key or range of the step takes: its elements, each a nest of nests, 4 bytes a
// header.
size_t element_room(const Step& step) {
  size_t value = 0;
  for (const uint32_t at : step.value_at) value = std::max(value, aligned(value_of(step, at)->nla_len));
  const size_t key = 4 + 4 + aligned(step.key_length);
  return 4 + key + value + (step.shape == Shape::keys ? 0 : 4 + key + mark_room);
}

size_t width_of(const Step& step) { return step.key_length * (step.shape == Shape::keys ? 1 : 2); }

size_t count_of(const Step& step) { return step.shape == Shape::none ? 0 : step.data.size() / width_of(step); }

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
  explicit Batch(const std::vector<Step>& steps) : steps_(steps) {
    size_t room = 4 * header_room;
    for (const Step& step : steps) {
      const size_t head = step.attributes.size() + header_room;
      const size_t bytes = count_of(step) * element_room(step);
      room += bytes + (bytes / (elements_limit / 2) + 1) * head;
    }
    // Zeroed: libmnl leaves the padding of strings as it finds it, and it goes to the kernel.
    buffer_ = std::make_unique<char[]>(room);
    messages_.reserve(steps.size());
  }

  void build(uint32_t sequence) {
    first_sequence_ = sequence;
    length_ = nftnl_batch_begin(buffer_.get(), sequence++)->nlmsg_len;
    for (const Step& step : steps_) {
      if (step.shape == Shape::none) {
        finish(start(step, sequence++));
      } else {
        sequence = put_elements(step, sequence);
      }
    }
    if (messages_.empty()) return;
    // Only the last message asks for an acknowledgement: errors come without being asked for.
    reinterpret_cast<nlmsghdr*>(buffer_.get() + messages_.back().offset)->nlmsg_flags |= NLM_F_ACK;
    length_ += nftnl_batch_end(buffer_.get() + length_, sequence)->nlmsg_len;
  }

  // An upper bound of the sequence numbers build() uses.
  static uint32_t sequences(const std::vector<Step>& steps) {
    size_t count = 2;
    for (const Step& step : steps) count += 1 + count_of(step) * element_room(step) / (elements_limit / 2);
    return static_cast<uint32_t>(count);
  }

  bool empty() const { return messages_.empty(); }
  const char* data() const { return buffer_.get(); }
  size_t length() const { return length_; }
  uint32_t last_sequence() const { return first_sequence_ + static_cast<uint32_t>(messages_.size()); }

  // The operation a sequence number belongs to, -1 for the batch's own messages.
  int operation_of(uint32_t sequence) const {
    const Message* found = message_of(sequence);
    return found ? static_cast<int>(found->operation) : -1;
  }

  // Finds the part of the message that has the byte at `offset`: the key of an element, the index
  // of a rule's expression.
  void locate(uint32_t sequence, uint32_t offset, FailureDetail& detail) const {
    const Message* found = message_of(sequence);
    if (!found) return;
    const char* begin = buffer_.get() + found->offset;
    const auto* message = reinterpret_cast<const nlmsghdr*>(begin);
    const int type = NFNL_MSG_TYPE(message->nlmsg_type);
    const bool is_rule = type == NFT_MSG_NEWRULE;
    if (!is_rule && type != NFT_MSG_NEWSETELEM && type != NFT_MSG_DELSETELEM) return;
    const nlattr* list = Attributes<NFTA_RULE_MAX + 1>::of(message)[is_rule ? uint16_t{NFTA_RULE_EXPRESSIONS} : uint16_t{NFTA_SET_ELEM_LIST_ELEMENTS}];
    if (!list) return;
    int index = 0;
    each_nested(list, [&](const nlattr* entry) {
      const size_t at = static_cast<size_t>(reinterpret_cast<const char*>(entry) - begin);
      const bool is_it = offset >= at && offset < at + mnl_attr_get_len(entry);
      if (is_it && is_rule) detail.expression = index;
      if (is_it && !is_rule) detail.key = key_of(entry);
      index++;
    });
  }

 private:
  struct Message {
    size_t offset;
    uint32_t operation;
  };

  const Message* message_of(uint32_t sequence) const {
    const uint32_t index = sequence - first_sequence_ - 1;
    return index < messages_.size() ? &messages_[index] : nullptr;
  }

  static std::string key_of(const nlattr* element) {
    const nlattr* key = Attributes<NFTA_SET_ELEM_MAX + 1>::in(element)[NFTA_SET_ELEM_KEY];
    const auto* value = static_cast<const nlattr*>(mnl_attr_get_payload(key));
    return std::string(static_cast<const char*>(mnl_attr_get_payload(value)), mnl_attr_get_payload_len(value));
  }

  nlmsghdr* start(const Step& step, uint32_t sequence) {
    nlmsghdr* message =
        nftnl_nlmsg_build_hdr(buffer_.get() + length_, step.message, step.family, step.flags, sequence);
    if (!step.attributes.empty()) {
      std::memcpy(mnl_nlmsg_get_payload_tail(message), step.attributes.data(), step.attributes.size());
      message->nlmsg_len += static_cast<uint32_t>(step.attributes.size());
    }
    messages_.push_back({length_, step.operation});
    return message;
  }

  void finish(nlmsghdr* message) { length_ += MNL_ALIGN(message->nlmsg_len); }

  uint32_t put_elements(const Step& step, uint32_t sequence) {
    const size_t count = count_of(step);
    const size_t room = element_room(step);
    for (size_t done = 0; done < count;) {
      nlmsghdr* message = start(step, sequence++);
      nlattr* elements = mnl_attr_nest_start(message, NFTA_SET_ELEM_LIST_ELEMENTS);
      const size_t begin = message->nlmsg_len;
      if (done == 0 && step.whole && step.shape == Shape::ranges) put_first_end(message, step);
      while (done < count && message->nlmsg_len - begin + room <= elements_limit) put_element(message, step, done++);
      mnl_attr_nest_end(message, elements);
      finish(message);
    }
    return sequence;
  }

  void put_element(nlmsghdr* message, const Step& step, size_t index) {
    const size_t length = step.key_length;
    const uint8_t* first = step.data.data() + index * width_of(step);
    const uint8_t* last = first + length;
    const bool has_end = step.shape == Shape::ranges && set_end(last, length);
    nlattr* element = mnl_attr_nest_start(message, NFTA_LIST_ELEM);
    put_key(message, NFTA_SET_ELEM_KEY, first, length);
    if (step.shape == Shape::concatenated_ranges) put_key(message, NFTA_SET_ELEM_KEY_END, last, length);
    if (!step.value_at.empty()) put_value(message, value_of(step, step.value_at[index]));
    if (step.shape == Shape::ranges && !has_end && step.whole) {
      mnl_attr_put(message, NFTA_SET_ELEM_USERDATA, sizeof open_interval, open_interval);
    }
    mnl_attr_nest_end(message, element);
    // After its start: the kernel refuses an end that ends nothing (EEXIST).
    if (has_end) put_end(message, end_.data(), length);
  }

  // libnftables begins a whole set with what ends before its first range.
  void put_first_end(nlmsghdr* message, const Step& step) {
    const auto first = step.data.first(step.key_length);
    if (std::all_of(first.begin(), first.end(), [](uint8_t byte) { return byte == 0; })) return;
    end_.assign(step.key_length, 0);
    put_end(message, end_.data(), step.key_length);
  }

  // A range that ends at the highest key has no end element: it is open to the right.
  bool set_end(const uint8_t* last, size_t length) {
    end_.assign(last, last + length);
    return increment(end_);
  }

  static void put_end(nlmsghdr* message, const uint8_t* key, size_t length) {
    nlattr* element = mnl_attr_nest_start(message, NFTA_LIST_ELEM);
    mnl_attr_put_u32(message, NFTA_SET_ELEM_FLAGS, htonl(NFT_SET_ELEM_INTERVAL_END));
    put_key(message, NFTA_SET_ELEM_KEY, key, length);
    mnl_attr_nest_end(message, element);
  }

  static void put_key(nlmsghdr* message, uint16_t attribute, const uint8_t* key, size_t length) {
    nlattr* nest = mnl_attr_nest_start(message, attribute);
    mnl_attr_put(message, NFTA_DATA_VALUE, length, key);
    mnl_attr_nest_end(message, nest);
  }

  static void put_value(nlmsghdr* message, const nlattr* value) {
    std::memcpy(mnl_nlmsg_get_payload_tail(message), value, aligned(value->nla_len));
    message->nlmsg_len += static_cast<uint32_t>(aligned(value->nla_len));
  }

  const std::vector<Step>& steps_;
  std::unique_ptr<char[]> buffer_;
  size_t length_ = 0;
  uint32_t first_sequence_ = 0;
  std::vector<Message> messages_;
  std::vector<uint8_t> end_;
};

// Appends what one NLMSG_ERROR says; true if it was the acknowledgement of the last message.
bool read_answer(const nlmsghdr* message, const Batch& batch, std::vector<FailureDetail>& errors) {
  const auto* answer = static_cast<const nlmsgerr*>(mnl_nlmsg_get_payload(message));
  if (answer->error == 0) return message->nlmsg_seq == batch.last_sequence();
  FailureDetail detail;
  detail.err = -answer->error;
  detail.operation = batch.operation_of(message->nlmsg_seq);
  if (message->nlmsg_flags & NLM_F_ACK_TLVS) {
    size_t skip = sizeof(nlmsgerr);
    if (!(message->nlmsg_flags & NLM_F_CAPPED)) skip += answer->msg.nlmsg_len - sizeof(nlmsghdr);
    each_attribute(message, skip, [&](const nlattr* attribute) {
      const uint16_t type = mnl_attr_get_type(attribute);
      if (type == NLMSGERR_ATTR_MSG) detail.text = text_of(attribute);
      if (type == NLMSGERR_ATTR_OFFS) batch.locate(message->nlmsg_seq, mnl_attr_get_u32(attribute), detail);
    });
  }
  errors.push_back(std::move(detail));
  return false;
}

// The kernel tells of a rule as it is deleted, after the generation has changed: packets of the new
// one count elsewhere.
void read_last_count(const nlmsghdr* message, const Batch& batch, std::vector<LastCount>& into) {
  const auto attributes = Attributes<NFTA_RULE_MAX + 1>::of(message);
  const int operation = batch.operation_of(message->nlmsg_seq);
  if (operation < 0 || !attributes[NFTA_RULE_EXPRESSIONS]) return;
  const Expressions found = read_expressions(attributes[NFTA_RULE_EXPRESSIONS], [](const std::string&) { return std::nullopt; });
  if (!found.packets || !found.bytes) return;
  into.push_back({static_cast<uint32_t>(operation), *found.packets, *found.bytes});
}

std::vector<LastCount> transmit(NetlinkSocket& socket, const Batch& batch) {
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  ssize_t sent;
  do {
    sent = sendto(socket.fd(), batch.data(), batch.length(), 0, reinterpret_cast<sockaddr*>(&kernel), sizeof kernel);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) throw Failure(errno, "netlink send");

  // The kernel handles the batch inside send(): every answer is in the queue by now, so reading
  // doesn't wait. More refusals than the socket's buffer holds: those that are there are read, else
  // the queue would stay full and the next question have no answer.
  bool acknowledged = false, overrun = false;
  std::vector<FailureDetail> errors;
  std::vector<LastCount> last_counts;
  std::vector<char> buffer(1 << 16);
  for (;;) {
    ssize_t got = recv(socket.fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) break;
      if (errno == ENOBUFS) {
        overrun = true;
        continue;
      }
      throw Failure(errno, "netlink receive");
    }
    int left = static_cast<int>(got);
    for (auto* message = reinterpret_cast<nlmsghdr*>(buffer.data()); mnl_nlmsg_ok(message, left);
         message = mnl_nlmsg_next(message, &left)) {
      if (message->nlmsg_type == NLMSG_ERROR) acknowledged = read_answer(message, batch, errors) || acknowledged;
      if (message->nlmsg_type == deleted_rule) read_last_count(message, batch, last_counts);
    }
  }
  if (!errors.empty()) {
    Failure failure(errors.front().err, "batch refused");
    failure.details = std::move(errors);
    throw failure;
  }
  if (overrun) throw Failure(ENOBUFS, "netlink receive");
  if (!acknowledged) throw Failure(EPROTO, "batch not acknowledged");
  return last_counts;
}

}  // namespace

BatchResult send_batch(NetlinkSocket& socket, const std::vector<Step>& steps) {
  using Clock = std::chrono::steady_clock;
  using Microseconds = std::chrono::duration<double, std::micro>;
  BatchResult result;
  const auto began = Clock::now();
  Batch batch(steps);
  batch.build(socket.next_sequence(Batch::sequences(steps)));
  result.build_microseconds = Microseconds(Clock::now() - began).count();
  result.before = result.after = socket.generation();
  if (batch.empty()) return result;
  socket.reserve_send_buffer(batch.length());
  const auto sending = Clock::now();
  result.last_counts = transmit(socket, batch);
  result.kernel_microseconds = Microseconds(Clock::now() - sending).count();
  result.after = socket.generation();
  return result;
}

}  // namespace nft
