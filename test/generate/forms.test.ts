import assert from 'node:assert/strict';
import type {
  EndpointSliceManifest,
  GroupManifest,
  Manifest,
  PeerManifest,
  PolicyManifest,
  RuleManifest,
  ServiceManifest,
} from '../oracle/manifest.ts';
import { apiGroupOf, findNamed, objectsOfKind, policyApiVersions } from '../oracle/manifest.ts';
import type { Answer } from '../oracle/oracle.ts';
import { oracle } from '../oracle/oracle.ts';
import { cases } from '../properties/runs.ts';
import type { AddressPlan, Feature, Scenario } from './scenario.ts';
import { ALL_FEATURES, sample } from './scenario.ts';

const sampleCount = cases(1280);
const size = 8;
const plan: AddressPlan = {
  nodeAddresses: [{ v4: '10.77.0.1', v6: 'fd77::1' }],
  clientAddresses: [0, 8, 9, 7, 0].map((group, index) => ({
    v4: `10.77.0.${index + 2}`,
    v6: `fd77::${index + 2}`,
    group,
  })),
};

interface PlacedRule {
  direction: 'ingress' | 'egress';
  policy: PolicyManifest;
  rule: RuleManifest;
}

type Direction = PlacedRule['direction'];

function policiesOf({ objects }: Scenario): PolicyManifest[] {
  return objectsOfKind(objects, policyApiVersions, 'ClusterNetworkPolicy') as PolicyManifest[];
}

function rulesOf(scenario: Scenario): PlacedRule[] {
  return policiesOf(scenario).flatMap((policy) =>
    (['ingress', 'egress'] as const).flatMap((direction) =>
      (policy.spec[direction] ?? []).map((rule) => ({ direction, policy, rule })),
    ),
  );
}

function peersOf({ rule }: PlacedRule): PeerManifest[] {
  return [...(rule.from ?? []), ...(rule.to ?? [])];
}

function somePeer(test: (peer: PeerManifest) => boolean): (placed: PlacedRule) => boolean {
  return (placed) => peersOf(placed).some(test);
}

const both: Direction[] = ['ingress', 'egress'];

/** Forms of rules: what they are, the feature that brings them, the directions that have them. */
const ruleForms: Readonly<Record<string, [Feature, Direction[], (placed: PlacedRule) => boolean]>> = {
  group: ['group', both, somePeer(({ group }) => group !== undefined)],
  'appliedTo group': [
    'appliedToGroup',
    both,
    ({ policy, rule }) =>
      [...(policy.spec.appliedTo ?? []), ...(rule.appliedTo ?? [])].some(({ group }) => group !== undefined),
  ],
  Pass: ['pass', both, ({ rule }) => rule.action === 'Pass'],
  'baseline tier': ['pass', both, ({ policy }) => policy.spec.tier?.toLowerCase() === 'baseline'],
  toServices: ['toServices', ['egress'], ({ rule }) => (rule.toServices ?? []).length > 0],
  'fqdn, exact': ['fqdn', ['egress'], somePeer(({ fqdn }) => fqdn !== undefined && !fqdn.startsWith('*'))],
  'fqdn, wildcard': ['fqdn', ['egress'], somePeer(({ fqdn }) => fqdn?.startsWith('*') === true)],
  'interfaceGroup, name': [
    'interfaceGroup',
    both,
    somePeer(({ interfaceGroup }) => typeof interfaceGroup === 'string'),
  ],
  'interfaceGroup, number': [
    'interfaceGroup',
    both,
    somePeer(({ interfaceGroup }) => typeof interfaceGroup === 'number'),
  ],
  Audit: ['audit', both, ({ policy }) => policy.spec.mode === 'Audit'],
  NodePort: ['nodePort', ['ingress'], ({ policy }) => policy.spec.traffic === 'NodePort'],
  enableLogging: ['logging', both, ({ rule }) => rule.enableLogging === true],
  logLabel: ['logging', both, ({ rule }) => rule.logLabel !== undefined],
};

const groupKinds = [
  'podSelector',
  'namespaceSelector',
  'nodeSelector',
  'ipBlocks',
  'serviceReference',
  'childGroups',
];

function groupsOf({ objects }: Scenario): GroupManifest[] {
  return objectsOfKind(objects, policyApiVersions, 'ClusterGroup') as GroupManifest[];
}

function servicesOf({ objects }: Scenario): ServiceManifest[] {
  return objectsOfKind(objects, ['v1'], 'Service') as ServiceManifest[];
}

function slicesOf({ objects }: Scenario): EndpointSliceManifest[] {
  return objectsOfKind(objects, ['discovery.k8s.io/v1'], 'EndpointSlice') as EndpointSliceManifest[];
}

function hasTwice(manifests: Manifest[]): boolean {
  return new Set(manifests.map(({ metadata }) => metadata.name)).size < manifests.length;
}

/** Forms of everything else. */
const otherForms: Readonly<Record<string, (scenario: Scenario) => boolean>> = {
  ...Object.fromEntries(
    groupKinds.map((kind) => [
      `ClusterGroup by ${kind}`,
      (scenario: Scenario) => groupsOf(scenario).some(({ spec }) => Object.hasOwn(spec, kind)),
    ]),
  ),
  'ClusterGroup of Antrea': (scenario) =>
    groupsOf(scenario).some(({ apiVersion }) => apiVersion !== policyApiVersions[0]),
  'ClusterGroups of the same name': (scenario) => hasTwice(groupsOf(scenario)),
  'headless Service': (scenario) => servicesOf(scenario).some(({ spec }) => spec?.clusterIP === 'None'),
  'dual-stack Service': (scenario) => servicesOf(scenario).some(({ spec }) => spec?.clusterIPs?.length === 2),
  'Service without selector': (scenario) =>
    servicesOf(scenario).some(({ spec }) => spec?.selector === undefined),
  'two slices of a Service': (scenario) => {
    const names = slicesOf(scenario).map(
      ({ metadata }) => `${metadata.namespace} ${metadata.name.split('-')[0]}`,
    );
    return new Set(names).size < names.length;
  },
  'endpoint that is not ready': (scenario) =>
    slicesOf(scenario).some(({ endpoints }) =>
      endpoints?.some(({ conditions }) => conditions?.ready === false),
    ),
  'endpoint without a word on readiness': (scenario) =>
    slicesOf(scenario).some(({ endpoints }) =>
      endpoints?.some(({ conditions }) => conditions?.ready === undefined),
    ),
  'endpoint port without a number': (scenario) =>
    slicesOf(scenario).some(({ ports }) => ports?.some(({ port }) => port === undefined)),
  'slices of both families': (scenario) =>
    new Set(slicesOf(scenario).map((slice) => slice.addressType)).size === 2,
  'names that resolve': ({ names }) => Object.values(names).some((list) => list.length > 0),
  'names that do not': ({ names }) => Object.values(names).some((list) => list.length === 0),
  'custom tier': (scenario) =>
    policiesOf(scenario).some(({ spec }) => ['gold', 'silver', 'edge-first'].includes(spec.tier ?? '')),
  'NodePort flow': ({ flows }) => flows.some(({ traffic }) => traffic === 'NodePort'),
  'flow on an interface group': ({ flows }) =>
    flows.some(({ interfaceGroup }) => interfaceGroup !== undefined),
};

/** What a rule was decided by, each in words: every kind of peer, of group, of target. */
function decidedBy({ objects }: Scenario, { policy, rule, direction }: PlacedRule): string[] {
  const apiGroup = apiGroupOf(policy.apiVersion);
  const kinds = peersOf({ policy, rule, direction }).flatMap((peer) => {
    const found =
      peer.group === undefined ? undefined : findNamed(objects, 'ClusterGroup', peer.group, apiGroup);
    const ofGroup = Object.keys((found as GroupManifest | undefined)?.spec ?? {});
    const ofName = peer.fqdn === undefined ? [] : [peer.fqdn.startsWith('*') ? 'wildcard' : 'exact'];
    return [...Object.keys(peer), ...ofGroup.map((kind) => `group by ${kind}`), ...ofName];
  });
  const toServices = (rule.toServices ?? []).length > 0 ? ['toServices'] : [];
  return [...kinds, ...toServices, ...(policy.spec.traffic === 'NodePort' ? ['NodePort'] : [])];
}

for (const [title, given] of [
  ['forms', undefined],
  ['forms in a kernel test', plan],
] as const) {
  describe(title, function () {
    this.timeout(0);
    let samples: Scenario[] = [];
    let decided: { scenario: Scenario; answer: Answer; placed: PlacedRule | undefined }[] = [];
    before(() => {
      samples = Array.from({ length: sampleCount }, (_, seed) =>
        sample(seed, { size, plan: given, features: ALL_FEATURES }),
      );
      decided = samples.flatMap((scenario) => {
        const judge = oracle(scenario);
        const rules = rulesOf(scenario);
        return scenario.flows.map((flow) => {
          const answer = judge(flow);
          const placed = rules.find(
            ({ direction, policy, rule }) =>
              direction === flow.direction &&
              policy.metadata.name === answer.policy &&
              policy.spec[direction]?.[answer.ruleIndex ?? -1] === rule &&
              rule.action === answer.verdict,
          );
          return { scenario, answer, placed };
        });
      });
    });

    for (const [form, [, directions, isForm]] of Object.entries(ruleForms)) {
      for (const direction of directions) {
        it(`${form} on ${direction}: in a fifth of all scenarios`, () => {
          const isHere = (placed: PlacedRule) => placed.direction === direction && isForm(placed);
          assertCommon(samples.filter((scenario) => rulesOf(scenario).some(isHere)).length);
        });
      }
    }

    for (const [form, isForm] of Object.entries(otherForms)) {
      it(`${form}: in a fifth of all scenarios`, () => assertCommon(samples.filter(isForm).length));
    }

    it('flows are decided by each of them, with every action', () => {
      const seen = new Set(
        decided.flatMap(({ scenario, answer, placed }) =>
          placed === undefined
            ? []
            : decidedBy(scenario, placed).flatMap((kind) => [
                `${kind} ${placed.direction}`,
                `${kind} ${placed.direction} ${answer.verdict}`,
              ]),
        ),
      );
      const kinds = ['group ingress', 'group egress', 'interfaceGroup ingress', 'interfaceGroup egress'];
      const ofEgress = ['fqdn egress', 'exact egress', 'wildcard egress', 'toServices egress'];
      const wanted = [...kinds, ...ofEgress, 'NodePort ingress'].flatMap((key) =>
        ['Allow', 'Drop', 'Reject'].map((verdict) => `${key} ${verdict}`),
      );
      // Each kind of group would need thousands of flows to meet every action.
      const ofGroups = groupKinds.flatMap((kind) => [`group by ${kind} ingress`, `group by ${kind} egress`]);
      assert.deepEqual(
        [...wanted, ...ofGroups].filter((key) => !seen.has(key)),
        [],
      );
    });

    it('Pass, Audit and NodePort change what is decided', () => {
      const isBaseline = ({ tier }: Answer) => tier === 'baseline';
      assert.ok(decided.some(({ answer }) => isBaseline(answer) && answer.reason === 'rule'));
      assert.ok(decided.some(({ answer }) => (answer.audited ?? []).length > 0));
      const nodePort = samples.flatMap((scenario) =>
        scenario.flows.filter(({ traffic }) => traffic === 'NodePort').map(oracle(scenario)),
      );
      const reasons = new Set(nodePort.map(({ reason }) => reason));
      assert.deepEqual([...reasons].sort(), ['default', 'exempt', 'rule', 'spoofed']);
    });
  });
}

describe('features', () => {
  for (const feature of ALL_FEATURES) {
    const others = ALL_FEATURES.filter((other) => other !== feature);

    it(`${feature} alone brings its forms and no others`, () => {
      assert.deepEqual(
        formsOf([feature]),
        formsWith((owner) => owner === feature),
      );
    });

    it(`without ${feature} everything else is generated`, () => {
      assert.deepEqual(
        formsOf(others),
        formsWith((owner) => owner !== feature),
      );
    });
  }

  it('none: has none of the forms', () => {
    assert.deepEqual(formsOf([]), []);
    const kinds = Array.from({ length: 20 }, (_, seed) => sample(seed, { size, features: [] })).flatMap(
      ({ objects }) => (objects as Manifest[]).map(({ kind }) => kind),
    );
    assert.deepEqual([...new Set(kinds)].sort(), [
      'ClusterNetworkPolicy',
      'Namespace',
      'Node',
      'Pod',
      'Tier',
    ]);
  });
});

function assertCommon(found: number): void {
  assert.ok(found >= sampleCount / 5, `${found} of ${sampleCount}`);
}

function formsWith(isWanted: (feature: Feature) => boolean): string[] {
  return Object.entries(ruleForms).flatMap(([form, [feature]]) => (isWanted(feature) ? [form] : []));
}

/** Forty scenarios without flows have all forms of their features; mostly far fewer do. */
const mostDrawn = cases(320);
const leastDrawn = cases(112);

/** The forms seen in scenarios of those features: in few, and in more while one is missing. */
function formsOf(features: readonly Feature[]): string[] {
  const wanted = formsWith((feature) => features.includes(feature)).length;
  const seen = new Set<string>();
  for (let seed = 0; seed < leastDrawn || (seed < mostDrawn && seen.size < wanted); seed++) {
    const rules = rulesOf(sample(seed, { size, features, flows: 0 }));
    for (const [form, [, , isForm]] of Object.entries(ruleForms)) if (rules.some(isForm)) seen.add(form);
  }
  return Object.keys(ruleForms).filter((form) => seen.has(form));
}
