/**
 * Random clusters with egress gateways in the kernel: by which node and with which address each
 * packet leaves, as the oracle, explain and the compiled nodes say.
 *
 * NODEWALL_SEED=N runs that one scenario; NODEWALL_PROBES=N sends so many packets (10,000).
 */

import assert from 'node:assert/strict';
import fc from 'fast-check';
import { toNetstate } from '../../agent/egress/render/netstate.ts';
import { rulesetText } from '../../agent/render/nft-text.ts';
import { render } from '../../agent/render/render.ts';
import { emptyNodeState } from '../../apis/compiled.ts';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import type { EgressTake, NodeEgress } from '../../apis/egress/node-egress.ts';
import { nodeEgressCompiler } from '../../controller/egress/node-egress.ts';
import { parseAddress } from '../../lib/net/address.ts';
import { type EgressScenario, egressScenario } from '../generate/egress/egress-scenario.ts';
import type { EgressAnswer } from '../oracle/egress/permission.ts';
import { agreeOnEgress } from '../properties/egress-agree.ts';
import { agreeOnNodes } from '../properties/egress-nodes.ts';
import { packetsOf, walkPacket } from '../properties/egress-walk.ts';
import { withAlive } from '../tracer/egress-table.ts';
import { EgressFabric, type FabricNode, type FabricPacket } from './egress-fabric.ts';
import { kernelSuite } from './kernel-suite.ts';

const MOST_NODES = 5;
const PROBES = Number(process.env.NODEWALL_PROBES ?? 10_000);
const FLOWS = 160;
const HOST = { group: 10, underlayMtu: 1500 } as const;
const FIRST_PORT = 10_000;
/** What no router sends on. */
const UNROUTED = /^0\.|^255\.255\.255\.255$|^::$/;

kernelSuite('egress gateways: the kernel agrees with the oracle', function () {
  this.timeout(1_800_000);
  let fabric: EgressFabric;
  before(async () => {
    fabric = await EgressFabric.create(MOST_NODES);
  });
  after(() => fabric?.close());

  it(`${PROBES} packets of random clusters`, async () => {
    const only = process.env.NODEWALL_SEED;
    const tried = new Map<string, number>();
    let count = 0;
    for (let seed = Number(only ?? Date.now() % 1_000_000); count < PROBES; seed++) {
      count += await agree(fabric, seed, tried);
      if (only !== undefined) return;
    }
    process.stdout.write(`      ${count} packets: ${JSON.stringify(Object.fromEntries(tried))}\n`);
    for (const kind of [
      'Gateway here',
      'Gateway elsewhere',
      'Direct policy',
      'Drop policy',
      'Drop not-ready',
    ])
      assert.ok((tried.get(kind) ?? 0) >= PROBES / 1_000, `${kind}: ${tried.get(kind) ?? 0}`);
  });
});

/** @returns how many packets were sent */
async function agree(fabric: EgressFabric, seed: number, tried: Map<string, number>): Promise<number> {
  const [scenario = assert.fail()] = fc.sample(egressScenario(4 + (seed % 3) * 4, FLOWS), {
    seed,
    numRuns: 1,
  });
  const agreed = agreeOnEgress(scenario, new Map());
  const views = nodeEgressCompiler()(agreed.compiled);
  agreeOnNodes(scenario, agreed, views, new Map());
  const packets = scenario.flows
    .flatMap((flow) => packetsOf(flow, scenario.objects))
    .filter(({ dst }) => !UNROUTED.test(dst))
    .map((packet, i) => ({ ...packet, port: FIRST_PORT + i }));
  await fabric.load(toNodes(scenario, views, packets));
  const seen = await fabric.send(packets);
  const wrong = packets.flatMap((packet) => {
    const ends = walkPacket(views, packet);
    const wanted = ends.map((end) => endText(end, packet, scenario));
    const found = seen.get(packet.port) ?? ['nothing'];
    const [end] = ends;
    const where = end?.node === packet.node ? 'here' : 'elsewhere';
    const kind = end?.verdict === 'Gateway' ? `Gateway ${where}` : `${end?.verdict} ${end?.reason}`;
    tried.set(kind, (tried.get(kind) ?? 0) + 1);
    // Not all of them are sent on by a router.
    if (end?.reason === 'inside' && found[0] === 'nothing') return [];
    if (found.length === 1 && wanted.includes(found[0] ?? '')) return [];
    return [`${JSON.stringify(packet)}: ${found.join(', ')}; not ${wanted.join(' or ')} (${kind})`];
  });
  assert.deepEqual(wrong.slice(0, 10), [], `NODEWALL_SEED=${seed}: ${wrong.length} of ${packets.length}`);
  return packets.length;
}

function endText(end: EgressAnswer, { node, src }: FabricPacket, scenario: EgressScenario): string {
  if (end.verdict === 'Drop') return 'nothing';
  if (end.verdict === 'Direct') return `${node} ${src}`;
  const at = end.node ?? node;
  const isIPv6 = src.includes(':');
  const address = end.address ?? uplinksOf(at, scenario).find((one) => one.includes(':') === isIPv6);
  return address === undefined ? 'nothing' : `${at} ${address}`;
}

function toNodes(
  scenario: EgressScenario,
  views: ReadonlyMap<string, NodeEgress>,
  packets: readonly FabricPacket[],
): FabricNode[] {
  return [...views].map(([name, view]) => {
    const uplinks = uplinksOf(name, scenario);
    const egress = { ...view, takes: withFound(view.takes, uplinks) };
    const alive = egress.owned.flatMap(({ addresses }) => addresses);
    const ruleset = withAlive(render({ ...emptyNodeState(name), egress }, DEFAULT_CONFIG), alive);
    const sources = new Set(packets.flatMap(({ node, src }) => (node === name ? src : [])));
    return { name, uplinks, rules: rulesetText(ruleset), netstate: toNetstate(egress, HOST), sources };
  });
}

/** As an agent does it where the uplink has the name. */
function withFound(takes: NodeEgress['takes'], uplinks: readonly string[]): NodeEgress['takes'] {
  const [ipv4, ipv6] = [false, true].map((isIPv6) => uplinks.find((one) => one.includes(':') === isIPv6));
  const found = { ...(ipv4 === undefined ? {} : { ipv4 }), ...(ipv6 === undefined ? {} : { ipv6 }) };
  return new Map(
    [...takes].map(([number, take]): [number, EgressTake] => [
      number,
      take.kind === 'node' && take.interface !== null ? { ...take, found } : take,
    ]),
  );
}

/** Its InternalIPs; of a family without one, the addresses that an annotation gives it. */
function uplinksOf(name: string, { objects }: EgressScenario): string[] {
  const found = (objects as readonly NodeLike[]).find(
    ({ kind, metadata }) => kind === 'Node' && metadata.name === name,
  );
  const { status, metadata } = found ?? {};
  const internal = (status?.addresses ?? []).flatMap(({ type, address }) =>
    type === 'InternalIP' ? address : [],
  );
  const annotated = (metadata?.annotations?.['nodewall.io/addresses'] ?? '')
    .split(',')
    .map((text) => text.trim())
    .filter((text) => parseAddress(text) !== null)
    .filter((text) => !internal.some((one) => one.includes(':') === text.includes(':')));
  return [...internal, ...annotated];
}

interface NodeLike {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly annotations?: Readonly<Record<string, string>> };
  readonly status?: { readonly addresses?: readonly { readonly type: string; readonly address: string }[] };
}
