// Everything src/core does, a few hundred times, for valgrind: run by leak-check.ts in a network namespace of its own.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <linux/netfilter.h>

#include "core/batch.h"
#include "core/elements.h"
#include "core/failure.h"
#include "core/monitor.h"
#include "core/nft_context.h"
#include "core/snapshot.h"

namespace {

constexpr int rounds = 20;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "leak check: %s\n", what);
  std::exit(2);
}

nft::SetOperation operation(nft::Change change, nft::Shape shape, const char* set, std::vector<uint8_t> data) {
  nft::SetOperation made;
  made.change = change;
  made.shape = shape;
  made.family = NFPROTO_INET;
  made.table = "t";
  made.set = set;
  made.key_length = 4;
  made.data = std::move(data);
  return made;
}

void round(nft::NetlinkSocket& socket) {
  nft::NftContext context;
  expect(context
             .run("add table inet t; add set inet t h { type ipv4_addr; }\n"
                  "add set inet t i { type ipv4_addr; flags interval; }\n"
                  "add map inet t m { type ipv4_addr : verdict; }\n"
                  "add chain inet t c; add rule inet t c tcp dport { 80, 443 } counter accept comment \"x\"",
                  0, false)
             .succeeded,
         "setting up");
  expect(!context.run("add rule inet t nowhere accept", 0, false).succeeded, "a wrong rule was accepted");
  expect(!context.run("not a command", 0, false).succeeded, "a wrong word was accepted");

  auto map = operation(nft::Change::add, nft::Shape::keys, "m", {1, 1, 1, 1, 2, 2, 2, 2});
  map.verdicts = {{.code = NFT_JUMP, .chain = "c"}, {.code = NF_DROP, .chain = ""}};
  map.verdict_of = {0, 1};
  nft::send_batch(socket, {operation(nft::Change::add, nft::Shape::keys, "h", {1, 1, 1, 1, 2, 2, 2, 2}),
                           operation(nft::Change::add, nft::Shape::ranges, "i", {9, 0, 0, 0, 255, 255, 255, 255}), map});
  try {
    nft::send_batch(socket, {operation(nft::Change::remove, nft::Shape::keys, "h", {7, 7, 7, 7})});
    expect(false, "a missing element was deleted");
  } catch (const nft::Failure& failure) {
    expect(failure.details.size() == 1 && failure.details[0].key.size() == 4, "no element in the error");
  }
  for (const char* set : {"h", "i", "m"}) {
    expect(nft::dump_elements(socket, {NFPROTO_INET, "t", set}).has_value(), "no elements");
  }
  expect(nft::take_snapshot(socket, NFPROTO_INET, "t")->chains.size() == 1, "no snapshot");
  expect(!nft::take_snapshot(socket, NFPROTO_INET, "nothing"), "a snapshot of nothing");
  context.run("list ruleset", 0, false);
  context.run("delete table inet t", 0, false);
}

}  // namespace

int main() {
  nft::NetlinkSocket socket;
  for (int i = 0; i < rounds; i++) {
    nft::Monitor monitor(NFPROTO_INET, "t", 1 << 20);
    monitor.start([](const nft::MonitorEvent&) {}, [] {});
    round(socket);
    monitor.stop();
  }
  return 0;
}
