/**
 * The kernel decides what SEMANTICS.md says: random scenarios, enforced by `nodewall agent --once`, real packets, and the
 * oracle's verdicts beside them; with the index and without it.
 *
 * NODEWALL_SEED=N runs that one seed; NODEWALL_SEEDS=N runs so many, default 24.
 */
import assert from 'node:assert/strict';
import { ofNodePort } from '../generate/nodeport.ts';
import { ALL_FEATURES, type Scenario, sample } from '../generate/scenario.ts';
import { icmpTypes, icmpv6Types, igmpGroups, igmpTypes } from '../generate/service.ts';
import { addressPlan } from '../netns/address-plan.ts';
import { oracle } from '../oracle/oracle.ts';
import { type PartialFlow, toCompleteFlow } from './complete-flow.ts';
import { createEnforcedNode, type EnforcedNode } from './enforced-node.ts';
import { asObserved, type Flow, isV6 } from './flow.ts';
import { kernelSuite } from './kernel-suite.ts';
import { observe } from './verdicts.ts';

const FIRST_SEED = 1000;
const FLOWS = 400;
const DISPATCHES = ['indexed', 'linear'] as const;

/** The second client stands behind the interface group of pods, the third behind clusternet's. */
const PLAN = addressPlan({
  clients: 3,
  groups: [0, 8, 9],
  addressesPerClient: 5,
  nodeAddresses: 2,
  multicastGroups: igmpGroups,
});

kernelSuite('random scenarios: the kernel agrees with the oracle', () => {
  let node: EnforcedNode;
  beforeEach(async () => {
    node = await createEnforcedNode(PLAN);
  });
  afterEach(() => node?.close());

  const tried = new Map<string, number>();
  after(() => {
    if (process.env.NODEWALL_SEED !== undefined || tried.size === 0) return;
    for (const traffic of ['ingress', 'egress', 'NodePort']) {
      for (const family of ['v4', 'v6']) {
        for (const verdict of ['Allow', 'Drop', 'Reject']) {
          const count = tried.get(`${traffic} ${family} ${verdict}`) ?? 0;
          assert(count >= 50, `${traffic} ${family} ${verdict} was seen ${count} times only`);
        }
      }
    }
  });

  for (const seed of seeds()) {
    it(`seed ${seed}`, async () => {
      // The generator's plan is mutable, ours isn't.
      const plan = { nodeAddresses: [...PLAN.nodeAddresses], clientAddresses: [...PLAN.clientAddresses] };
      // The agent asks a name server what names resolve to; here that is given, and the agent left out.
      const features = ALL_FEATURES.filter((feature) => feature !== 'fqdn' || seed % 2 === 1);
      const drawn = sample(seed, { size: 4 + (seed % 5) * 4, plan, flows: FLOWS, features });
      const scenario = seed % 4 === 0 ? { ...drawn, objects: drawn.objects.map(ofNodePort) } : drawn;
      const flows = [...scenario.flows, ...asNodePort(scenario.flows), ...unusualFlows()]
        .map((flow, i) => toCompleteFlow(flow, PLAN, seed + i))
        .filter((flow) => flow !== undefined);
      assert(flows.length > FLOWS / 2, `only ${flows.length} flows can be sent`);
      await node.write('node.json', scenario.objects);
      for (const dispatch of DISPATCHES) {
        for (const kind of await assertAgreement(node, scenario, flows, { seed, dispatch })) {
          tried.set(kind, (tried.get(kind) ?? 0) + 1);
        }
      }
    });
  }
});

interface Run {
  readonly seed: number;
  readonly dispatch: (typeof DISPATCHES)[number];
}

/** Gives what was observed, as "direction or NodePort, family, verdict". */
async function assertAgreement(
  node: EnforcedNode,
  { objects, node: name, config, names }: Scenario,
  flows: readonly Flow[],
  { seed, dispatch }: Run,
): Promise<string[]> {
  const options = ['--strict', ...(await node.configure({ ...config, dispatch }))];
  const isNamed = Object.keys(names).length > 0;
  const { stderr } = await (isNamed ? node.load(names, ...options) : node.once(...options));
  const answer = oracle({ objects, node: name, config, names });
  const observed = await observe(node.topology, flows);
  const differences = flows.flatMap((flow, i) => {
    const expected = answer(flow);
    if (asObserved(flow, expected.verdict) === observed[i]) return [];
    return [`${JSON.stringify(flow)}\n  kernel ${observed[i]}, oracle ${JSON.stringify(expected)}`];
  });
  if (differences.length === 0) {
    return flows.map(({ direction, traffic, src }, i) => {
      return `${traffic === 'NodePort' ? traffic : direction} ${isV6(src) ? 'v6' : 'v4'} ${observed[i]}`;
    });
  }
  assert.fail(
    `${differences.length} of ${flows.length} flows differ, dispatch ${dispatch}; rerun with NODEWALL_SEED=${seed}\n` +
      `${differences.slice(0, 10).join('\n')}\nagent: ${stderr}`,
  );
}

/** The same to a pod behind NAT: Host rules must not matter for it, nor NodePort rules for the others. */
function asNodePort(flows: readonly PartialFlow[]): PartialFlow[] {
  return flows
    .filter(({ direction, traffic }) => direction === 'ingress' && traffic !== 'NodePort')
    .map((flow) => ({ ...flow, traffic: 'NodePort' }));
}

/** What nobody draws often: exempt traffic, rare protocols, ICMP errors, IGMP, the Node with itself. */
function unusualFlows(): PartialFlow[] {
  return (['ingress', 'egress'] as const).flatMap((direction): PartialFlow[] => {
    const icmp = icmpTypes.flatMap((icmpType) => [0, 1].map((icmpCode) => ({ icmpType, icmpCode })));
    const icmpv6 = [...icmpv6Types, 133, 134, 136, 137, 130].map((icmpType) => ({ icmpType, icmpCode: 0 }));
    const dhcp = [
      [67, 68],
      [68, 67],
      [546, 547],
      [547, 546],
    ].map(([srcPort = 0, dstPort = 0]) => ({ protocol: 'udp', srcPort, dstPort }));
    const families = [{ src: '192.0.2.1' }, { src: '2001:db8::1' }];
    return [
      ...icmp.map((one) => ({ direction, src: '192.0.2.1', protocol: 'icmp', ...one })),
      ...icmpv6.map((one) => ({ direction, src: '2001:db8::1', protocol: 'icmpv6', ...one })),
      ...igmpGroups.flatMap((dst) =>
        igmpTypes.map((igmpType) => ({ direction, dst, protocol: 'igmp', igmpType })),
      ),
      ...families.flatMap((family) => [
        ...dhcp.map((one) => ({ direction, ...family, ...one })),
        ...[4, 47, 50, 89, 112, 255].map((protocol) => ({ direction, ...family, protocol })),
      ]),
    ];
  });
}

function seeds(): number[] {
  const { NODEWALL_SEED: one, NODEWALL_SEEDS: count = '24' } = process.env;
  if (one !== undefined) return [Number(one)];
  return Array.from({ length: Number(count) }, (_, i) => FIRST_SEED + i);
}
