/**
 * One pod more at a gateway that serves many, in this network namespace: from the node's state to
 * the kernel's rules and network configuration.
 */

import { Netlink } from 'nftables-napi';
import { createLogger } from 'winston';
import { netlinkKernel } from '../../agent/apply/netlink/kernel.ts';
import { NodeRuleReconciler } from '../../agent/apply/reconciler.ts';
import { EgressReconciler } from '../../agent/egress/egress-reconciler.ts';
import { openNetwork } from '../../agent/egress/open-network.ts';
import { renderer } from '../../agent/render/render.ts';
import { emptyNodeState } from '../../apis/compiled.ts';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import type { EgressArrival, TunnelEnd } from '../../apis/egress/node-egress.ts';
import { systemClock } from '../../lib/process/clock.ts';
import { BucketMap } from '../../lib/sharing/bucket-map.ts';
import { fakeNodeEgress } from '../../test/fake/egress-objects.ts';
import { median } from '../measure/statistics.ts';
import { answer, timed, trialInput } from './trial.ts';

const { pods, nodes, changes } = trialInput<Record<'pods' | 'nodes' | 'changes', number>>();

const hex = (number: number): string => number.toString(16).padStart(2, '0');
const mac = (number: number): string => `0e:00:00:00:${hex(number >> 8)}:${hex(number & 255)}`;
/** Each node has a /22. */
const podAddress = (node: number, pod: number): string =>
  [10, node >> 6, ((node & 63) << 2) | (pod >> 8), pod & 255].join('.');

const peers = new Map(
  Array.from({ length: nodes }, (_, node): [string, TunnelEnd] => [
    `node-${node}`,
    {
      node: `node-${node}`,
      address: `172.16.${node >> 8}.${node & 255}`,
      mac: mac(node),
      networks: [`${podAddress(node, 0)}/22`],
    },
  ]),
);
const takes = [{ range: { first: 0n, last: (1n << 32n) - 1n }, take: 1 }];
const arrival = (node: number): EgressArrival => ({ node: `node-${node}`, takes });
const first = Array.from({ length: pods }, (_, i): [string, EgressArrival] => [
  podAddress(i % nodes, Math.floor(i / nodes) + 1),
  arrival(i % nodes),
]);
let arrivals = BucketMap.of(new Map(first), 1024);
const base = fakeNodeEgress({
  tunnel: { node: 'gateway', address: '127.0.0.1', mac: mac(0xffff) },
  unknownPods: 'Hold',
  peers,
  takes: new Map([[1, { kind: 'node', interface: null }]]),
});

const log = createLogger({ silent: true });
const netlink = new Netlink();
const network = openNetwork({
  config: DEFAULT_CONFIG,
  keys: null,
  log,
  clock: systemClock,
  drifted() {},
  troubled() {},
  floating: { leave: async () => {}, silence: async () => {}, verify: async () => [] },
});
const reconciler = new EgressReconciler(new NodeRuleReconciler(netlinkKernel(netlink)), network, null);
const render = renderer(DEFAULT_CONFIG, true);
const empty = emptyNodeState('gateway');

async function apply(): Promise<{ readonly rendered: number; readonly all: number }> {
  const state = { ...empty, egress: { ...base, arrivals } };
  const { result, milliseconds } = await timed(() => ({ ...render(state), egress: state.egress }));
  const applied = await timed(() => reconciler.apply(result));
  return { rendered: milliseconds, all: milliseconds + applied.milliseconds };
}

const whole = await apply();
const added: number[] = [];
const rendered: number[] = [];
for (let i = 0; i < changes; i++) {
  const node = i % nodes;
  arrivals = arrivals.with([[podAddress(node, 900), arrival(node)]], []);
  const one = await apply();
  added.push(one.all);
  rendered.push(one.rendered);
}
answer({
  first: whole.all,
  added: median(added),
  addedWorst: Math.max(...added),
  rendered: median(rendered),
  resident: process.memoryUsage().rss / 1e6,
});
await network.close();
await netlink.close();
