/** The destinations routed to local pods, by both dataplanes. */
import assert from 'node:assert/strict';
import { iptablesRenderer } from '../../agent/render/iptables/render.ts';
import { render } from '../../agent/render/render.ts';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { toMemberSet } from '../../lib/net/member-set.ts';
import { addressSet, compiledRule, stateOf } from '../fake/compiled-rule.ts';
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
