import assert from 'node:assert/strict';
import fc from 'fast-check';
import { type ConnectionJudge, connectionJudge } from '../../agent/connections/connection-judge.ts';
import { OwnAddresses } from '../../agent/connections/node-facts.ts';
import { explain } from '../../agent/observe/explain.ts';
import type { NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import type { Explanation, Flow } from '../../apis/flow.ts';
import { parseAddress } from '../../lib/net/address.ts';
import { NO_MEMBERS, packAddress } from '../../lib/net/member-set.ts';
import { ALL_FEATURES, scenario } from '../generate/scenario.ts';
import { count, type Seen } from './agree.ts';
import { toConfig, toState } from './pipeline.ts';
import { check, flowCount, missingOf } from './runs.ts';

const SIZES = fc.constantFrom(1, 3, 8, 20);
const PODS_ELSEWHERE = '198.18.77.77';

describe('established connections', function () {
  this.timeout(0);

  it('are judged as explain judges their first packets, by every interface that it may have been', function () {
    const seen: Seen = new Map();
    const scenarios = SIZES.chain((size) =>
      scenario({ size, flows: flowCount(100), features: ALL_FEATURES }),
    );
    check(
      this,
      80,
      scenarios,
      ({ objects, node, config: written, names, flows }) => {
        // What names stood for is not known: a test of its own.
        const { addressSets, ...rest } = toState(objects, node, names);
        const resolved = [...addressSets].map(([id, set]) => [id, { ...set, names: [] }] as const);
        const state = { ...rest, addressSets: new Map(resolved) };
        const config = toConfig(written);
        const explained = explain(state, config);
        for (const raw of flows) compare(raw as Flow, { state, config, explained }, seen);
      },
      missingOf(seen, ['kept', 'denied', 'denied by Recheck', 'NodePort denied', 'failsafe']),
    );
  });
});

interface Judges {
  readonly state: NodeState;
  readonly config: Config;
  readonly explained: (flow: Flow) => Explanation;
}

function compare(given: Flow, { state, config, explained }: Judges, seen: Seen): void {
  const made = toEntry(given, state);
  if (made === null) return;
  const { entry, own } = made;
  const pods = config.interfaceGroups.pods;
  const group = numberOf(given.interfaceGroup, config) ?? 0;
  const possible = group === pods ? [0, pods] : [group];
  const facts = {
    own: new OwnAddresses(own),
    groups: [group],
    localPods: group === pods ? null : NO_MEMBERS,
  };
  const answers = possible
    .map((interfaceGroup) => explained({ ...given, interfaceGroup }))
    .filter(({ reason }) => reason !== 'spoofed');
  const isDenied = answers.length > 0 && answers.every(({ verdict }) => verdict !== 'Allow');
  // Policies of both API groups may have the same names; an answer has no group.
  const modes = answers.map(({ policy, rule }) => {
    const named = state.rules.filter(({ source }) => source.policy === policy && source.rule === rule);
    return new Set(named.map(({ source }) => source.established === 'Recheck'));
  });
  const isAmbiguous = modes.some(({ size }) => size > 1);
  const isRechecked = modes.every((one) => one.has(true));
  // Short lists are looked through, and others found by the index: both are asked.
  for (const short of [0, Number.POSITIVE_INFINITY]) {
    const judge = (onlyRecheck: boolean): ReturnType<ConnectionJudge> =>
      connectionJudge({ state, config, facts, onlyRecheck, short })(entry);
    const all = judge(false);
    assert.equal(all !== null, isDenied, JSON.stringify({ given, answers, short }));
    if (all !== null) assert.equal(all.rule.source.rule, answers[0]?.rule);
    if (isAmbiguous) continue;
    assert.equal(judge(true) !== null, isDenied && isRechecked, JSON.stringify({ given, answers, short }));
  }
  count(seen, isDenied ? 'denied' : 'kept');
  if (isDenied && isRechecked) count(seen, 'denied by Recheck');
  if (isDenied && given.traffic === 'NodePort') count(seen, 'NodePort denied');
  if (answers.some(({ reason }) => reason === 'failsafe')) count(seen, 'failsafe');
}

function numberOf(group: Flow['interfaceGroup'], { interfaceGroups }: Config): number | undefined {
  return typeof group === 'string' ? interfaceGroups[group] : group;
}

/**
 * The entry that conntrack has for a flow; null if it has none, or would say more than the flow.
 */
function toEntry(flow: Flow, { nodeAddresses }: NodeState) {
  const { direction, traffic, src, dst, srcPort, dstPort, icmpType, icmpCode, untracked } = flow;
  if (untracked === true) return null;
  const protocol = PROTOCOLS[flow.protocol ?? ''] ?? flow.protocol;
  if (src === undefined || dst === undefined || typeof protocol !== 'number' || protocol === 2) return null;
  const hasPorts = [6, 17, 132].includes(protocol);
  if (hasPorts && (srcPort === undefined || dstPort === undefined)) return null;
  if ([1, 58].includes(protocol) && (icmpType === undefined || icmpCode === undefined)) return null;
  const isNodePort = traffic === 'NodePort';
  const [local, other] = direction === 'egress' ? [src, dst] : [dst, src];
  const own = isNodePort ? [] : [local];
  const [kernel, declared] = [new OwnAddresses(own), new OwnAddresses(nodeAddresses)];
  // Between own addresses the kernel would ask in both directions, and for an address that no
  // interface has, explain knows less than the kernel.
  const isOwn = (text: string): boolean => kernel.has(parsed(text)) || declared.has(parsed(text));
  if (isOwn(other) || (isNodePort && isOwn(src))) return null;
  const family = parsed(src).family;
  if (isNodePort && family === 6) return null;
  const originalDst = isNodePort ? dst : (flow.originalDst ?? dst);
  const originalPort = isNodePort ? dstPort : (flow.originalDstPort ?? dstPort);
  const bytes = (text: string): Uint8Array => packAddress(parsed(text));
  const common = {
    icmpType: hasPorts ? null : (icmpType ?? null),
    icmpCode: hasPorts ? null : (icmpCode ?? null),
  };
  const entry = {
    family,
    protocol,
    status: isNodePort ? 1 << 5 : 0,
    tcpState: protocol === 6 ? 3 : null,
    original: {
      ...common,
      source: bytes(src),
      destination: bytes(originalDst),
      sourcePort: hasPorts ? (srcPort ?? null) : null,
      destinationPort: hasPorts ? (originalPort ?? null) : null,
    },
    reply: {
      ...common,
      source: bytes(isNodePort ? PODS_ELSEWHERE : dst),
      destination: bytes(src),
      sourcePort: hasPorts ? (dstPort ?? null) : null,
      destinationPort: hasPorts ? (srcPort ?? null) : null,
    },
    mark: 0,
    labels: new Uint8Array(0),
    identity: [],
  };
  return { entry, own };
}

const PROTOCOLS: Readonly<Record<string, number>> = {
  icmp: 1,
  igmp: 2,
  tcp: 6,
  udp: 17,
  icmpv6: 58,
  sctp: 132,
};

function parsed(text: string) {
  const address = parseAddress(text);
  assert.ok(address !== null);
  return address;
}
