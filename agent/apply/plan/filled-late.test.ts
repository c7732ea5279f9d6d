import assert from 'node:assert/strict';
import { DEFAULT_CONFIG } from '../../../apis/config.ts';
import { fakeNodeEgress } from '../../../test/fake/node-egress.ts';
import { closing, nodeState, rulesetOf } from '../../../test/fake/node-state.ts';
import { cidr, policy, tcp, udp } from '../../../test/kernel/manifests.ts';
import { render } from '../../render/render.ts';
import { type Ruleset, targets } from '../../render/ruleset.ts';
import { stateAfter } from './current-state.ts';
import { interimRuleset, type Transaction, transaction } from './transaction.ts';

const CROWD = Array.from({ length: 30 }, (_, i) => closing(`f${i}`, 1000 + i));

/** 443 of each address, to be dropped. */
const dropped = (addresses: readonly number[]) =>
  addresses.map((i) =>
    policy(`p${i}`, {
      priority: 20,
      ingress: [{ name: 'a', action: 'Drop', from: [cidr(`198.51.100.${i}/32`)], ports: [tcp(443)] }],
    }),
  );
const FORTY = Array.from({ length: 40 }, (_, i) => i);

function egress(sources: Readonly<Record<string, string>>, ids: readonly string[]): Ruleset {
  const all = { first: 0n, last: 0xffff_ffffn };
  const node = fakeNodeEgress({
    unknownPods: 'Hold',
    sources: new Map(Object.entries(sources)),
    classes: new Map(ids.map((id) => [id, { id, ipv4: [{ range: all, outcome: `o${id}` }], ipv6: [] }])),
    outcomes: new Map(
      ids.map((id) => [
        `o${id}`,
        {
          id: `o${id}`,
          policy: { apiGroup: 'nodewall.io', kind: 'ClusterEgressPolicy', namespace: '', name: id },
          audited: [],
          action: { kind: 'drop', reason: 'policy' },
        },
      ]),
    ),
  });
  const featureGates = { ...DEFAULT_CONFIG.featureGates, EgressGateway: true };
  return render({ ...nodeState(), egress: node }, { ...DEFAULT_CONFIG, featureGates });
}

const CHANGES: Readonly<Record<string, readonly [from: Ruleset, to: Ruleset]>> = {
  'the first Pass rule': [
    rulesetOf(CROWD),
    rulesetOf([
      ...CROWD,
      policy('base', {
        tier: 'baseline',
        priority: 9,
        ingress: [{ name: 'deny', action: 'Drop', ports: [tcp(443)] }],
      }),
      policy('web', {
        ingress: [
          { name: 'pass', action: 'Pass', from: [cidr('198.51.100.0/24')], ports: [tcp(443)] },
          { name: 'all', action: 'Allow', ports: [tcp(443)] },
        ],
      }),
    ]),
  ],
  'maps that lose keys while chains around them change': [
    rulesetOf([...CROWD, ...dropped(FORTY)]),
    rulesetOf([
      ...CROWD,
      ...dropped(FORTY.slice(1)),
      policy('any', {
        priority: 90,
        ingress: [
          { name: 'x', action: 'Drop', from: [cidr('203.0.113.0/24')], ports: [tcp(443)] },
          { name: 'u', action: 'Drop', ports: [udp(5)] },
        ],
      }),
    ]),
  ],
  'a pod of another class of egress gateways': [
    egress({ '10.1.0.1': 'A', '10.1.0.9': 'A' }, ['A']),
    egress({ '10.1.0.1': 'B', '10.1.0.9': 'A' }, ['A', 'B']),
  ],
};

/** Chains that get rules in the transaction to which one of its keys leads. */
function foundEmpty({ swap }: Transaction, { chains }: Ruleset): string[] {
  const filled = new Set(swap.flatMap((one) => (one.kind === 'addRule' ? [one.chain] : [])));
  const reached = new Set(
    swap.flatMap((one) => (one.kind === 'addElements' ? (one.verdicts ?? []) : [])).map(({ chain }) => chain),
  );
  for (const name of reached)
    for (const { statement } of chains.get(name)?.rules ?? [])
      for (const next of targets(statement)) reached.add(next);
  return [...reached].filter((name) => filled.has(name));
}

describe('chains that a key leads to', () => {
  for (const [title, [from, to]] of Object.entries(CHANGES))
    it(`are complete one transaction before: ${title}`, () => {
      const current = stateAfter(from, new Map([...from.chains.keys()].map((name, i) => [name, i + 1])));
      const step = interimRuleset(current, to) ?? to;
      const change = transaction(current, step);
      assert.ok(change.swap.some(({ kind }) => kind === 'addElements'));
      assert.deepEqual(foundEmpty(change, step), []);
    });
});
