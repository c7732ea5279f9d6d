import assert from 'node:assert/strict';
import { parseAllDocuments } from 'yaml';
import { formatAddress, inRange, parseAddress, parseCidr } from '../oracle/address.ts';
import { toCluster } from '../oracle/cluster.ts';
import type {
  PeerManifest,
  PodManifest,
  PolicyManifest,
  PortManifest,
  RuleManifest,
} from '../oracle/manifest.ts';
import { objectsOfKind, policyApiVersions } from '../oracle/manifest.ts';
import type { Answer, Flow } from '../oracle/oracle.ts';
import { oracle } from '../oracle/oracle.ts';
import type { AddressPlan } from './address.ts';
import { addressesOfNode } from './aim.ts';
import type { Scenario } from './scenario.ts';
import { ALL_FEATURES, objectsToYaml, sample, sampleScenario } from './scenario.ts';

const size = 8;
const plan: AddressPlan = {
  nodeAddresses: [{ v4: '10.77.0.1', v6: 'fd77::1' }],
  clientAddresses: [0, 8, 9, 0].map((group, index) => ({
    v4: `10.77.0.${index + 2}`,
    v6: `fd77::${index + 2}`,
    group,
  })),
};

/** The families each protocol runs over. */
const protocols: Readonly<Record<string, string[]>> = {
  tcp: ['v4', 'v6'],
  udp: ['v4', 'v6'],
  sctp: ['v4', 'v6'],
  icmp: ['v4'],
  icmpv6: ['v6'],
  igmp: ['v4'],
  other: ['v4', 'v6'],
};
const protocolNames: Readonly<Record<number, string>> = {
  1: 'icmp',
  2: 'igmp',
  6: 'tcp',
  17: 'udp',
  58: 'icmpv6',
  132: 'sctp',
};
const actions = ['Allow', 'Drop', 'Reject'];
const directions = ['ingress', 'egress'];
const peerKinds = [
  'absent',
  'empty',
  'ipBlock',
  'except',
  'nodeSelector',
  'podSelector',
  'namespaceSelector',
  'both',
  'serviceAccount',
];

interface Judged {
  flow: Flow;
  answer: Answer;
  rule: RuleManifest | undefined;
}

function judge(scenario: Scenario): Judged[] {
  const policies = policiesOf(scenario);
  const answerTo = oracle(scenario);
  return scenario.flows.map((flow) => {
    const answer = answerTo(flow);
    const named = policies.filter(({ metadata }) => metadata.name === answer.policy);
    const rules = named.map(({ spec }) => spec[flow.direction]?.[answer.ruleIndex ?? -1]);
    return { flow, answer, rule: rules.find((rule) => rule?.action === answer.verdict) };
  });
}

function policiesOf({ objects }: Scenario): PolicyManifest[] {
  return objectsOfKind(objects, policyApiVersions, 'ClusterNetworkPolicy') as PolicyManifest[];
}

function rulesOf(policy: PolicyManifest): RuleManifest[] {
  return [...(policy.spec.ingress ?? []), ...(policy.spec.egress ?? [])];
}

function serviceOf(flow: Flow): string {
  const { protocol } = flow;
  const name = typeof protocol === 'number' ? (protocolNames[protocol] ?? 'other') : protocol;
  const address = flow.src ?? flow.dst;
  return `${name ?? 'unknown'} ${address === undefined ? 'unknown' : address.includes(':') ? 'v6' : 'v4'}`;
}

/** Rules rarely allow a protocol without a name: its families count together. */
function withoutFamily(service: string): string {
  return service.replace(/^other v[46]$/, 'other');
}

function kindsOf(rule: RuleManifest): string[] {
  const peers = rule.from ?? rule.to;
  if (peers === undefined) return ['absent'];
  return peers.length === 0 ? ['empty'] : peers.map(kindOf);
}

function kindOf(peer: PeerManifest): string {
  if ((peer.ipBlock?.except ?? []).length > 0) return 'except';
  return Object.keys(peer).length === 2 ? 'both' : (Object.keys(peer)[0] ?? '');
}

/** Fails with those of the expected that never came. */
function assertCovered(expected: string[], seen: Map<string, number>): void {
  assert.deepEqual(
    expected.filter((key) => !seen.has(key)),
    [],
  );
}

function count(keys: string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1);
  return counts;
}

function product(...lists: string[][]): string[] {
  return lists.reduce(
    (keys, list) => keys.flatMap((key) => list.map((item) => `${key} ${item}`.trim())),
    [''],
  );
}

/** Rules decide less often in the whole language: Pass and Audit take flows from them. */
const WHOLE = [
  ['generated scenarios of the whole language', undefined, ALL_FEATURES, 160, 0.33],
  ['generated scenarios of the whole language, of a kernel test', plan, ALL_FEATURES, 130, 0.45],
] as const;
/** By test:long: few tests draw them. */
const PLAIN = [
  ['generated scenarios', undefined, [], 200, 0.45],
  ['generated scenarios of a kernel test', plan, [], 150, 0.55],
] as const;
for (const [title, given, features, sampleCount, bound] of process.env.NODEWALL_RUNS === undefined
  ? WHOLE
  : [...WHOLE, ...PLAIN]) {
  describe(title, function () {
    this.timeout(0);
    let samples: Scenario[] = [];
    let judged: Judged[] = [];
    before(() => {
      samples = Array.from({ length: sampleCount }, (_, seed) =>
        sample(seed, { size, plan: given, features }),
      );
      judged = samples.flatMap(judge);
    });

    it('decide by rule with every action, protocol, family and direction', () => {
      const sendable = ['tcp', 'udp', 'sctp', 'icmp', 'icmpv6'];
      const services = Object.entries(protocols)
        .filter(([name]) => given === undefined || sendable.includes(name))
        .flatMap(([name, families]) => families.map((family) => `${name} ${family}`))
        .map(withoutFamily);
      const decided = judged.filter(({ answer }) => answer.reason === 'rule');
      const seen = count(
        decided.map(
          ({ flow, answer }) => `${answer.verdict} ${withoutFamily(serviceOf(flow))} ${flow.direction}`,
        ),
      );
      assertCovered(product(actions, services, directions), seen);
    });

    it(`decide by rule in at least ${bound * 100} % of all flows`, () => {
      const decided = judged.filter(({ answer }) => answer.reason === 'rule').length;
      assert.ok(decided >= bound * judged.length, `${decided} of ${judged.length}`);
    });

    it('cover every reason in both directions', () => {
      const seen = count(judged.map(({ flow, answer }) => `${answer.reason} ${flow.direction}`));
      const reasons =
        given === undefined ? ['rule', 'default', 'failsafe', 'exempt'] : ['rule', 'default', 'failsafe'];
      assertCovered(product(reasons, directions), seen);
    });

    it('decide by every kind of peer, with every action, in both directions', () => {
      const keys = judged.flatMap(({ flow, rule }) =>
        rule === undefined ? [] : kindsOf(rule).map((kind) => `${rule.action} ${kind} ${flow.direction}`),
      );
      assertCovered(product(actions, peerKinds, directions), count(keys));
    });

    it('mix the verdicts: each is at least 5 % of those decided by rules', () => {
      const decided = judged.filter(({ answer }) => answer.reason === 'rule');
      const seen = count(decided.map(({ answer }) => answer.verdict));
      for (const verdict of actions) {
        assert.ok((seen.get(verdict) ?? 0) > decided.length * 0.05, `${verdict}: ${seen.get(verdict)}`);
      }
    });

    it('skip rules by failsafe without a change of verdict, too', () => {
      assert.ok(judged.some(({ answer }) => answer.reason === 'rule' && (answer.skipped ?? []).length > 0));
    });

    it('contain only valid rules', () => {
      for (const policy of samples.flatMap(policiesOf)) assertValid(policy);
    });

    it("keep nodewall's own forms out of the other API group, and every form in its place", () => {
      for (const policy of samples.flatMap(policiesOf)) assertInPlace(policy);
    });
  });
}

describe('scenario', () => {
  it('contain the difficult shapes', () => {
    const samples = Array.from({ length: 60 }, (_, seed) => sampleScenario(seed, size));
    const policies = samples.flatMap(policiesOf);
    const rules = policies.flatMap(rulesOf);
    const pods = samples.flatMap(({ objects }) => objectsOfKind(objects, ['v1'], 'Pod')) as PodManifest[];
    const shapes: Record<string, boolean> = {
      'hostNetwork pod': pods.some(({ spec }) => spec?.hostNetwork === true),
      'finished pod': pods.some(({ status }) => status?.phase === 'Failed'),
      'pod without address': pods.some(({ status }) => status?.podIP === undefined),
      'pod with podIP alone': pods.some(
        ({ status }) => status?.podIP !== undefined && status.podIPs === undefined,
      ),
      'dual-stack pod': pods.some(({ status }) => status?.podIPs?.length === 2),
      'pod of an undeclared namespace': pods.some(({ metadata }) => metadata.namespace === 'lost'),
      'the same name in both groups': samples.some((sample) =>
        hasDuplicate(policiesOf(sample), (item) => item.metadata.name),
      ),
      'tied priorities': samples.some((sample) =>
        hasDuplicate(policiesOf(sample), ({ spec }) => `${spec.tier} ${spec.priority}`),
      ),
      'custom tier': policies.some(({ spec }) => spec.tier === 'gold'),
      'CamelCase tier': policies.some(({ spec }) => spec.tier === 'SecurityOps'),
      'appliedTo of rules': rules.some(({ appliedTo }) => (appliedTo ?? []).length > 0),
      'unnamed rule': rules.some(({ name }) => name === undefined),
      '/0': rules.some((rule) =>
        (rule.from ?? rule.to ?? []).some((peer) => peer.ipBlock?.cidr.endsWith('/0')),
      ),
      'replaced failsafe': samples.some(({ config }) => config.failsafe?.ingress?.length === 0),
      'no anti-spoofing': samples.some(({ config }) => config.antiSpoofing === false),
      'exemption off': samples.some(({ config }) => config.exemptions?.loopback === false),
    };
    assert.deepEqual(
      Object.keys(shapes).filter((shape) => !shapes[shape]),
      [],
    );
  });

  it('are the same for the same seed, and others for another', () => {
    assert.deepEqual(sampleScenario(7, 5, plan), sampleScenario(7, 5, plan));
    assert.notDeepEqual(sampleScenario(7, 5), sampleScenario(8, 5));
  });

  it('go through YAML unchanged', () => {
    const { objects } = sampleScenario(3, 10);
    const parsed = parseAllDocuments(objectsToYaml(objects)).map((document) => document.toJS());
    assert.deepEqual(parsed, JSON.parse(JSON.stringify(objects)));
  });

  it('follow the address plan: exact node addresses, complete and sendable flows', () => {
    const clients = new Set(plan.clientAddresses.flatMap(({ v4, v6 }) => [v4, v6]));
    const own = new Set(plan.nodeAddresses.flatMap(({ v4, v6 }) => [v4, v6]));
    for (let seed = 0; seed < 60; seed++) {
      const { objects, node, flows } = sampleScenario(seed, 4, plan);
      const found = addressesOfNode(objects, node).map(parseAddress);
      // An address that a pod or a Service has is none of its Node.
      const { pods, services } = toCluster(objects);
      const others = [...pods.flatMap((pod) => pod.addresses), ...services.flatMap((one) => one.clusterIPs)];
      const held = new Set(others.map(formatAddress));
      const isFree = (text: string): boolean => {
        const address = parseAddress(text);
        return address !== undefined && !held.has(formatAddress(address));
      };
      assert.deepEqual(found, [...own].filter(isFree).map(parseAddress));
      for (const { direction, src = '', dst = '', protocol, srcPort, dstPort, icmpType, icmpCode } of flows) {
        const [remote, local] = direction === 'ingress' ? [src, dst] : [dst, src];
        assert.ok(clients.has(remote) && own.has(local), `${src} to ${dst}`);
        // A protocol without ports and types needs nothing more.
        if (typeof protocol === 'number' && protocol !== 2) continue;
        const numbers = String(protocol).startsWith('icmp') ? [icmpType, icmpCode] : [srcPort, dstPort];
        assert.ok(
          ['tcp', 'udp', 'sctp', 'icmp', 'icmpv6'].includes(String(protocol)),
          `protocol ${protocol}`,
        );
        assert.ok(numbers.every((number) => number !== undefined));
      }
    }
  });
});

function hasDuplicate<T>(list: T[], key: (item: T) => string): boolean {
  return new Set(list.map(key)).size < list.length;
}

/** What SEMANTICS section 3 rejects and a generator could get wrong. */
function assertValid(policy: PolicyManifest): void {
  const rules = rulesOf(policy);
  const names = rules.flatMap(({ name }) => (name === undefined ? [] : [name]));
  assert.equal(new Set(names).size, names.length);
  const isAtPolicy = (policy.spec.appliedTo ?? []).length > 0;
  for (const rule of rules) {
    assert.notEqual((rule.appliedTo ?? []).length > 0, isAtPolicy);
    assert.ok(policy.apiVersion === policyApiVersions[0] || !JSON.stringify(rule).includes('icmpv6'));
    for (const port of rule.ports ?? []) assertValidPort(port);
    for (const { ipBlock } of [...(rule.from ?? []), ...(rule.to ?? [])]) {
      for (const except of ipBlock?.except ?? []) assertInside(except, ipBlock?.cidr ?? '');
    }
  }
  assert.ok(rules.length > 0 || isAtPolicy);
  assert.ok(policy.spec.priority >= 1 && policy.spec.priority <= 10000);
}

/** Sections 1, 3 and 5: where the forms of the whole language may be. */
function assertInPlace({ apiVersion, spec }: PolicyManifest): void {
  const rules = [...(spec.ingress ?? []), ...(spec.egress ?? [])];
  const text = JSON.stringify(spec);
  if (apiVersion !== policyApiVersions[0]) {
    for (const plus of ['mode', 'traffic', 'interfaceGroup', 'icmpv6'])
      assert.ok(!text.includes(`"${plus}"`));
  }
  if (spec.traffic === 'NodePort') assert.equal(spec.egress, undefined);
  if (spec.tier?.toLowerCase() === 'baseline') assert.ok(!text.includes('"Pass"'));
  for (const ingress of spec.ingress ?? []) {
    assert.ok((ingress.from ?? []).every(({ fqdn }) => fqdn === undefined));
    assert.equal(ingress.toServices, undefined);
  }
  for (const { toServices = [], to, ports, protocols } of rules) {
    if (toServices.length > 0) assert.deepEqual([to, ports, protocols], [undefined, undefined, undefined]);
  }
}

function assertValidPort({ port, endPort, sourcePort, sourceEndPort }: PortManifest): void {
  for (const number of [port, endPort, sourcePort, sourceEndPort]) {
    assert.ok(number === undefined || (number >= 1 && number <= 65535));
  }
  assert.ok(endPort === undefined || endPort >= (port ?? 65536));
  assert.ok(sourceEndPort === undefined || sourceEndPort >= (sourcePort ?? 65536));
}

function assertInside(except: string, cidr: string): void {
  const [inner, outer] = [parseCidr(except), parseCidr(cidr)];
  const ends = [inner.first, inner.last].map((value) => ({ family: inner.family, value }));
  assert.ok(ends.every((end) => inRange(outer, end)));
  assert.ok(inner.first !== outer.first || inner.last !== outer.last);
}
