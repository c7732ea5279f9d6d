import assert from 'node:assert/strict';
import { NO_NETSTATE } from '../../agent/egress/render/netstate.ts';
import { EGRESS_DROP_REASONS, type NodeEgress } from '../../apis/egress/node-egress.ts';
import { type Address, formatAddress, parseAddress } from '../../lib/net/address.ts';
import { egressScenario } from '../generate/egress/egress-scenario.ts';
import { count, type Seen } from './agree.ts';
import { toNodeEgress } from './egress-agree.ts';
import { EgressNetwork, type Journey } from './egress-network.ts';
import { walkPacket } from './egress-walk.ts';
import { check, flowCount, missingOf } from './runs.ts';

interface Sent {
  readonly node: string;
  readonly src: Address;
  readonly dst: Address;
}

describe('the rules and routes of all nodes', function () {
  this.timeout(0);

  it('take packets where the compiled values say, and the answers back; without routing rules they drop them', function () {
    const seen: Seen = new Map();
    check(
      this,
      100,
      egressScenario(6, 60),
      (drawn) => {
        const views = toNodeEgress(drawn);
        const network = new EgressNetwork(views);
        const damaged = new EgressNetwork(views, () => NO_NETSTATE);
        const destinations = drawn.flows.flatMap(({ dst }) => parseAddress(dst) ?? []);
        for (const sent of someOf(packets(views, destinations), flowCount(150)))
          assertSame({ network, damaged }, views, sent, seen);
      },
      missingOf(seen, EXPECTED, 1),
    );
  });
});

const REASONS: readonly string[] = [...EGRESS_DROP_REASONS, 'policy'];

const EXPECTED = [
  ...['inside', 'no-policy', 'policy'].map((reason) => `Direct ${reason}`),
  ...['no-gateway', 'not-ready', 'no-family', 'unknown-pod', 'policy'].map((reason) => `Drop ${reason}`),
  ...['Gateway here', 'Gateway elsewhere'],
];

/** From every pod that a node knows, and one that it does not know. */
function packets(views: ReadonlyMap<string, NodeEgress>, destinations: readonly Address[]): Sent[] {
  return [...views].flatMap(([node, { sources }]) =>
    [...sources.keys(), '10.250.0.1', 'fd99::1'].flatMap((text) => {
      const src = parseAddress(text) ?? assert.fail(text);
      // Packets of a pod to itself do not leave it.
      const others = destinations.filter(({ family, value }) => family === src.family && value !== src.value);
      return others.map((dst) => ({ node, src, dst }));
    }),
  );
}

function someOf<T>(items: readonly T[], most: number): T[] {
  const step = Math.max(1, items.length / most);
  return Array.from({ length: Math.min(most, items.length) }, (_, i) => items[Math.floor(i * step)] as T);
}

function assertSame(
  { network, damaged }: Readonly<Record<'network' | 'damaged', EgressNetwork>>,
  views: ReadonlyMap<string, NodeEgress>,
  { node, src, dst }: Sent,
  seen: Seen,
): void {
  const isPod = views.get(node)?.sources.has(formatAddress(src)) === true;
  const ends = walkPacket(views, { node, src: formatAddress(src), dst: formatAddress(dst), isPod });
  const wanted = ends.map((end) => {
    const { verdict, reason, node: at } = end;
    const address = end.address ?? (at === null ? null : network.uplink(at, src.family));
    // A gateway drops what it does not serve as unknown.
    if (verdict === 'Drop' && !REASONS.includes(reason)) return 'Drop unknown-pod';
    // Nor does it pass anything on to pods of its own, whatever address they have.
    const isElsewhere = at !== null && at !== node;
    if (isElsewhere && views.get(at)?.sources.has(formatAddress(dst))) return 'Drop unknown-pod';
    return verdict === 'Drop'
      ? `Drop ${reason}`
      : `${verdict} ${at ?? node} ${address ?? formatAddress(src)}`;
  });
  const journey = network.first(node, src, dst);
  const found = text(journey, node);
  assert.ok(
    wanted.includes(found),
    `${found}, not ${wanted.join(' or ')}: ${node} ${formatAddress(src)} ${formatAddress(dst)}`,
  );
  // Without our routing rules nothing leaves by the node itself.
  if (journey.paths.length > 1) assert.equal(damaged.first(node, src, dst).end, 'dropped', found);
  const [end] = ends;
  const where = journey.node === node ? 'here' : 'elsewhere';
  if (end?.verdict !== 'Gateway') count(seen, `${end?.verdict} ${end?.reason}`);
  else if (journey.end !== 'dropped') count(seen, `Gateway ${where}`);
  if (journey.end === 'dropped') return;
  assert.equal(text(network.again(journey, node), node), found, 'a later packet');
  if (!isPod) return;
  const answer = network.answer(journey, src, dst);
  assert.deepEqual(
    [answer.node, answer.end, answer.paths.at(-1)?.packet.dst],
    [node, 'pods', src.value],
    'the answer',
  );
}

function text({ node, paths, end }: Journey, from: string): string {
  const last = paths.at(-1);
  if (last === undefined) return 'nowhere';
  const { family, src, ctMark = 0 } = last.packet;
  if (end === 'dropped') {
    const chain = last.end?.chain ?? '';
    return `Drop ${chain.startsWith('egress-policy-') ? 'policy' : chain.replace('egress-drop-', '')}`;
  }
  const isSteered = paths.length > 1 || ctMark !== 0;
  return `${isSteered ? 'Gateway' : 'Direct'} ${isSteered ? node : from} ${formatAddress({ family, value: src })}`;
}
