#include "core/digest.h"

namespace nft {

namespace {

// Attributes the kernel changes by itself while a rule stays as it is.
bool counts_packets(std::string_view expression, uint16_t attribute) {
  if (expression == "counter" || expression == "last") return true;
  return expression == "quota" && attribute == NFTA_QUOTA_CONSUMED;
}

bool names_a_set(std::string_view expression, uint16_t attribute) {
  if (expression == "lookup") return attribute == NFTA_LOOKUP_SET;
  if (expression == "objref") return attribute == NFTA_OBJREF_SET_NAME;
  return expression == "dynset" && attribute == NFTA_DYNSET_SET_NAME;
}

void read_counter(const nlattr* data, Expressions& into) {
  const auto attributes = Attributes<NFTA_COUNTER_MAX + 1>::in(data);
  if (attributes[NFTA_COUNTER_PACKETS]) into.packets = u64_of(attributes[NFTA_COUNTER_PACKETS]);
  if (attributes[NFTA_COUNTER_BYTES]) into.bytes = u64_of(attributes[NFTA_COUNTER_BYTES]);
}

void digest_data(Fnv& hash, const std::string& name, const nlattr* data, const AnonymousSet& anonymous_set) {
  each_nested(data, [&](const nlattr* attribute) {
    const uint16_t type = mnl_attr_get_type(attribute);
    if (counts_packets(name, type)) return;
    hash.number(type);
    const std::optional<uint64_t> content = names_a_set(name, type) ? anonymous_set(text_of(attribute)) : std::nullopt;
    if (content) {
      hash.number(*content);
    } else {
      hash.text({static_cast<const char*>(mnl_attr_get_payload(attribute)), mnl_attr_get_payload_len(attribute)});
    }
  });
}

}  // namespace

void Fnv::bytes(const void* data, size_t length) {
  const auto* byte = static_cast<const unsigned char*>(data);
  for (size_t i = 0; i < length; i++) hash_ = (hash_ ^ byte[i]) * 1099511628211ull;
}

// The length first, so that "ab","c" and "a","bc" differ.
void Fnv::text(std::string_view value) {
  number(value.size());
  bytes(value.data(), value.size());
}

void Fnv::number(uint64_t value) {
  unsigned char bytes_of[8];
  for (int i = 0; i < 8; i++) bytes_of[i] = static_cast<unsigned char>(value >> (8 * i));
  bytes(bytes_of, sizeof bytes_of);
}

Expressions read_expressions(const nlattr* expressions, const AnonymousSet& anonymous_set) {
  Expressions result;
  Fnv hash;
  if (expressions) {
    each_nested(expressions, [&](const nlattr* expression) {
      const auto attributes = Attributes<NFTA_EXPR_MAX + 1>::in(expression);
      const std::string name = attributes[NFTA_EXPR_NAME] ? text_of(attributes[NFTA_EXPR_NAME]) : "";
      hash.text(name);
      if (!attributes[NFTA_EXPR_DATA]) return;
      if (name == "counter" && !result.packets) read_counter(attributes[NFTA_EXPR_DATA], result);
      digest_data(hash, name, attributes[NFTA_EXPR_DATA], anonymous_set);
    });
  }
  result.digest = hash.value();
  return result;
}

}  // namespace nft
