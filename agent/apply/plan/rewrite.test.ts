import assert from 'node:assert/strict';
import { DEFAULT_CONFIG } from '../../../apis/config.ts';
import { fakeNodeEgress } from '../../../test/fake/egress-objects.ts';
import { fakeKernel, listing } from '../../../test/fake/fake-kernel.ts';
import { closing, fromPods, ingress, nodeState, pod, rulesetOf } from '../../../test/fake/node-state.ts';
import { cidr, policy, tcp, udp } from '../../../test/kernel/manifests.ts';
import { render } from '../../render/render.ts';
import { type NftRule, type Ruleset, targets } from '../../render/ruleset.ts';
import { NodeRuleReconciler } from '../reconciler.ts';
import { commandText } from './command.ts';
import { stateAfter } from './current-state.ts';
import { interimRuleset, type Transaction, transaction } from './transaction.ts';

/** Enough policies for the index to have a map of ports. */
const CROWD = Array.from({ length: 20 }, (_, i) => closing(`crowd-${i}`, 3000 + 2 * i));
const PODS = ['a', 'b'].map((name, i) => pod(name, `10.1.0.${i + 1}`));

const rule = (name: string, others: object) => ingress(name, { name: 'in', action: 'Allow', ...others });
const web = (others: object = {}) => rule('web', { from: [fromPods('a')], ports: [tcp(443)], ...others });
const WEB = web();
const DROP = web({ action: 'Drop' });

/** The transaction from one list of policies to another; by default with all handles known. */
function change(from: readonly object[], to: readonly object[], known = true): Transaction {
  const current = rulesetOf([...CROWD, ...PODS, ...from]);
  const handles = new Map([...current.chains.keys()].map((name, i) => [name, 100 + i]));
  return transaction(stateAfter(current, known ? handles : new Map()), rulesetOf([...CROWD, ...PODS, ...to]));
}

const kinds = (part: Transaction[keyof Transaction]) => part.map(({ kind }) => kind);
const leadsToRule = ({ statement }: NftRule) => targets(statement).some((name) => name.includes('-web-'));
const isRewriting = ({ swap }: Transaction) => kinds(swap).includes('renameChain');

describe('a chain that is rewritten in place', () => {
  it('is written again and renamed in one transaction; no key is touched', () => {
    const { swap, ...rest } = change([WEB], [DROP]);
    assert.deepEqual(kinds(swap), ['flushChain', 'addRule', 'renameChain']);
    assert.deepEqual(Object.values(rest).flat(), []);
    const [flush, add, rename] = swap.map(commandText);
    const [, old] = /^flush chain inet nodewall (\S+)$/.exec(flush ?? '') ?? [];
    assert.ok(add?.startsWith(`add rule inet nodewall ${old} `), 'under its old name');
    assert.match(rename ?? '', new RegExp(`^rename chain inet nodewall ${old} ingress-`));
  });

  it('has its sets made before and removed after', () => {
    const { prepare, swap, collect, ...rest } = change(
      [WEB],
      [rule('web', { from: [fromPods('b')], ports: [tcp(443)] })],
    );
    assert.deepEqual(kinds(prepare), ['addSet', 'addElements']);
    assert.deepEqual(kinds(swap), ['flushChain', 'addRule', 'renameChain']);
    assert.deepEqual(kinds(collect), ['deleteSet']);
    assert.deepEqual(Object.values(rest).flat(), []);
  });

  it('renames the lists that lead to it, without new rules', () => {
    const from = (name: string, action: string) =>
      rule(name, { action, from: [fromPods(name)], ports: [tcp(80)] });
    const { swap } = change(
      [from('a', 'Allow'), from('b', 'Allow')],
      [from('a', 'Allow'), from('b', 'Drop')],
    );
    assert.deepEqual(kinds(swap).sort(), ['addRule', 'flushChain', 'renameChain', 'renameChain']);
  });

  it('also rewrites its record chain', () => {
    const logged = (others: object) => web({ enableLogging: true, ...others });
    const alone = change([logged({})], [logged({ action: 'Drop' })]).swap;
    assert.equal(
      kinds(alone).filter((kind) => kind === 'flushChain').length,
      1,
      'the rule goes where it went',
    );
    const { swap } = change([logged({})], [logged({ action: 'Drop', from: [fromPods('b')] })]);
    assert.equal(kinds(swap).filter((kind) => kind === 'renameChain').length, 2);
    const renamed = swap.flatMap((one) => (one.kind === 'renameChain' ? [one.name] : []));
    const led = swap.flatMap((one) => (one.kind === 'addRule' ? targets(one.rule.statement) : []));
    assert.deepEqual(
      led.filter((name) => name.startsWith('record-')),
      renamed.filter((name) => name.startsWith('record-')),
      'it still has its old name',
    );
  });

  it('is not rewritten in place if keys or chains change, a rule has ranges of its own, or a handle is unknown', () => {
    const ranges = rule('web', { ports: [tcp(443)], from: [cidr('10.0.0.0/8'), cidr('10.9.0.0/16')] });
    const several = (action: string) => rule('web', { action, ports: [tcp(1, 9), tcp(20, 30), tcp(443)] });
    assert.ok(!isRewriting(change([WEB], [rule('web', { from: [fromPods('a')], ports: [tcp(444)] })])));
    assert.ok(!isRewriting(change([WEB], [DROP, closing('more', 9)])));
    assert.ok(!isRewriting(change([WEB], [web({ enableLogging: true })])));
    assert.ok(!isRewriting(change([several('Allow')], [several('Drop')])));
    assert.ok(!isRewriting(change([WEB], [DROP], false)));
    assert.ok(isRewriting(change([WEB], [ranges])), 'a named set is made before');
  });

  it('is recognized with the rules that lead to it, which have its new name', async () => {
    const kernel = fakeKernel();
    const reconciler = new NodeRuleReconciler(kernel);
    for (const [policy, rewritten] of [
      [WEB, false],
      [DROP, true],
      [WEB, true],
    ] as const) {
      const desired = rulesetOf([...PODS, policy]);
      assert.equal(isRewriting((await reconciler.apply(desired)).transaction), rewritten);
      // After a foreign commit, the state is read.
      kernel.tamper(() => undefined);
      assert.deepEqual(await reconciler.verify(), []);
      assert.ok([...desired.chains.values()].some(({ rules }) => rules.some(leadsToRule)));
    }
  });

  it('ends in the same state as a fresh apply, repeatedly', async () => {
    const kernel = fakeKernel();
    const reconciler = new NodeRuleReconciler(kernel);
    const to = async (...policies: object[]) => {
      const desired = rulesetOf([...CROWD, ...PODS, ...policies]);
      const { transaction: done } = await reconciler.apply(desired);
      const fresh = fakeKernel();
      await new NodeRuleReconciler(fresh).apply(desired);
      assert.deepEqual(await listing(kernel), await listing(fresh));
      assert.deepEqual(await reconciler.verify(), []);
      return isRewriting(done);
    };
    assert.equal(await to(WEB), false);
    assert.equal(await to(DROP), true, 'the handles are known after the first apply');
    assert.equal(await to(WEB), true, 'and after a rename');
    assert.equal(await to(closing('other', 12)), false);
    kernel.tamper((table) => {
      for (const chain of table.chains.values()) if (chain.name.includes('other')) chain.rules.pop();
    });
    assert.equal((await reconciler.verify()).length > 0, true);
    assert.equal(await to(closing('other', 12)), false, 'what somebody changed is not vouched for');
    assert.equal(await to(DROP, closing('other', 12)), false);
    assert.equal(await to(WEB, closing('other', 12)), true);
  });
});

const MANY = Array.from({ length: 30 }, (_, i) => closing(`f${i}`, 1000 + i));

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
    rulesetOf(MANY),
    rulesetOf([
      ...MANY,
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
    rulesetOf([...MANY, ...dropped(FORTY)]),
    rulesetOf([
      ...MANY,
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
