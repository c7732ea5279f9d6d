import fc from 'fast-check';
import { bitsOf, type Family } from '../oracle/address.ts';
import {
  type IPBlock,
  type PeerManifest,
  type PolicyManifest,
  type PortManifest,
  policyApiVersions,
  type RuleManifest,
} from '../oracle/manifest.ts';
import { type AddressPlan, toCidr, toPool } from './address.ts';
import { oneOf, weighted, withoutUndefined } from './choice.ts';
import { baselineNames, builtInTierNames, type PolicyObjects } from './policy.ts';
import { rule } from './rule.ts';
import { nodeLabels, podLabels, type RuleContext, type Scope, selectorOver } from './selector.ts';

/**
 * What many rules have in common, each hard for another index: all of them on one port, on few,
 * without ports, on overlapping ranges, on a port each; with peers that share members (selectors),
 * or with prefixes inside each other.
 */
export const CROWD_KINDS = ['onePort', 'fewPorts', 'portless', 'ranges', 'ports', 'mixed'] as const;
export type CrowdKind = (typeof CROWD_KINDS)[number];

/** How many rules, and of which kind; the kind is drawn where none is named. */
export interface Crowd {
  rules: number;
  kind?: CrowdKind;
}

/**
 * Policies with `rules` rules in all: peers from a pool, so that some are the same; Audit, Pass,
 * link groups, toServices and names among them as far as the features go; rules for anybody seldom,
 * else nothing behind them would ever decide.
 */
export function crowdPolicies({ rules, kind }: Crowd, scope: Scope): fc.Arbitrary<PolicyObjects> {
  const drawn = fc.record({
    kind: kind === undefined ? fc.constantFrom(...CROWD_KINDS) : fc.constant(kind),
    peers: fc.array(peerList(scope.plan), { minLength: Math.ceil(rules / 2), maxLength: rules }),
    direction: weighted<'ingress' | 'egress' | 'both'>(
      [4, fc.constant('ingress')],
      [2, fc.constant('egress')],
      [1, fc.constant('both')],
    ),
    nodePort: weighted([6, fc.constant(false)], [scope.features.has('nodePort') ? 1 : 0, fc.constant(true)]),
    sizes: sizes(rules),
  });
  return drawn.chain(({ kind: chosen, peers, direction, nodePort, sizes: list }) => {
    const traffic = nodePort ? 'NodePort' : undefined;
    const all = list.map((size, i) => {
      const way = direction === 'both' ? (i % 2 === 0 ? 'ingress' : 'egress') : direction;
      return policy(`crowd-${i}`, size, {
        kind: chosen,
        peers,
        traffic,
        scope,
        direction: nodePort ? 'ingress' : way,
      });
    });
    return fc.record({ tiers: fc.constant([]), policies: fc.tuple(...all) });
  });
}

/** Numbers of rules a policy, `rules` in all. */
function sizes(rules: number): fc.Arbitrary<number[]> {
  return fc.array(fc.integer({ min: 1, max: 40 }), { minLength: rules, maxLength: rules }).map((numbers) => {
    const found: number[] = [];
    for (let left = rules; left > 0; left -= found.at(-1) ?? left) {
      found.push(Math.min(left, numbers[found.length] ?? left));
    }
    return found;
  });
}

interface PolicyContext {
  kind: CrowdKind;
  peers: PeerManifest[][];
  traffic: 'NodePort' | undefined;
  direction: 'ingress' | 'egress';
  scope: Scope;
}

function policy(name: string, size: number, context: PolicyContext): fc.Arbitrary<PolicyManifest> {
  const { direction, traffic, scope } = context;
  const { features } = scope;
  const ours = weighted(
    [traffic === undefined ? 1 : 0, fc.constant(policyApiVersions[1] ?? '')],
    [5, fc.constant(policyApiVersions[0] ?? '')],
  );
  return ours.chain((apiVersion) => {
    const isAntrea = apiVersion !== policyApiVersions[0];
    const tier = weighted<string | undefined>(
      [12, fc.constant(undefined)],
      [3, oneOf(builtInTierNames)],
      [features.has('pass') ? 2 : 0, oneOf(baselineNames)],
    );
    const mode = weighted<string | undefined>(
      [8, fc.constant(undefined)],
      [features.has('audit') && !isAntrea ? 1 : 0, fc.constant('Audit')],
    );
    const list = fc.array(crowdRule(context, isAntrea), { minLength: size, maxLength: size });
    return fc
      .record({
        tier,
        mode,
        priority: fc.integer({ min: 1, max: 9 }),
        list,
        some: selectorOver(nodeLabels),
        all: weighted([9, fc.constant(true)], [1, fc.constant(false)]),
      })
      .map(({ list: drawn, some, all, ...fields }) => {
        const rules = drawn.map((one) =>
          one.action === 'Pass' && baselineNames.includes(fields.tier ?? '')
            ? { ...one, action: 'Drop' }
            : one,
        );
        const spec = {
          ...fields,
          traffic,
          appliedTo: [{ nodeSelector: all ? {} : some }],
          [direction]: rules,
        };
        return {
          apiVersion,
          kind: 'ClusterNetworkPolicy',
          metadata: { name },
          spec: withoutUndefined(spec),
        } as PolicyManifest;
      });
  });
}

function crowdRule(context: PolicyContext, isAntrea: boolean): fc.Arbitrary<RuleManifest> {
  const { kind, peers, direction, scope } = context;
  const side = direction === 'ingress' ? 'from' : 'to';
  const action = weighted<string>(
    [5, fc.constant('Allow')],
    [4, fc.constant('Drop')],
    [3, fc.constant('Reject')],
    [scope.features.has('pass') ? 1 : 0, fc.constant('Pass')],
  );
  const ports = portList(kind);
  const one = fc.record({ action, ports, peers: oneOf(peers) }).map((drawn) => toRule(drawn, side));
  const anybody = fc.record({ action, ports }).map((drawn) => toRule({ ...drawn, peers: undefined }, side));
  const ofAnyForm = rule({ direction, isAntrea, scope } satisfies RuleContext).filter(
    (drawn) => !isForAnybody(drawn),
  );
  const grouped =
    isAntrea || !scope.features.has('interfaceGroup')
      ? []
      : [[4, behindGroup(one, side, scope)] as [number, fc.Arbitrary<RuleManifest>]];
  return weighted<RuleManifest>([100, one], [1, anybody], [7, ofAnyForm], ...grouped);
}

interface DrawnRule {
  action: string;
  ports: PortManifest[] | undefined;
  peers: PeerManifest[] | undefined;
}

function toRule({ action, ports, peers }: DrawnRule, side: 'from' | 'to'): RuleManifest {
  return withoutUndefined({ action, [side]: peers, ports }) as RuleManifest;
}

/** A link group among the peers: the rule is for anybody who comes by such an interface. */
function behindGroup(
  one: fc.Arbitrary<RuleManifest>,
  side: 'from' | 'to',
  { interfaceGroups }: Scope,
): fc.Arbitrary<RuleManifest> {
  return fc.tuple(one, oneOf(interfaceGroups), fc.boolean()).map(([drawn, interfaceGroup, alone]) => {
    return { ...drawn, [side]: alone ? [{ interfaceGroup }] : [...(drawn[side] ?? []), { interfaceGroup }] };
  });
}

function isForAnybody({ from, to, ports, protocols, toServices }: RuleManifest): boolean {
  return [from, to, ports, protocols, toServices].every((list) => (list ?? []).length === 0);
}

const tcp = (port: number, endPort?: number): PortManifest =>
  withoutUndefined({ protocol: 'TCP', port, endPort }) as PortManifest;

function portList(kind: CrowdKind): fc.Arbitrary<PortManifest[] | undefined> {
  const withSource: fc.Arbitrary<PortManifest> = fc.constantFrom(
    { protocol: 'TCP', port: 443, sourcePort: 40000 },
    { protocol: 'TCP', port: 443, sourcePort: 30000, sourceEndPort: 50000 },
  );
  const rare: [number, fc.Arbitrary<PortManifest[] | undefined>][] = [
    [1, withSource.map((port) => [port])],
    [1, fc.constant(undefined)],
    [1, fc.constantFrom([{ protocol: 'TCP' }], [{ protocol: 'UDP' }, { protocol: 'SCTP' }])],
  ];
  const some = (item: fc.Arbitrary<PortManifest>) => fc.array(item, { minLength: 1, maxLength: 3 });
  const few = fc.constantFrom<PortManifest>(
    tcp(443),
    tcp(80),
    tcp(444),
    { protocol: 'UDP', port: 53 },
    { port: 443 },
  );
  const edge = fc.integer({ min: 0, max: 30 });
  const range = fc.tuple(edge, edge).map(([a, b]) => tcp(400 + 3 * Math.min(a, b), 400 + 3 * Math.max(a, b)));
  const wide = fc
    .tuple(fc.integer({ min: 1, max: 600 }), fc.integer({ min: 601, max: 65535 }))
    .map(([a, b]) => tcp(a, b));
  switch (kind) {
    case 'onePort':
      return weighted([60, fc.constant([tcp(443)])], [2, some(few)], ...rare);
    case 'fewPorts':
      return weighted([60, some(few)], ...rare);
    case 'portless':
      return weighted([60, fc.constant(undefined)], [10, some(few)], ...rare);
    case 'ranges':
      return weighted([40, some(range)], [4, some(wide)], [10, some(few)], ...rare);
    case 'ports':
      return weighted([60, some(fc.integer({ min: 400, max: 700 }).map((port) => tcp(port)))], ...rare);
    case 'mixed':
      return weighted(
        [6, fc.constant([tcp(443)])],
        [6, fc.constant(undefined)],
        [6, some(few)],
        [6, some(range)],
        [1, some(wide)],
        ...rare,
      );
  }
}

/** One to three peers that both API groups and both directions have. */
function peerList(plan: AddressPlan | undefined): fc.Arbitrary<PeerManifest[]> {
  const block = fc.constantFrom<Family>(4, 4, 6).chain((family) => nestedBlock(family, plan));
  const peer = weighted<PeerManifest>(
    [8, block.map((ipBlock) => ({ ipBlock }))],
    [
      2,
      selectorOver(podLabels)
        .filter(isNarrow)
        .map((podSelector) => ({ podSelector })),
    ],
    [
      1,
      selectorOver(nodeLabels)
        .filter(isNarrow)
        .map((nodeSelector) => ({ nodeSelector })),
    ],
  );
  return fc.array(peer, { minLength: 1, maxLength: 3 });
}

function isNarrow(selector: object): boolean {
  return Object.keys(selector).length > 0;
}

/**
 * Bits where the addresses of nestedBlock differ: each prefix has others inside it, beside it, and
 * around it.
 */
const LENGTHS: Readonly<Record<Family, readonly number[]>> = {
  4: [8, 9, 15, 16, 17, 22, 23, 24, 25, 30, 31, 32, 32, 32, 32],
  6: [16, 31, 32, 33, 48, 63, 64, 65, 112, 126, 127, 128, 128, 128, 128],
};

/**
 * A prefix of few networks, any length; the whole space and its halves seldom; with an exception
 * inside it now and then.
 */
function nestedBlock(family: Family, plan: AddressPlan | undefined): fc.Arbitrary<IPBlock> {
  const lengths = weighted([150, oneOf(LENGTHS[family])], [1, fc.constantFrom(0, 1)]);
  const address =
    plan === undefined ? nestedAddress(family) : oneOf(family === 4 ? toPool(plan).v4 : toPool(plan).v6);
  return fc
    .record({
      address,
      length: lengths,
      deeper: fc.integer({ min: 1, max: 9 }),
      hole: weighted([5, fc.constant(false)], [1, fc.constant(true)]),
    })
    .map(({ address: text, length, deeper, hole }) => {
      const cidr = toCidr(text, length);
      const inner = Math.min(bitsOf(family), length + deeper);
      return hole && inner > length ? { cidr, except: [toCidr(text, inner)] } : { cidr };
    });
}

function nestedAddress(family: Family): fc.Arbitrary<string> {
  const some = (...values: number[]) => fc.constantFrom(...values);
  if (family === 4) {
    return fc
      .tuple(some(10, 10, 10, 11, 172), some(0, 1, 2, 255), some(0, 1, 3, 255), fc.nat({ max: 255 }))
      .map((parts) => parts.join('.'));
  }
  return fc
    .tuple(some(0xdb8, 0xdb8, 0xdb9), some(0, 1, 0xffff), some(0, 1), fc.nat({ max: 0xff }))
    .map(([a, b, c, d]) => `2001:${a.toString(16)}:${b.toString(16)}:${c.toString(16)}::${d.toString(16)}`);
}
