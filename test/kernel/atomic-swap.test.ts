/** While policies change under load, a closed port is never open and an open one never closed. */
import assert from 'node:assert/strict';
import { createEnforcedNode, type EnforcedNode } from './enforced-node.ts';
import { passedDuring } from './flood.ts';
import { kernelSuite } from './kernel-suite.ts';
import { cidr, policy, type Rule, tcp, udp } from './manifests.ts';

const CLOSED = 9;
const OPEN = 10;
/** Above this, a port number in the table's text says which generation of the files is in force. */
const MARKER = 20_000;
const TIME = 5_000;

kernelSuite('policy changes under a flood', () => {
  let node: EnforcedNode;
  before(async () => {
    node = await createEnforcedNode();
  });
  after(() => node.close());

  for (const family of [4, 6] as const) {
    it(`a closed port never leaks, an open one is never interrupted (IPv${family})`, async () => {
      await node.write('policy.json', generation(0));
      const agent = node.start();
      await node.untilEnforced(String(MARKER), agent);
      let swaps = 0;
      const targets = [
        { protocol: 'udp', port: CLOSED, family },
        { protocol: 'udp', port: OPEN, family, rate: 500, client: 1 },
      ] as const;
      const [closed, open] = await passedDuring(node.topology, targets, async () => {
        const end = performance.now() + TIME;
        while (performance.now() < end) {
          swaps++;
          await node.write('policy.json', generation(swaps));
          await node.untilEnforced(String(MARKER + swaps), agent);
        }
      });
      await agent.end('SIGTERM');
      assert(closed && open);
      assert(swaps >= 5, `only ${swaps} swaps`);
      assert(closed.arrived > 100_000, `only ${closed.arrived} packets`);
      assert.equal(closed.passed, 0, `leaked ${closed.passed} of ${closed.arrived} in ${swaps} swaps`);
      assert.equal(open.arrived - open.passed, 0, `lost of ${open.arrived} in ${swaps} swaps`);
    });
  }
});

/** Every generation closes one port and opens the other, each by another kind of rule. */
function generation(n: number): object[] {
  const kind = KINDS[n % KINDS.length];
  assert(kind);
  const marker: Rule = { name: 'marker', action: 'Drop', ports: [tcp(MARKER + n)] };
  return [policy('swapped', { ingress: [marker, ...kind(n)] })];
}

const CLIENTS = [cidr('10.100.0.0/14'), cidr('fd90:100::/30')];
const strangers = (n: number) =>
  Array.from({ length: 20 }, (_, i) => cidr(`198.51.${(n + i) % 250}.${i}/32`)).concat(
    Array.from({ length: 20 }, (_, i) => cidr(`203.${(n + i) % 250}.0.0/${17 + (i % 8)}`)),
  );

const KINDS: readonly ((n: number) => Rule[])[] = [
  // One port each.
  () => [
    { name: 'close', action: 'Drop', ports: [udp(CLOSED)] },
    { name: 'open', action: 'Allow', ports: [udp(OPEN)] },
  ],
  // The other order, with a rule added in front.
  (n) => [
    { name: 'added', action: 'Reject', from: strangers(n), ports: [tcp(1, 500)] },
    { name: 'open', action: 'Allow', ports: [udp(OPEN)] },
    { name: 'close', action: 'Drop', ports: [udp(CLOSED)] },
  ],
  // A range of ports behind an exception.
  (n) => [
    { name: 'open', action: 'Allow', ports: [udp(OPEN, OPEN + 3)] },
    { name: 'close', action: 'Drop', ports: [udp(CLOSED - (n % 5), CLOSED + 40 + (n % 7))] },
  ],
  // By source: prefixes that change every time.
  (n) => [
    { name: 'open', action: 'Allow', from: [...CLIENTS, ...strangers(n)], ports: [udp(OPEN)] },
    { name: 'close', action: 'Drop', from: [...strangers(n + 1), ...CLIENTS], ports: [udp(CLOSED)] },
  ],
  // Default deny behind an allow list.
  (n) => [
    { name: 'open', action: 'Allow', from: [...CLIENTS, ...strangers(n)], ports: [udp(OPEN)] },
    { name: 'deny', action: 'Drop' },
  ],
  // Rejected, and with a range by source.
  (n) => [
    { name: 'strangers', action: 'Drop', from: strangers(n) },
    { name: 'close', action: 'Reject', from: CLIENTS, ports: [udp(CLOSED - 1, CLOSED)] },
  ],
];
