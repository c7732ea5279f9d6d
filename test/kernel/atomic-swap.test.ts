/** While policies change under load, a closed port is never open and an open one never closed. */
import assert from 'node:assert/strict';
import { type Dataplane, forEachDataplane } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode } from './enforced-node.ts';
import { floodTime, passedDuring } from './flood-tool.ts';
import { cidr, policy, type Rule, tcp, udp } from './manifests.ts';
import { withVariations } from './variations.ts';

const CLOSED = 9;
const OPEN = 10;
/** Above this, a port number in the rules' text says which generation of the files is in force. */
const MARKER = 20_000;
const TIME = floodTime(2_500);
const LEAST_SWAPS = 5;

forEachDataplane('policy changes under a flood', (dataplane) => {
  let node: EnforcedNode;
  before(async () => {
    node = await createEnforcedNode(undefined, dataplane);
  });
  after(() => node?.close());

  for (const { family, dispatch } of casesOf(dataplane)) {
    it(`a closed port never leaks, an open one is never interrupted (IPv${family}, ${dispatch})`, async () => {
      await node.write('policy.json', generation(0));
      const agent = node.start(...(await node.configure({ dispatch })));
      await node.untilEnforced(String(MARKER), agent);
      let swaps = 0;
      const leaks: string[] = [];
      const targets = [
        { protocol: 'udp', port: CLOSED, family },
        { protocol: 'udp', port: OPEN, family, rate: 500, client: 1 },
      ] as const;
      const [closed, open] = await passedDuring(node.topology, targets, async (passed) => {
        let before = 0;
        const end = performance.now() + TIME * dataplane.share;
        while (performance.now() < end || swaps < LEAST_SWAPS) {
          swaps++;
          await node.write('policy.json', generation(swaps));
          await node.untilEnforced(String(MARKER + swaps), agent);
          const [now = 0] = await passed();
          if (now > before) leaks.push(`${now - before} from ${nameOf(swaps - 1)} to ${nameOf(swaps)}`);
          before = now;
        }
      });
      await agent.end('SIGTERM');
      assert(closed && open);
      assert(closed.arrived > 2_000 * dataplane.share, `only ${closed.arrived} packets`);
      assert.equal(closed.passed, 0, `leaked in ${swaps} swaps: ${leaks.join('; ')}`);
      assert.equal(open.arrived - open.passed, 0, `lost of ${open.arrived} in ${swaps} swaps`);
    });
  }
});

interface Case {
  readonly family: 4 | 6;
  readonly dispatch: 'indexed' | 'linear';
}

/** Both families and both forms of rules in nftables; in an iptables one family each. */
function casesOf({ iptables }: Dataplane): readonly Case[] {
  const v4: Case = { family: 4, dispatch: 'indexed' };
  const v6: Case = { family: 6, dispatch: 'indexed' };
  const linear: Case = { family: 4, dispatch: 'linear' };
  if (iptables === 'nft') return withVariations([v6], [v4, linear]);
  if (iptables === 'legacy') return withVariations([v4], [v6, linear]);
  return withVariations([v6, linear], [v4]);
}

/**
 * Every generation closes one port and opens the other, each by another kind of rule; every change
 * of kind occurs.
 */
function generation(n: number): object[] {
  const marker: Rule = { name: 'marker', action: 'Drop', ports: [tcp(MARKER + n)] };
  return [policy('swapped', { ingress: [marker, ...kindOf(n).rules(n)] })];
}

/** Goes through the kinds by steps of one, two, … so that each follows each. */
function kindOf(n: number): Kind {
  const step = 1 + (Math.floor(n / KINDS.length) % (KINDS.length - 1));
  const kind = KINDS[(n * step) % KINDS.length];
  assert(kind);
  return kind;
}

const nameOf = (n: number): string => kindOf(n).name;

interface Kind {
  readonly name: string;
  rules(n: number): readonly Rule[];
}

const CLIENTS = [cidr('10.100.0.0/14'), cidr('fd90:100::/30')];
const strangers = (n: number) => [
  ...Array.from({ length: 20 }, (_, i) => cidr(`198.51.${(n + i) % 250}.${i}/32`)),
  ...Array.from({ length: 20 }, (_, i) => cidr(`203.${(n + i) % 250}.0.0/${17 + (i % 8)}`)),
];

/**
 * So many rules that the index has maps, of ports here; two such kinds after one another change
 * keys of one map in place.
 */
const byPort = (n: number): Rule[] =>
  Array.from({ length: 24 }, (_, i) => ({
    name: `port-${i}`,
    action: i % 2 === 0 ? ('Allow' as const) : ('Drop' as const),
    ports: [udp(300 + 3 * ((n * i) % 40))],
  }));
/** And of addresses: rules on one port, each for another source. */
const bySource = (n: number, port: number, action: 'Allow' | 'Drop'): Rule[] =>
  Array.from({ length: 24 }, (_, i) => ({
    name: `source-${port}-${i}`,
    action,
    from: [cidr(`198.51.${i}.${n % 250}/32`), cidr(`2001:db8:${i}::${1 + (n % 250)}/128`)],
    ports: [udp(port)],
  }));

const KINDS: readonly Kind[] = [
  {
    name: 'one port each',
    rules: () => [
      { name: 'close', action: 'Drop', ports: [udp(CLOSED)] },
      { name: 'open', action: 'Allow', ports: [udp(OPEN)] },
    ],
  },
  {
    name: 'the other order behind an added rule',
    rules: (n) => [
      { name: 'added', action: 'Reject', from: strangers(n), ports: [tcp(1, 500)] },
      { name: 'open', action: 'Allow', ports: [udp(OPEN)] },
      { name: 'close', action: 'Drop', ports: [udp(CLOSED)] },
    ],
  },
  {
    name: 'a range of ports behind an exception',
    rules: (n) => [
      { name: 'open', action: 'Allow', ports: [udp(OPEN, OPEN + 3)] },
      { name: 'close', action: 'Drop', ports: [udp(CLOSED - (n % 5), CLOSED + 40 + (n % 7))] },
    ],
  },
  {
    name: 'by source',
    rules: (n) => [
      { name: 'open', action: 'Allow', from: [...CLIENTS, ...strangers(n)], ports: [udp(OPEN)] },
      { name: 'close', action: 'Drop', from: [...strangers(n + 1), ...CLIENTS], ports: [udp(CLOSED)] },
    ],
  },
  {
    name: 'default deny behind an allow list',
    rules: (n) => [
      { name: 'open', action: 'Allow', from: [...CLIENTS, ...strangers(n)], ports: [udp(OPEN)] },
      { name: 'deny', action: 'Drop' },
    ],
  },
  {
    name: 'rejected, with a range, by source',
    rules: (n) => [
      { name: 'strangers', action: 'Drop', from: strangers(n) },
      { name: 'close', action: 'Reject', from: CLIENTS, ports: [udp(CLOSED - 1, CLOSED)] },
    ],
  },
  {
    name: 'many single ports',
    rules: (n) => [
      { name: 'open', action: 'Allow', ports: [udp(OPEN), udp(100 + n), udp(5000)] },
      { name: 'close', action: 'Drop', ports: [udp(CLOSED), ...[1, 2, 3, 4].map((i) => udp(200 + n * i))] },
    ],
  },
  {
    name: 'a crowd by port',
    rules: (n) => [
      ...byPort(n),
      { name: 'close', action: 'Drop', ports: [udp(CLOSED)] },
      { name: 'open', action: 'Allow', ports: [udp(OPEN)] },
    ],
  },
  {
    name: 'another crowd by port',
    rules: (n) => [
      { name: 'open', action: 'Allow', from: CLIENTS, ports: [udp(OPEN), udp(400 + n)] },
      ...byPort(n + 1),
      { name: 'close', action: 'Reject', from: CLIENTS, ports: [udp(CLOSED), udp(401 + n)] },
    ],
  },
  {
    name: 'a crowd by source',
    rules: (n) => [
      ...bySource(n, CLOSED, 'Allow'),
      ...bySource(n, OPEN, 'Drop'),
      { name: 'close', action: 'Drop', from: CLIENTS, ports: [udp(CLOSED)] },
      { name: 'open', action: 'Allow', from: CLIENTS, ports: [udp(OPEN)] },
    ],
  },
  {
    name: 'another crowd by source',
    rules: (n) => [
      { name: 'open', action: 'Allow', from: CLIENTS, ports: [udp(OPEN)] },
      ...bySource(n + 1, CLOSED, 'Allow'),
      ...bySource(n + 1, OPEN, 'Drop'),
      { name: 'close', action: 'Drop', from: CLIENTS, ports: [udp(CLOSED)] },
    ],
  },
];
