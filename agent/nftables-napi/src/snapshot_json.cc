#include "snapshot_json.h"

#include <cstdio>

namespace binding {

namespace {

// Writes JSON without a tree: {"key":value,...} with the commas in the right places.
class JsonWriter {
 public:
  void open(char bracket) {
    comma();
    text_ += bracket;
    first_ = true;
  }
  void close(char bracket) {
    text_ += bracket;
    first_ = false;
  }
  void key(const char* name) {
    string(name);
    text_ += ':';
    first_ = true;
  }
  void number(int64_t value) {
    comma();
    text_ += std::to_string(value);
  }
  void null() {
    comma();
    text_ += "null";
  }
  void string(const std::string& value) {
    comma();
    text_ += '"';
    for (const char c : value) {
      if (c == '"' || c == '\\') {
        text_ += '\\';
        text_ += c;
      } else if (static_cast<unsigned char>(c) < 0x20) {
        char escaped[8];
        std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
        text_ += escaped;
      } else {
        text_ += c;
      }
    }
    text_ += '"';
  }
  std::string take() { return std::move(text_); }

 private:
  void comma() {
    if (!first_) text_ += ',';
    first_ = false;
  }

  std::string text_;
  bool first_ = true;
};

std::string to_hex(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

void write_count(JsonWriter& json, const char* key, const std::optional<uint64_t>& count) {
  json.key(key);
  if (count) {
    json.string(std::to_string(*count));
  } else {
    json.null();
  }
}

void write_rule(JsonWriter& json, const nft::RuleInfo& rule) {
  json.open('{');
  json.key("handle");
  json.number(static_cast<int64_t>(rule.handle));
  json.key("comment");
  if (rule.comment) {
    json.string(*rule.comment);
  } else {
    json.null();
  }
  json.key("digest");
  json.string(to_hex(rule.expressions.digest));
  write_count(json, "packets", rule.expressions.packets);
  write_count(json, "bytes", rule.expressions.bytes);
  json.close('}');
}

void write_chain(JsonWriter& json, const nft::ChainInfo& chain) {
  json.open('{');
  json.key("name");
  json.string(chain.name);
  json.key("handle");
  json.number(static_cast<int64_t>(chain.handle));
  json.key("base");
  if (chain.is_base) {
    json.open('{');
    json.key("type");
    json.string(chain.type);
    json.key("hook");
    json.number(chain.hook);
    json.key("priority");
    json.number(chain.priority);
    json.key("policy");
    json.number(chain.policy);
    json.close('}');
  } else {
    json.null();
  }
  json.key("rules");
  json.open('[');
  for (const nft::RuleInfo& rule : chain.rules) write_rule(json, rule);
  json.close(']');
  json.close('}');
}

void write_set(JsonWriter& json, const nft::SetInfo& set) {
  json.open('{');
  json.key("name");
  json.string(set.name);
  json.key("handle");
  json.number(static_cast<int64_t>(set.handle));
  json.key("keyLength");
  json.number(set.key_length);
  json.key("flags");
  json.number(set.flags);
  json.key("elementCount");
  if (set.count >= 0) {
    json.number(set.count);
  } else {
    json.null();
  }
  json.close('}');
}

}  // namespace

std::string to_json(const std::optional<nft::TableSnapshot>& snapshot) {
  JsonWriter json;
  if (!snapshot) return "null";
  json.open('{');
  json.key("generation");
  json.number(snapshot->generation);
  json.key("dormant");
  json.number(snapshot->dormant);
  json.key("chains");
  json.open('[');
  for (const nft::ChainInfo& chain : snapshot->chains) write_chain(json, chain);
  json.close(']');
  json.key("sets");
  json.open('[');
  for (const nft::SetInfo& set : snapshot->sets) write_set(json, set);
  json.close(']');
  json.close('}');
  return json.take();
}

}  // namespace binding
