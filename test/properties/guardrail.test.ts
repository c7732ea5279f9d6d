import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { Violation } from '../../apis/validate/guardrail.ts';
import { compile } from '../../controller/compile/compile.ts';
import { brokenGuardrails, checkGuardrails, withGuardrails } from '../../controller/difference/guardrails.ts';
import { nodeView } from '../../controller/publish/node-view.ts';
import { formatAddress } from '../../lib/net/address.ts';
import { type Random, seededRandom } from '../../perf/generate/random.ts';
import { ALL_FEATURES, type Scenario, scenario } from '../generate/scenario.ts';
import { parseAddress } from '../oracle/address.ts';
import { toCluster } from '../oracle/cluster.ts';
import type { Manifest, PolicyManifest, RuleManifest } from '../oracle/manifest.ts';
import { type Answer, type Flow, oracle } from '../oracle/oracle.ts';
import { count, type Seen } from './agree.ts';
import { flowsAtRules } from './flows-at-rules.ts';
import { toClusterObjects, toConfig } from './pipeline.ts';
import { check, flowCount, missingOf } from './runs.ts';
import { oracleOfFindings, toFlow, wholeFlow } from './whole-flow.ts';

const OURS = 'nodewall.io/v1alpha1';
const SIZES = fc.constantFrom(1, 3, 8, 8, 20);

type Item = Omit<RuleManifest, 'action' | 'toServices' | 'appliedTo'> & {
  readonly direction: 'ingress' | 'egress';
  readonly traffic?: string;
};

interface GuardrailManifest extends Manifest {
  readonly spec: { readonly nodeSelector: object; readonly mustAllow?: Item[]; readonly mustDeny?: Item[] };
}

describe('Guardrails', function () {
  this.timeout(0);

  it('hold where no flow breaks them, and the flow of a broken one does', function () {
    const seen: Seen = new Map();
    const drawn = SIZES.chain((size) => scenario({ size, flows: flowCount(30), features: ALL_FEATURES }));
    const cases = fc.record({ scenario: drawn, seed: fc.nat(1000) });
    check(
      this,
      30,
      fc.noShrink(cases),
      ({ scenario: one, seed }) => judge(one, seed, seen),
      missingOf(seen, EXPECTED),
    );
  });
});

const EXPECTED = [
  ...['mustAllow holds', 'mustAllow broken', 'mustDeny holds', 'mustDeny broken'],
  ...['no rule', 'a rule', 'flow in an item that holds', 'NodePort', 'IPv6', 'link group', 'failsafe'],
];

function judge(drawn: Scenario, seed: number, seen: Seen): void {
  const random = seededRandom(`guardrails ${seed}`);
  const guardrails = guardrailsOf(drawn, random);
  const objects = toClusterObjects([...drawn.objects, ...guardrails]);
  const compiled = compile(withGuardrails()(objects));
  const config = toConfig(drawn.config);
  const found = checkGuardrails(compiled, { config });
  const first = brokenGuardrails(compiled, { config });
  assert.deepEqual([...first.keys()].sort(), [...found.keys()].sort());
  const nodes = objects.nodes.slice(0, 3).map(({ name }) => name);
  for (const node of nodes) {
    const verdict = oracleOfFindings({ objects: drawn.objects, node, config: drawn.config });
    const flows = wholeFlows(
      drawn,
      node,
      random,
      flowsAtRules(nodeView(compiled, node), flowCount(60), seed),
    );
    for (const guardrail of guardrails) {
      const violations = found.get(guardrail.metadata.name) ?? [];
      for (const { item, place, mustAllow } of itemsOf(guardrail)) {
        const violation = violations.find((one) => one.node === node && one.item === place);
        const isIn = inItem(item, drawn.objects, node, drawn.config);
        const isSelected =
          oracle({
            objects: [...cast(drawn.objects), probe(guardrail.spec.nodeSelector)],
            node,
            config: BARE,
          })({ direction: 'ingress' }).verdict === 'Drop';
        const what = JSON.stringify({ node, place, item, violation });
        count(
          seen,
          `${mustAllow ? 'mustAllow' : 'mustDeny'} ${violation === undefined ? 'holds' : 'broken'}`,
        );
        if (violation !== undefined) {
          assert.ok(isSelected, what);
          assertBroken(violation, mustAllow, isIn, verdict, what);
          countViolation(violation, verdict(violation.flow as Flow), seen);
          continue;
        }
        for (const flow of isSelected ? flows.filter(isIn) : []) {
          count(seen, 'flow in an item that holds');
          const answer = verdict(flow);
          const breaks = (answer.verdict === 'Allow') !== mustAllow && !isForgiven(answer);
          assert.ok(!breaks, `${what} holds, but ${JSON.stringify({ flow, answer })}`);
        }
      }
    }
  }
}

/** Exempt flows break nothing, nor do those that pods forge. */
function isForgiven({ reason }: Answer): boolean {
  return reason === 'exempt' || reason === 'spoofed';
}

function assertBroken(
  { flow, rule }: Violation,
  mustAllow: boolean,
  isIn: (flow: Flow) => boolean,
  verdict: (flow: Flow) => Answer,
  what: string,
): void {
  const answer = verdict(flow as Flow);
  const said = `${what} is not right: ${JSON.stringify(answer)}`;
  assert.ok(isIn(flow as Flow), `${what}: the flow is not the item's`);
  assert.equal(answer.verdict === 'Allow', !mustAllow, said);
  assert.ok(!isForgiven(answer), said);
  assert.equal(rule?.policy ?? null, answer.policy, said);
  assert.equal(rule?.ruleIndex ?? null, answer.ruleIndex, said);
  if (answer.rule !== null) assert.equal(rule?.rule, answer.rule, said);
}

function countViolation({ flow, rule }: Violation, { reason }: Answer, seen: Seen): void {
  count(seen, rule === null ? 'no rule' : 'a rule');
  count(seen, reason);
  if (flow.traffic === 'NodePort') count(seen, 'NodePort');
  if (flow.src?.includes(':') === true) count(seen, 'IPv6');
  if (flow.interfaceGroup !== undefined) count(seen, 'link group');
}

/** Of the scenario's rules, some as they are, some with other ports or peers, some wide open. */
function guardrailsOf({ objects }: Scenario, random: Random): GuardrailManifest[] {
  const rules = objects.flatMap((object): { rule: RuleManifest; item: Item; node: object }[] => {
    const { kind, apiVersion, spec } = object as PolicyManifest;
    if (kind !== 'ClusterNetworkPolicy') return [];
    return (['ingress', 'egress'] as const).flatMap((direction) =>
      (spec[direction] ?? [])
        .filter(({ toServices = [] }) => toServices.length === 0)
        .map((rule) => {
          const { from, to, ports, protocols, appliedTo = spec.appliedTo ?? [] } = rule;
          const traffic = spec.traffic === 'NodePort' ? { traffic: 'NodePort' } : {};
          const peers = apiVersion === OURS || random.next() < 0.5 ? { from, to } : {};
          const services = random.next() < 0.7 ? { ports, protocols } : {};
          const item = JSON.parse(JSON.stringify({ direction, ...traffic, ...peers, ...services }));
          return { rule, item, node: appliedTo[0]?.nodeSelector ?? {} };
        }),
    );
  });
  return rules.slice(0, 12).map(({ rule, item, node }, i) => {
    const isAllowed = (rule.action === 'Allow') === random.next() < 0.7;
    return {
      apiVersion: OURS,
      kind: 'Guardrail',
      metadata: { name: `g${i}` },
      spec: { nodeSelector: random.next() < 0.5 ? node : {}, [isAllowed ? 'mustAllow' : 'mustDeny']: [item] },
    };
  });
}

function itemsOf({ spec: { mustAllow = [], mustDeny = [] } }: GuardrailManifest) {
  return [
    ...mustAllow.map((item, i) => ({ item, place: `mustAllow[${i}]`, mustAllow: true })),
    ...mustDeny.map((item, i) => ({ item, place: `mustDeny[${i}]`, mustAllow: false })),
  ];
}

/** Nothing is exempt, and nothing is failsafe traffic. */
const BARE = {
  exemptions: {
    loopback: false,
    neighborDiscovery: false,
    multicastListener: false,
    dhcpClient: false,
    localPods: false,
  },
  antiSpoofing: false,
  failsafe: { ingress: [], egress: [] },
};

function cast(objects: readonly object[]): readonly object[] {
  return objects.filter((object) => (object as Manifest).kind !== 'ClusterNetworkPolicy');
}

/** A policy that drops everything on the Nodes that a selector selects. */
function probe(nodeSelector: object): object {
  const spec = { priority: 1, appliedTo: [{ nodeSelector }], ingress: [{ action: 'Drop' }] };
  return { apiVersion: OURS, kind: 'ClusterNetworkPolicy', metadata: { name: 'probe' }, spec };
}

/** Whether the item, as a rule, matches a flow. */
function inItem(
  item: Item,
  objects: readonly object[],
  node: string,
  { interfaceGroups = {} }: Scenario['config'],
): (flow: Flow) => boolean {
  const { direction, traffic = 'Host', ...fields } = item;
  const spec = {
    priority: 1,
    appliedTo: [{ nodeSelector: {} }],
    traffic,
    [direction]: [{ ...fields, action: 'Drop' }],
  };
  const policy = { apiVersion: OURS, kind: 'ClusterNetworkPolicy', metadata: { name: 'item' }, spec };
  const verdict = oracleOfFindings({
    objects: [...cast(objects), policy],
    node,
    config: { ...BARE, interfaceGroups },
  });
  return (flow) => verdict(flow).verdict === 'Drop';
}

/** Flows of which everything is known, with another host. */
function wholeFlows(
  { objects, config, flows }: Scenario,
  node: string,
  random: Random,
  more: Flow[],
): Flow[] {
  const own = toCluster(objects).nodes.find(({ name }) => name === node)?.addresses ?? [];
  const families = ([4, 6] as const).filter((family) => own.some((one) => one.family === family));
  const isOwn = (text: string): boolean => {
    const address = parseAddress(text);
    const isLoopback = address?.family === 4 ? address.value >> 24n === 127n : address?.value === 1n;
    return (
      isLoopback || own.some(({ family, value }) => family === address?.family && value === address.value)
    );
  };
  return [...flows, ...more].flatMap((flow) => {
    const whole = wholeFlow(flow, random, config, families);
    if (whole === null || isOwn(whole.peer)) return [];
    const local = own.find(({ family }) => family === whole.family);
    return local === undefined ? [] : [toFlow(whole, formatAddress(local))];
  });
}
