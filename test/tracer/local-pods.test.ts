/** The destinations routed to local pods, by both dataplanes. */

import assert from 'node:assert/strict';
import { iptablesRenderer } from '../../agent/render/iptables/render.ts';
import { render } from '../../agent/render/render.ts';
import type { CompiledRule } from '../../apis/compiled.ts';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { BASELINE_PRIORITY } from '../../apis/order.ts';
import { toMemberSet } from '../../lib/net/member-set.ts';
import { addressSet, compiledRule, fromSet, stateOf } from '../fake/node-state.ts';
import { iptablesTracer } from './iptables.ts';
import type { Packet } from './packet.ts';
import { tracer } from './tracer.ts';

const POD = 0x0af4_0102n;
const REMOTE = 0x0af4_0201n;
const SERVICE = 0x0a60_0009n;

const drop = compiledRule('all', { source: { direction: 'egress' } });
const block = { cidr: { family: 4, value: 0x0af4_0100n, length: 24 }, except: [] } as const;
const localPods = addressSet('local-pods', { members: toMemberSet([block], ['fd00::2']) });
const byService = { dst: SERVICE, dstPort: 80 };
const opening: Packet = {
  direction: 'egress',
  family: 4,
  src: 0x0a5a_000an,
  dst: POD,
  protocol: 6,
  srcPort: 40_000,
  dstPort: 8080,
  interface: { name: 'eth0', group: 0 },
  established: false,
  original: byService,
  isForwarded: false,
};

type Case = readonly [what: string, packet: Partial<Packet>, verdict: 'Allow' | 'Drop', isKnown?: boolean];
const CASES: readonly Case[] = [
  ['a local pod by a Service', {}, 'Allow'],
  ['where the agent does not know them', {}, 'Drop', false],
  ['a remote pod by a Service', { dst: REMOTE }, 'Drop'],
  ['a local address out by another interface, without NAT', { original: null }, 'Drop'],
  ['a local pod straight', { original: null, interface: { name: 'eth0', group: 8 } }, 'Allow'],
  ['a local pod by a Service, IPv6', { family: 6, src: 1n, dst: 0xfd00n * 2n ** 112n + 2n }, 'Allow'],
  ['a remote pod by a Service, IPv6', { family: 6, src: 1n, dst: 0xfd00n * 2n ** 112n + 3n }, 'Drop'],
];

/** A rule for egress to this address. */
function egressTo(address: string, changes: Partial<CompiledRule>, namesPods = false): CompiledRule {
  const source = { direction: 'egress', ...(namesPods ? { namesPods } : {}) } as const;
  return { ...compiledRule(`to ${address} ${namesPods}`, { source, peers: fromSet(address) }), ...changes };
}
/** A rule for a TCP port, to any address. */
const port = (number: number): Partial<CompiledRule> => ({
  services: [{ protocol: 'tcp', ports: [number, number] }],
});
const baseline = { tierPriority: BASELINE_PRIORITY };
const NAMED = [
  egressTo('10.244.1.2', {}, true),
  egressTo('10.244.1.4', { action: 'Allow', ...port(8080) }),
  { ...drop, id: 'pass', action: 'Pass', ...port(81) } as const,
  drop,
  egressTo('10.244.1.4', baseline, true),
  { ...drop, id: 'rest', ...baseline },
];
const straight = { original: null, interface: { name: 'eth0', group: 8 } } as const;
const NAMED_CASES: readonly Case[] = [
  ['a local pod by a Service', {}, 'Drop'],
  ['a local pod straight', straight, 'Drop'],
  ['another one', { ...straight, dst: POD + 1n }, 'Allow'],
  ['another one by a Service', { dst: POD + 1n }, 'Allow'],
  ['one that a rule of the baseline tier names', { ...straight, dst: POD + 2n }, 'Allow'],
  ['the same, passed', { ...straight, dst: POD + 2n, dstPort: 81 }, 'Drop'],
  ['the same by a Service', { dst: POD + 2n, dstPort: 81 }, 'Drop'],
  ['another one, passed', { dst: POD + 3n, dstPort: 81 }, 'Allow'],
  ['a remote pod, passed', { dst: REMOTE, dstPort: 81 }, 'Drop'],
];

describe('tracers: rules that name pods', () => {
  const sets = ['10.244.1.2', '10.244.1.4'].map((one) =>
    addressSet(one, { members: toMemberSet([], [one]) }),
  );
  const state = stateOf(NAMED, { localPods, addressSets: new Map(sets.map((set) => [set.id, set])) });
  for (const [what, changes, verdict] of NAMED_CASES) {
    it(what, () => {
      const packet = { ...opening, ...changes };
      const nftables = tracer(render(state, DEFAULT_CONFIG))(packet).verdict;
      const iptables = iptablesTracer(iptablesRenderer(DEFAULT_CONFIG)(state))(packet).verdict;
      assert.deepEqual([nftables, iptables], [verdict, verdict]);
    });
  }
});

describe('tracers: the exemption of local pods', () => {
  for (const [what, changes, verdict, isKnown = true] of CASES) {
    it(what, () => {
      const state = stateOf([drop], isKnown ? { localPods } : {});
      const packet = { ...opening, ...changes };
      const nftables = tracer(render(state, DEFAULT_CONFIG))(packet).verdict;
      const iptables = iptablesTracer(iptablesRenderer(DEFAULT_CONFIG)(state))(packet).verdict;
      assert.deepEqual([nftables, iptables], [verdict, verdict]);
    });
  }
});
