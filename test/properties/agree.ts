import assert from 'node:assert/strict';
import { localPodsSet } from '../../agent/interfaces/local-pods.ts';
import { explain } from '../../agent/observe/explain.ts';
import type { Ruleset } from '../../agent/render/ruleset.ts';
import type { CompiledRule, NodeState } from '../../apis/compiled.ts';
import type { Config, DispatchMode } from '../../apis/config.ts';
import type { Explanation } from '../../apis/flow.ts';
import { toMemberSet } from '../../lib/net/member-set.ts';
import type { Scenario } from '../generate/scenario.ts';
import { type Answer, oracle, sameAnswer } from '../oracle/oracle.ts';
import { type Packet, toPacket } from '../tracer/packet.ts';
import { type Trace, tracer } from '../tracer/tracer.ts';
import { renderBoth, toClusterObjects, toConfig, toState } from './pipeline.ts';

/** What was seen over all cases: a property that never met a Reject says nothing of Rejects. */
export type Seen = Map<string, number>;

export function count(seen: Seen, key: string): void {
  seen.set(key, (seen.get(key) ?? 0) + 1);
}

/** What a scenario came to, for those who ask more of it. */
interface Agreed {
  readonly state: NodeState;
  readonly config: Config;
  readonly rulesets: Record<DispatchMode, Ruleset>;
  /** Of each packet that the kernel could meet. */
  readonly traces: readonly { readonly packet: Packet; readonly indexed: Trace; readonly linear: Trace }[];
}

/**
 * Asks the oracle, explain and both rulesets about every flow of a scenario: the verdict, the rule,
 * what is counted and what is recorded. An assertion fails with the first flow they differ about.
 */
export function agree(
  { objects, node, config: written, names, flows }: Scenario,
  seen: Seen,
  both: typeof renderBoth = renderBoth,
): Agreed {
  const judge = oracle({ objects, node, config: written, names });
  const { pods } = toClusterObjects(objects);
  const state = toState(objects, node, names);
  const local = toMemberSet(
    [],
    pods.filter((pod) => pod.node === node).flatMap(({ addresses }) => addresses),
  );
  const config = toConfig(written);
  const explained = explain({ ...state, localPods: localPodsSet(local) }, config);
  const rulesets = both(state, config);
  const traces: Agreed['traces'][number][] = [];
  const [indexed, linear] = [tracer(rulesets.indexed), tracer(rulesets.linear)];
  const rules = new Map(state.rules.map((rule) => [rule.id, rule]));
  // A node with Audit policies alone asks nobody for spoofed sources.
  const isGuarded = config.antiSpoofing && state.rules.some(({ mode }) => mode === 'Enforce');
  const ofPackets = { ...config, antiSpoofing: isGuarded };
  for (const flow of flows) {
    const wanted = judge(flow);
    const answer = explained(flow as Parameters<typeof explained>[0], { considered: true });
    count(seen, `explain ${wanted.verdict} ${wanted.reason}`);
    if (flow.traffic === 'NodePort') count(seen, `NodePort ${wanted.verdict} ${wanted.reason}`);
    if ([8, 'pods'].includes(flow.interfaceGroup ?? 0) && flow.direction === 'egress')
      count(seen, `local pods ${wanted.verdict} ${wanted.reason}`);
    if (flow.untracked === true) count(seen, `untracked ${wanted.verdict} ${wanted.reason}`);
    if (wanted.audited?.length) count(seen, 'audited');
    if (!sameAnswer(wanted, { ...answer, audited: answer.audited ?? [] })) {
      differ({ flow, oracle: wanted, explain: answer }, objects, written);
    }
    // The kernel judges whole packets: a flow that leaves something open is none.
    const packet = toPacket(flow as Parameters<typeof toPacket>[0], state.nodeAddresses, ofPackets, local);
    if (packet === null) continue;
    count(seen, `kernel ${wanted.verdict} ${wanted.reason}`);
    if (CARRIERS.includes(packet.protocol)) count(seen, `carrier ${wanted.verdict} ${wanted.reason}`);
    const [byIndex, byList] = [indexed(packet), linear(packet)];
    traces.push({ packet, indexed: byIndex, linear: byList });
    const isRight = (trace: Trace) =>
      isSame(wanted, trace, rules) && sameCounts(answer, trace) && isRecorded(wanted, trace, rules);
    const same = isRight(byIndex) && isRight(byList) && byIndex.tried <= byList.tried;
    if (!same)
      differ({ flow, oracle: wanted, explain: answer, indexed: byIndex, linear: byList }, objects, written);
  }
  return { state, config, rulesets, traces };
}

/** IP-in-IP, IPv6, GRE, ESP, AH, VRRP: the failsafe list may have them (docs/semantics.md, 2.4). */
const CARRIERS: readonly number[] = [4, 41, 47, 50, 51, 112];

type Rules = ReadonlyMap<string, CompiledRule>;

/**
 * The tracer knows neither tiers nor what was skipped, but the rule that decided; one that passed
 * is no decision.
 */
function isSame(wanted: Answer, { verdict, source }: Trace, rules: Rules): boolean {
  // What passed is accepted at the end of the chain it was sent to.
  const passed = [...rules.values()].some((rule) => rule.source === source && rule.action === 'Pass');
  const decided = passed ? null : source;
  return (
    verdict === wanted.verdict &&
    (decided?.policy ?? null) === wanted.policy &&
    (decided?.ruleIndex ?? null) === wanted.ruleIndex &&
    (wanted.rule === null || decided?.rule === wanted.rule)
  );
}

/** A rule's counter counts what explain says matched it: audited, passed or decided. */
function sameCounts({ considered = [] }: Explanation, { counted }: Trace): boolean {
  const matched = considered.filter(({ outcome }) => ['audited', 'passed', 'decided'].includes(outcome));
  return matched.length === counted.length;
}

/**
 * Every rule that counted the packet and is to be recorded has a record, in order, and no other
 * has. A spoofed packet is recorded if any rule has logging.
 */
function isRecorded({ reason }: Answer, { counted, recorded }: Trace, rules: Rules): boolean {
  const hasLogging = rules.values().some(({ log }) => log !== null);
  const own = reason === 'spoofed' && hasLogging ? ['nodewall spoofed'] : [];
  const wanted = counted.flatMap((id) => {
    const rule = rules.get(id);
    if (!rule?.log) return [];
    return [`nodewall ${id} ${rule.action}${rule.mode === 'Audit' ? ' audit' : ''}`];
  });
  // Copies of DNS questions are no records.
  return (
    JSON.stringify([...own, ...wanted]) ===
    JSON.stringify(recorded.filter((prefix) => prefix !== 'nodewall dns'))
  );
}

function differ(found: object, objects: readonly object[], config: object): never {
  const lines = Object.entries(found).map(([name, value]) => `${name}: ${JSON.stringify(value)}`);
  const manifests = objects.map((object) => `  ${JSON.stringify(object)}`).join('\n');
  assert.fail(`${lines.join('\n')}\nconfig: ${JSON.stringify(config)}\nobjects:\n${manifests}`);
}
