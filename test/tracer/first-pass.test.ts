/** The node's own packets in a VRF, which pass the output hook twice, in both dataplanes. */

import assert from 'node:assert/strict';
import { iptablesRenderer } from '../../agent/render/iptables/render.ts';
import { render } from '../../agent/render/render.ts';
import { type Config, DEFAULT_CONFIG } from '../../apis/config.ts';
import { compiledRule, stateOf } from '../fake/node-state.ts';
import { iptablesTracer } from './iptables.ts';
import { type Packet, VRF } from './packet.ts';
import { tracer } from './tracer.ts';

const drop = compiledRule('all', { source: { direction: 'egress' }, log: { label: '' } });
const byVrf = { interface: { name: VRF, group: 0 } } as const;
/** As the kernel shows it the first time. */
const first: Packet = {
  ...byVrf,
  direction: 'egress',
  family: 4,
  src: 0xc612_0001n,
  dst: 0xc612_0002n,
  protocol: 6,
  srcPort: 9001,
  dstPort: 40_000,
  established: false,
  isUntracked: true,
  original: null,
  isForwarded: false,
};
/** As it shows it the second time. */
const second: Packet = { ...first, interface: { name: 'eth0', group: 0 }, isUntracked: false };
const v6 = { family: 6, src: 1n, dst: 2n } as const;
const LOOPBACK_OFF: Config = {
  ...DEFAULT_CONFIG,
  exemptions: { ...DEFAULT_CONFIG.exemptions, loopback: false },
};

interface Known {
  readonly vrfs?: readonly string[];
  readonly config?: Config;
}
type Case = readonly [what: string, packet: Packet, verdict: 'Allow' | 'Drop', known?: Known];

const CASES: readonly Case[] = [
  ['is accepted by the device', first, 'Allow'],
  ['likewise in IPv6', { ...first, ...v6 }, 'Allow'],
  ['is judged by the interface', second, 'Drop'],
  ['likewise in IPv6', { ...second, ...v6 }, 'Drop'],
  ['is judged untracked by the interface', { ...second, isUntracked: true }, 'Drop'],
  ['is judged tracked by the device, by which it passes once', { ...first, isUntracked: false }, 'Drop'],
  ['is judged by a device that is not known, or has a queue', first, 'Drop', { vrfs: [] }],
  ['is judged by one of another name', first, 'Drop', { vrfs: ['red'] }],
  ['is judged by the device without the exemption', first, 'Drop', { config: LOOPBACK_OFF }],
];

describe("tracers: a node's own packet in a VRF", () => {
  for (const [what, packet, verdict, { vrfs = ['blue', VRF], config = DEFAULT_CONFIG } = {}] of CASES)
    it(what, () => {
      const state = stateOf([drop], { vrfs });
      const found = [
        tracer(render(state, config))(packet),
        iptablesTracer(iptablesRenderer(config)(state))(packet),
      ];
      const counted = verdict === 'Allow' ? [] : ['all'];
      assert.deepEqual(
        found.map((one) => [one.verdict, one.counted, one.recorded.length]),
        found.map(() => [verdict, counted, counted.length]),
      );
    });

  it('costs nodes without VRFs no rule', () => {
    const [without, with_] = [[], [VRF]].map((vrfs) => render(stateOf([drop], { vrfs }), DEFAULT_CONFIG));
    const rules = (name: string) => [without, with_].map((one) => one?.chains.get(name)?.rules.length);
    assert.deepEqual(rules('first-by-vrf'), [undefined, 1]);
    const [before, after] = rules('output');
    assert.equal((after ?? 0) - (before ?? 0), 1);
    assert.deepEqual(render(stateOf([drop]), DEFAULT_CONFIG).chains, without?.chains);
  });
});
