#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "core/netlink_socket.h"

namespace nft {

// FNV-1a with 64 bits: short, quick, the same on every machine. Not for use against somebody who
// forges rules.
class Fnv {
 public:
  void bytes(const void* data, size_t length);
  void text(std::string_view value);
  void number(uint64_t value);
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 14695981039346656037ull;
};

// A rule's expressions, as text. Counters are of the rule's first `counter`.
struct Expressions {
  uint64_t digest = 0;
  std::optional<uint64_t> packets;
  std::optional<uint64_t> bytes;
};

// A number for the content of an anonymous set, nothing for a named set.
using AnonymousSet = std::function<std::optional<uint64_t>(const std::string& name)>;

// Reads NFTA_RULE_EXPRESSIONS. The digest covers every attribute of every expression but those that
// count packets; an anonymous set stands with its content, because its name (__set12) is a new one
// with each load of the same text.
Expressions read_expressions(const nlattr* expressions, const AnonymousSet& anonymous_set);

}  // namespace nft
