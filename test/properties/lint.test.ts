import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { Compiled, CompiledRule, NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import type { NodeFinding } from '../../apis/lint/finding.ts';
import { compile } from '../../controller/compile/compile.ts';
import { clusterDifference } from '../../controller/difference/cluster-difference.ts';
import { clusterLint } from '../../controller/difference/cluster-lint.ts';
import { formatAddress } from '../../lib/net/address.ts';
import { seededRandom } from '../../perf/generate/random.ts';
import { ALL_FEATURES, type Scenario, scenario } from '../generate/scenario.ts';
import { parseAddress } from '../oracle/address.ts';
import type { PolicyManifest } from '../oracle/manifest.ts';
import type { Answer, Flow } from '../oracle/oracle.ts';
import { count, type Seen } from './agree.ts';
import { flowsAtRules } from './flows-at-rules.ts';
import { resolver, toClusterObjects, toConfig, toState } from './pipeline.ts';
import { check, flowCount, missingOf } from './runs.ts';
import { oracleOfFindings, toFlow, wholeFlow } from './whole-flow.ts';

const SIZES = fc.constantFrom(1, 3, 8, 8, 20);

describe('findings about rules', function () {
  this.timeout(0);

  it('are those of the oracle: verdicts with and without the rule, and of each flow', function () {
    const seen: Seen = new Map();
    const drawn = SIZES.chain((size) => scenario({ size, flows: flowCount(40), features: ALL_FEATURES }));
    check(this, 100, fc.noShrink(drawn), (one) => judge(one, seen), missingOf(seen, EXPECTED));
  });

  it('are exactly the rules without which nothing differs', function () {
    const seen: Seen = new Map();
    const drawn = fc
      .constantFrom(1, 3, 6)
      .chain((size) => scenario({ size, flows: 0, features: ALL_FEATURES }));
    check(
      this,
      60,
      fc.noShrink(drawn),
      (one) => compareWithDifference(one, seen),
      missingOf(seen, ['no effect', 'effect', 'decides', 'decides nothing']),
    );
  });
});

const EXPECTED = [
  // Random rules are seldom wider than each other: test/cases/lint.md has that.
  ...['unreachable', 'selects-nothing', 'no-effect', 'partly-shadowed', 'failsafe'],
  ...['several rules', 'flow', 'no flow', 'verdicts without', 'NodePort', 'IPv6', 'Audit'],
];

function findingsOf({ objects, node, names }: Scenario, config: Config): NodeFinding[] {
  return clusterLint(compile(toClusterObjects(objects)), { config, node, resolve: resolver(names) });
}

function judge(drawn: Scenario, seen: Seen): void {
  const { objects, node, config, names } = drawn;
  const found = findingsOf(drawn, toConfig(config));
  const verdict = oracleOfFindings({ objects, node, config, names });
  const state = toState(objects, node, names);
  const answers = wholeFlows(drawn, state).map((flow) => ({ flow, answer: verdict(flow) }));
  const byName = Map.groupBy(policiesOf(objects), ({ metadata }) => metadata.name);
  for (const finding of found) {
    // An answer does not tell two policies of one name apart.
    if ([finding, ...finding.rules].some(({ policy }) => byName.get(policy)?.length !== 1)) continue;
    count(seen, finding.kind);
    if (finding.rules.length > 1) count(seen, 'several rules');
    count(seen, finding.flow === null ? 'no flow' : 'flow');
    if (byName.get(finding.policy)?.[0]?.spec.mode === 'Audit') count(seen, 'Audit');
    if (finding.flow?.traffic === 'NodePort') count(seen, 'NodePort');
    if (finding.flow?.src?.includes(':') === true) count(seen, 'IPv6');
    const decides = ({ policy, ruleIndex }: Answer, flow: Flow): boolean =>
      finding.direction === flow.direction && isRule(finding, policy, ruleIndex);
    if (finding.kind === 'unreachable' || finding.kind === 'selects-nothing') {
      const wrong = answers.find(({ flow, answer }) => decides(answer, flow));
      assert.equal(wrong, undefined, JSON.stringify({ finding, wrong }));
    }
    const without = oracleOfFindings({ objects: withoutRule(objects, finding), node, config, names });
    if (finding.kind === 'no-effect' || finding.kind === 'unreachable') {
      for (const { flow, answer } of answers) {
        count(seen, 'verdicts without');
        const what = JSON.stringify({ finding, flow, answer });
        assert.equal(without(flow).verdict, answer.verdict, what);
      }
    }
    assertShown(finding, { verdict, without, objects });
  }
}

/** Flows of which everything is known, with another host. */
function wholeFlows({ flows, config }: Scenario, state: NodeState): Flow[] {
  const random = seededRandom(`lint ${flows.length}`);
  const own = state.nodeAddresses.flatMap((text) => parseAddress(text) ?? []);
  const families = ([4, 6] as const).filter((family) => own.some((one) => one.family === family));
  const isOwn = (text: string): boolean => {
    const peer = parseAddress(text);
    const isLoopback = peer?.family === 4 ? peer.value >> 24n === 127n : peer?.value === 1n;
    return isLoopback || own.some(({ family, value }) => family === peer?.family && value === peer.value);
  };
  return [...flows, ...flowsAtRules(state, flowCount(100), flows.length)].flatMap((flow) => {
    const whole = wholeFlow(flow, random, config, families);
    const local = own.find(({ family }) => family === whole?.family);
    return whole === null || local === undefined || isOwn(whole.peer)
      ? []
      : toFlow(whole, formatAddress(local));
  });
}

interface Judges {
  readonly verdict: (flow: Flow) => Answer;
  readonly without: (flow: Flow) => Answer;
  readonly objects: readonly object[];
}

/** The flow of a finding shows it. */
function assertShown(finding: NodeFinding, { verdict, without, objects }: Judges): void {
  const { kind, flow, rules } = finding;
  if (flow === null) return;
  const answer = verdict(flow as Flow);
  const what = JSON.stringify({ finding, answer });
  const isOwn = isRule(finding, answer.policy, answer.ruleIndex);
  const isOther = rules.some((rule) => isRule(rule, answer.policy, answer.ruleIndex));
  const action = (rule: { policy: string; ruleIndex: number }): string | undefined =>
    policiesOf(objects).find(({ metadata }) => metadata.name === rule.policy)?.spec[finding.direction]?.[
      rule.ruleIndex
    ]?.action;
  const passes = [finding, ...rules].some((rule) => action(rule) === 'Pass');
  switch (kind) {
    case 'unreachable':
      assert.ok(!isOwn, what);
      if (rules.length === 0) assert.ok(['exempt', 'spoofed'].includes(answer.reason), what);
      else if (!passes) assert.ok(isOther, what);
      return;
    case 'no-effect':
      if (!passes) assert.ok(isOwn, what);
      assert.equal(without(flow as Flow).verdict, answer.verdict, what);
      return;
    case 'partly-shadowed':
      assert.ok(isOther, what);
      assert.notEqual(action(finding), answer.verdict, what);
      return;
    case 'wider':
      assert.ok(isOwn, what);
      return;
    case 'failsafe':
      assert.equal(answer.reason, 'failsafe', what);
      assert.ok(
        answer.skipped?.some(({ policy }) => policy === finding.policy),
        what,
      );
      return;
    case 'selects-nothing':
      assert.fail(what);
  }
}

function isRule(
  rule: { policy: string; ruleIndex: number },
  policy: string | null,
  index: number | null,
): boolean {
  return rule.policy === policy && rule.ruleIndex === index;
}

function policiesOf(objects: readonly object[]): PolicyManifest[] {
  return objects.filter(
    (object) => (object as PolicyManifest).kind === 'ClusterNetworkPolicy',
  ) as PolicyManifest[];
}

function withoutRule(objects: readonly object[], { policy, direction, ruleIndex }: NodeFinding): object[] {
  return objects.map((object) => {
    const one = object as PolicyManifest;
    if (one.kind !== 'ClusterNetworkPolicy' || one.metadata.name !== policy) return object;
    const rules = (one.spec[direction] ?? []).filter((_, i) => i !== ruleIndex);
    return { ...one, spec: { ...one.spec, [direction]: rules } };
  });
}

/** Whether a rule has an effect, or decides: by the difference to the state without it. */
function compareWithDifference({ objects, node, config: written, names }: Scenario, seen: Seen): void {
  const config = toConfig(written);
  const compiled = compile(toClusterObjects(objects));
  const resolve = { before: resolver(names), after: resolver(names) };
  const differs = (before: Compiled, after: Compiled): boolean =>
    clusterDifference(before, after, { config, node, resolve }).groups.length > 0;
  const found = clusterLint(compiled, { config, node, resolve: resolver(names) });
  const kindsOf = ({ source }: CompiledRule): readonly string[] =>
    found
      .filter((one) => isRule(one, source.policy, source.ruleIndex) && one.direction === source.direction)
      .map(({ kind }) => kind);
  if (new Set(compiled.policies.map(({ name }) => name)).size < compiled.policies.length) return;
  // A rule for names is left alone if they have no addresses.
  const isNamed = ({ peers }: CompiledRule): boolean =>
    peers.some((peer) => peer.kind === 'addresses' && compiled.addressSets.get(peer.set)?.names.length !== 0);
  const rules = compiled.policies.flatMap((policy) =>
    policy.rules.filter((rule, i) => rule.mode === 'Enforce' && policy.spans[i]?.has(node) && !isNamed(rule)),
  );
  const isAnyUnreachable = found.some(({ kind }) => kind === 'unreachable');
  for (const rule of rules) {
    const kinds = kindsOf(rule);
    const what = JSON.stringify({ rule, kinds });
    const isFree = kinds.includes('unreachable') || kinds.includes('selects-nothing');
    if (rule.action === 'Drop' || rule.action === 'Reject') {
      const action = rule.action === 'Drop' ? 'Reject' : 'Drop';
      const other = changed(compiled, (one) => (one === rule ? { ...one, action } : one));
      const decides = differs(compiled, other);
      count(seen, decides ? 'decides' : 'decides nothing');
      // A rule that the failsafe list skips everywhere has no other finding.
      if (!kinds.includes('failsafe')) assert.equal(decides, !isFree, what);
    }
    if (isFree || rule.log !== null || rule.source.established !== undefined) continue;
    const hasEffect = differs(
      compiled,
      changed(compiled, (one) => (one === rule ? null : one)),
    );
    count(seen, hasEffect ? 'effect' : 'no effect');
    if (hasEffect) assert.ok(!kinds.includes('no-effect'), what);
    // Without the rule, one may decide that decides nothing with it; the last one ends
    // anti-spoofing.
    else if (rules.length > 1 && !isAnyUnreachable && !kinds.includes('failsafe'))
      assert.ok(kinds.includes('no-effect'), what);
  }
}

function changed(compiled: Compiled, to: (rule: CompiledRule) => CompiledRule | null): Compiled {
  const policies = compiled.policies.map((policy) => {
    const kept = policy.rules.flatMap((rule, i) => {
      const next = to(rule);
      return next === null ? [] : [{ rule: next, span: policy.spans[i] ?? new Set<string>() }];
    });
    return { ...policy, rules: kept.map(({ rule }) => rule), spans: kept.map(({ span }) => span) };
  });
  return { ...compiled, policies };
}
