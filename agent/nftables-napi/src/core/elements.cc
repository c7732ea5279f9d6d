#include "core/elements.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

#include "core/consistent.h"

namespace nft {

namespace {

// Added to the kernel in 6.15, missing from Debian 12's headers.
constexpr uint16_t set_count_attribute = 20;  // NFTA_SET_COUNT

// The answer to a dump, in the order of the kernel, before it is sorted and paired.
struct Raw {
  size_t key_length;
  std::vector<uint8_t> keys;
  std::vector<uint8_t> ends;  // closing keys, only of concatenated ranges
  std::vector<uint8_t> is_end;
  std::vector<uint32_t> verdict_of;
  std::map<Verdict, uint32_t> verdicts;
  bool catch_all = false;

  size_t size() const { return is_end.size(); }
  const uint8_t* key(size_t index) const { return keys.data() + index * key_length; }
};

// Appends a key; one of another length than the set's cannot happen, and would otherwise shift all
// that follow.
void append(std::vector<uint8_t>& to, const nlattr* nest, size_t key_length) {
  const nlattr* value = Attributes<NFTA_DATA_MAX + 1>::in(nest)[NFTA_DATA_VALUE];
  const size_t length = value ? std::min<size_t>(mnl_attr_get_payload_len(value), key_length) : 0;
  const auto* bytes = static_cast<const uint8_t*>(value ? mnl_attr_get_payload(value) : nullptr);
  to.insert(to.end(), bytes, bytes + length);
  to.resize(to.size() + key_length - length);
}

uint32_t verdict_index(Raw& raw, const nlattr* data) {
  Verdict verdict;
  const nlattr* nest = data ? Attributes<NFTA_DATA_MAX + 1>::in(data)[NFTA_DATA_VERDICT] : nullptr;
  if (nest) {
    const auto attributes = Attributes<NFTA_VERDICT_MAX + 1>::in(nest);
    if (attributes[NFTA_VERDICT_CODE]) verdict.code = static_cast<int32_t>(u32_of(attributes[NFTA_VERDICT_CODE]));
    if (attributes[NFTA_VERDICT_CHAIN]) verdict.chain = text_of(attributes[NFTA_VERDICT_CHAIN]);
  }
  return raw.verdicts.emplace(verdict, static_cast<uint32_t>(raw.verdicts.size())).first->second;
}

void read_element(const nlattr* element, const SetInfo& set, Raw& raw) {
  const auto attributes = Attributes<NFTA_SET_ELEM_MAX + 1>::in(element);
  const uint32_t flags = attributes[NFTA_SET_ELEM_FLAGS] ? u32_of(attributes[NFTA_SET_ELEM_FLAGS]) : 0;
  if ((flags & NFT_SET_ELEM_CATCHALL) || !attributes[NFTA_SET_ELEM_KEY]) {
    raw.catch_all = true;
    return;
  }
  append(raw.keys, attributes[NFTA_SET_ELEM_KEY], raw.key_length);
  if (set.is_interval() && set.is_concatenated()) {
    const nlattr* end = attributes[NFTA_SET_ELEM_KEY_END];
    append(raw.ends, end ? end : attributes[NFTA_SET_ELEM_KEY], raw.key_length);
  }
  const bool is_end = flags & NFT_SET_ELEM_INTERVAL_END;
  raw.is_end.push_back(is_end);
  if (set.is_verdict_map()) raw.verdict_of.push_back(is_end ? 0 : verdict_index(raw, attributes[NFTA_SET_ELEM_DATA]));
}

// The order of the elements by key; at the same key the end of one range comes before the start of
// the next.
std::vector<uint32_t> sorted_order(const Raw& raw) {
  std::vector<uint32_t> order(raw.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const int compared = std::memcmp(raw.key(a), raw.key(b), raw.key_length);
    return compared != 0 ? compared < 0 : raw.is_end[a] > raw.is_end[b];
  });
  return order;
}

void append_key(std::vector<uint8_t>& to, const uint8_t* key, size_t length) { to.insert(to.end(), key, key + length); }

void append_key_before(std::vector<uint8_t>& to, const uint8_t* key, size_t length) {
  append_key(to, key, length);
  for (size_t i = to.size(); i-- > to.size() - length;) {
    if (to[i]-- != 0) break;
  }
}

// Pairs start and end elements. An end without a start is the element at 0 that nft puts into a new
// interval set; it holds nothing. A start without an end reaches to the highest key.
void pair_ranges(const Raw& raw, const std::vector<uint32_t>& order, Elements& into) {
  const size_t length = raw.key_length;
  bool open = false;
  for (uint32_t index : order) {
    const uint8_t* key = raw.key(index);
    if (open) append_key_before(into.ranges, key, length);
    open = !raw.is_end[index];
    if (!open) continue;
    append_key(into.ranges, key, length);
    if (!raw.verdict_of.empty()) into.verdict_of.push_back(raw.verdict_of[index]);
  }
  if (open) into.ranges.insert(into.ranges.end(), length, 0xff);
}

// Whether each key of a hash set came once. The kernel grows a hash set's table in the background
// for some time after many elements were added, and a dump meanwhile has some keys twice and others
// not at all, without saying so (seen with 6.18).
bool came_once(const Raw& raw, const std::vector<uint32_t>& order, const SetInfo& set) {
  if (set.is_interval()) return true;  // not in a hash table
  for (size_t i = 1; i < order.size(); i++) {
    if (std::memcmp(raw.key(order[i - 1]), raw.key(order[i]), raw.key_length) == 0) return false;
  }
  // Elements that time out are counted after they are gone from dumps.
  if (set.count < 0 || (set.flags & (NFT_SET_TIMEOUT | NFT_SET_EVAL))) return true;
  const auto count = static_cast<size_t>(set.count);
  return raw.size() == count || raw.size() + raw.catch_all == count;
}

void arrange(const Raw& raw, const std::vector<uint32_t>& order, Elements& into) {
  into.catch_all = raw.catch_all;
  into.verdicts.resize(raw.verdicts.size());
  for (const auto& [verdict, index] : raw.verdicts) into.verdicts[index] = verdict;
  if (into.set.is_interval() && !into.set.is_concatenated()) return pair_ranges(raw, order, into);
  const bool ranges = into.set.is_interval();
  std::vector<uint8_t>& out = ranges ? into.ranges : into.keys;
  out.reserve(raw.keys.size() + raw.ends.size());
  for (uint32_t index : order) {
    append_key(out, raw.key(index), raw.key_length);
    if (ranges) append_key(out, raw.ends.data() + index * raw.key_length, raw.key_length);
    if (!raw.verdict_of.empty()) into.verdict_of.push_back(raw.verdict_of[index]);
  }
}

}  // namespace

SetInfo read_set(const nlmsghdr* message) {
  const auto attributes = Attributes<set_count_attribute + 1>::of(message);
  SetInfo set;
  if (attributes[NFTA_SET_NAME]) set.name = text_of(attributes[NFTA_SET_NAME]);
  if (attributes[NFTA_SET_HANDLE]) set.handle = u64_of(attributes[NFTA_SET_HANDLE]);
  if (attributes[NFTA_SET_FLAGS]) set.flags = u32_of(attributes[NFTA_SET_FLAGS]);
  if (attributes[NFTA_SET_KEY_LEN]) set.key_length = u32_of(attributes[NFTA_SET_KEY_LEN]);
  if (attributes[NFTA_SET_DATA_TYPE]) set.data_type = u32_of(attributes[NFTA_SET_DATA_TYPE]);
  if (attributes[set_count_attribute]) set.count = u32_of(attributes[set_count_attribute]);
  return set;
}

Answer read_elements(NetlinkSocket& socket, const SetName& name, Elements& into) {
  Raw raw{.key_length = into.set.key_length, .keys = {}, .ends = {}, .is_end = {}, .verdict_of = {}, .verdicts = {}};
  Request request(NFT_MSG_GETSETELEM, name.family, NLM_F_DUMP);
  request.text(NFTA_SET_ELEM_LIST_TABLE, name.table).text(NFTA_SET_ELEM_LIST_SET, name.set);
  const Answer answer = socket.ask(request, [&](const nlmsghdr* message) {
    const nlattr* elements = Attributes<NFTA_SET_ELEM_LIST_MAX + 1>::of(message)[NFTA_SET_ELEM_LIST_ELEMENTS];
    if (elements) each_nested(elements, [&](const nlattr* element) { read_element(element, into.set, raw); });
  });
  if (answer != Answer::complete) return answer;
  const std::vector<uint32_t> order = sorted_order(raw);
  if (!came_once(raw, order, into.set)) return Answer::interrupted;
  arrange(raw, order, into);
  return answer;
}

std::optional<Elements> dump_elements(NetlinkSocket& socket, const SetName& name) {
  Elements elements;
  uint32_t generation = 0;
  const Answer answer = consistently(socket, generation, [&] {
    elements = Elements{};
    Request request(NFT_MSG_GETSET, name.family, 0);
    request.text(NFTA_SET_TABLE, name.table).text(NFTA_SET_NAME, name.set);
    const Answer found = socket.ask(request, [&](const nlmsghdr* message) { elements.set = read_set(message); });
    return found == Answer::complete ? read_elements(socket, name, elements) : found;
  });
  if (answer == Answer::absent) return std::nullopt;
  return elements;
}

}  // namespace nft
