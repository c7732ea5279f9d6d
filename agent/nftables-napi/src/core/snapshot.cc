#include "core/snapshot.h"

#include <libnftnl/udata.h>

#include <set>
#include <unordered_map>

#include "core/consistent.h"

namespace nft {

namespace {

int keep_comment(const nftnl_udata* entry, void* into) {
  if (nftnl_udata_type(entry) != NFTNL_UDATA_RULE_COMMENT) return 0;
  const char* value = static_cast<const char*>(nftnl_udata_get(entry));
  *static_cast<std::optional<std::string>*>(into) = std::string(value, strnlen(value, nftnl_udata_len(entry)));
  return 0;
}

std::optional<std::string> read_comment(const nlattr* user_data) {
  std::optional<std::string> comment;
  if (user_data) {
    nftnl_udata_parse(mnl_attr_get_payload(user_data), mnl_attr_get_payload_len(user_data), keep_comment, &comment);
  }
  return comment;
}

ChainInfo read_chain(const Attributes<NFTA_CHAIN_MAX + 1>& attributes) {
  ChainInfo chain;
  if (attributes[NFTA_CHAIN_NAME]) chain.name = text_of(attributes[NFTA_CHAIN_NAME]);
  if (attributes[NFTA_CHAIN_HANDLE]) chain.handle = u64_of(attributes[NFTA_CHAIN_HANDLE]);
  if (!attributes[NFTA_CHAIN_HOOK]) return chain;
  chain.is_base = true;
  const auto hook = Attributes<NFTA_HOOK_MAX + 1>::in(attributes[NFTA_CHAIN_HOOK]);
  if (hook[NFTA_HOOK_HOOKNUM]) chain.hook = u32_of(hook[NFTA_HOOK_HOOKNUM]);
  if (hook[NFTA_HOOK_PRIORITY]) chain.priority = static_cast<int32_t>(u32_of(hook[NFTA_HOOK_PRIORITY]));
  if (attributes[NFTA_CHAIN_TYPE]) chain.type = text_of(attributes[NFTA_CHAIN_TYPE]);
  if (attributes[NFTA_CHAIN_POLICY]) chain.policy = u32_of(attributes[NFTA_CHAIN_POLICY]);
  return chain;
}

// Reads one table; a new one for each attempt.
class Reader {
 public:
  Reader(NetlinkSocket& socket, uint8_t family, const std::string& table, TableSnapshot& into)
      : socket_(socket), family_(family), table_(table), into_(into) {}

  Answer read() {
    Request table(NFT_MSG_GETTABLE, family_, 0);
    Answer answer = socket_.ask(table.text(NFTA_TABLE_NAME, table_), [&](const nlmsghdr* message) {
      const auto attributes = Attributes<NFTA_TABLE_MAX + 1>::of(message);
      if (attributes[NFTA_TABLE_FLAGS]) into_.dormant = u32_of(attributes[NFTA_TABLE_FLAGS]) & NFT_TABLE_F_DORMANT;
    });
    if (answer == Answer::complete) answer = read_sets();
    if (answer == Answer::complete) answer = read_chains();
    if (answer == Answer::complete) answer = digest_anonymous_sets();
    if (answer == Answer::complete) answer = read_rules();
    return answer;
  }

  // Some chains alone; those that don't exist are left out.
  Answer read(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      ChainInfo chain;
      Request request(NFT_MSG_GETCHAIN, family_, 0);
      request.text(NFTA_CHAIN_TABLE, table_).text(NFTA_CHAIN_NAME, name);
      Answer answer = socket_.ask(request, [&](const nlmsghdr* message) {
        chain = read_chain(Attributes<NFTA_CHAIN_MAX + 1>::of(message));
      });
      if (answer == Answer::absent) continue;
      if (answer == Answer::complete) answer = read_rules_of(chain);
      if (answer != Answer::complete) return answer;
      into_.chains.push_back(std::move(chain));
    }
    return Answer::complete;
  }

 private:
  Answer read_sets() {
    Request request(NFT_MSG_GETSET, family_, NLM_F_DUMP);
    return socket_.ask(request.text(NFTA_SET_TABLE, table_),
                       [&](const nlmsghdr* message) { into_.sets.push_back(read_set(message)); });
  }

  // The kernel can't be asked for the chains of one table only.
  Answer read_chains() {
    Request request(NFT_MSG_GETCHAIN, family_, NLM_F_DUMP);
    return socket_.ask(request, [&](const nlmsghdr* message) {
      const auto attributes = Attributes<NFTA_CHAIN_MAX + 1>::of(message);
      if (!attributes[NFTA_CHAIN_TABLE] || text_of(attributes[NFTA_CHAIN_TABLE]) != table_) return;
      into_.chains.push_back(read_chain(attributes));
      chain_index_.emplace(into_.chains.back().name, into_.chains.size() - 1);
    });
  }

  Answer read_rules() {
    Request request(NFT_MSG_GETRULE, family_, NLM_F_DUMP);
    return socket_.ask(request.text(NFTA_RULE_TABLE, table_), [&](const nlmsghdr* message) {
      const auto attributes = Attributes<NFTA_RULE_MAX + 1>::of(message);
      if (!attributes[NFTA_RULE_CHAIN] || !attributes[NFTA_RULE_TABLE]) return;
      const auto chain = chain_index_.find(text_of(attributes[NFTA_RULE_CHAIN]));
      if (chain == chain_index_.end() || text_of(attributes[NFTA_RULE_TABLE]) != table_) return;
      into_.chains[chain->second].rules.push_back(read_rule(message, anonymous_set()));
    });
  }

  // The rules of one chain, and the anonymous sets they name: those are asked for between the two
  // readings of a rule, because the socket can only do one thing at a time.
  Answer read_rules_of(ChainInfo& chain) {
    std::vector<std::vector<char>> messages;
    std::set<std::string> sets;
    const auto note = [&](const std::string& name) {
      sets.insert(name);
      return std::nullopt;
    };
    Request request(NFT_MSG_GETRULE, family_, NLM_F_DUMP);
    request.text(NFTA_RULE_TABLE, table_).text(NFTA_RULE_CHAIN, chain.name);
    Answer answer = socket_.ask(request, [&](const nlmsghdr* message) {
      const auto* bytes = reinterpret_cast<const char*>(message);
      messages.emplace_back(bytes, bytes + message->nlmsg_len);
      read_rule(message, note);
    });
    if (answer != Answer::complete) return Answer::interrupted;
    for (const std::string& name : sets) {
      SetInfo set;
      Request question(NFT_MSG_GETSET, family_, 0);
      question.text(NFTA_SET_TABLE, table_).text(NFTA_SET_NAME, name);
      answer = socket_.ask(question, [&](const nlmsghdr* message) { set = read_set(message); });
      if (answer == Answer::complete && (set.flags & NFT_SET_ANONYMOUS)) answer = digest_set(set);
      if (answer != Answer::complete) return Answer::interrupted;
    }
    for (const std::vector<char>& message : messages) {
      chain.rules.push_back(read_rule(reinterpret_cast<const nlmsghdr*>(message.data()), anonymous_set()));
    }
    return Answer::complete;
  }

  static RuleInfo read_rule(const nlmsghdr* message, const AnonymousSet& anonymous_set) {
    const auto attributes = Attributes<NFTA_RULE_MAX + 1>::of(message);
    RuleInfo rule;
    if (attributes[NFTA_RULE_HANDLE]) rule.handle = u64_of(attributes[NFTA_RULE_HANDLE]);
    rule.comment = read_comment(attributes[NFTA_RULE_USERDATA]);
    rule.expressions = read_expressions(attributes[NFTA_RULE_EXPRESSIONS], anonymous_set);
    return rule;
  }

  AnonymousSet anonymous_set() const {
    return [this](const std::string& name) {
      const auto found = anonymous_.find(name);
      return found == anonymous_.end() ? std::nullopt : std::optional(found->second);
    };
  }

  Answer digest_anonymous_sets() {
    for (const SetInfo& set : into_.sets) {
      if ((set.flags & NFT_SET_ANONYMOUS) && digest_set(set) != Answer::complete) return Answer::interrupted;
    }
    return Answer::complete;
  }

  Answer digest_set(const SetInfo& set) {
    Fnv hash;
    hash.number(set.flags);
    hash.number(set.key_length);
    hash.number(set.data_type);
    // The members of a set that rules fill themselves (a meter) come and go with packets.
    if (!(set.flags & NFT_SET_EVAL)) {
      Elements elements;
      elements.set = set;
      const Answer answer = read_elements(socket_, {family_, table_, set.name}, elements);
      if (answer != Answer::complete) return Answer::interrupted;
      hash.bytes(elements.keys.data(), elements.keys.size());
      hash.bytes(elements.ranges.data(), elements.ranges.size());
      for (uint32_t index : elements.verdict_of) {
        hash.number(static_cast<uint64_t>(elements.verdicts[index].code));
        hash.text(elements.verdicts[index].chain);
      }
      hash.number(elements.catch_all);
    }
    anonymous_.emplace(set.name, hash.value());
    return Answer::complete;
  }

  NetlinkSocket& socket_;
  const uint8_t family_;
  const std::string& table_;
  TableSnapshot& into_;
  std::unordered_map<std::string, size_t> chain_index_;
  std::unordered_map<std::string, uint64_t> anonymous_;
};

}  // namespace

std::optional<TableSnapshot> take_snapshot(NetlinkSocket& socket, uint8_t family, const std::string& table) {
  TableSnapshot snapshot;
  uint32_t generation = 0;
  const Answer answer = consistently(socket, generation, [&] {
    snapshot = TableSnapshot{};
    return Reader(socket, family, table, snapshot).read();
  });
  if (answer == Answer::absent) return std::nullopt;
  snapshot.generation = generation;
  return snapshot;
}

TableSnapshot take_snapshot_of_chains(NetlinkSocket& socket, uint8_t family, const std::string& table,
                                      const std::vector<std::string>& names) {
  TableSnapshot snapshot;
  uint32_t generation = 0;
  consistently(socket, generation, [&] {
    snapshot = TableSnapshot{};
    return Reader(socket, family, table, snapshot).read(names);
  });
  snapshot.generation = generation;
  return snapshot;
}

}  // namespace nft
