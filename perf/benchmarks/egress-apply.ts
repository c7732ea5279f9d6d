import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { type EgressBed, startEgressBed } from '../../test/e2e/egress-bed.ts';
import { egressPolicy, gateway } from '../../test/kernel/egress-agents.ts';
import { SERVER } from '../../test/kernel/egress-lab.ts';
import { until } from '../../test/kernel/until.ts';
import { stop } from '../../test/netns/namespace.ts';
import { atMost, type Benchmark, figure, trials } from '../measure/figure.ts';
import { load } from '../measure/machine.ts';

const NODES = ['plain', 'gw-1', 'gw-2'] as const;
const PORT = 7_001;
const GATEWAYS = { one: 'gw-1', two: 'gw-2' } as const;

/**
 * Prints the source of each packet that has another one than the last, with the time (hrtime, ns).
 */
const LISTENER = `
const socket = require('node:dgram').createSocket('udp4');
let last = '';
socket.on('message', (_, { address }) => {
  if (address !== last) console.log(JSON.stringify({ address, at: String(process.hrtime.bigint()) }));
  last = address;
});
socket.bind(${PORT}, '${SERVER.v4}', () => console.log(JSON.stringify({ address: '', at: '0' })));
`;

/** A packet of a new connection each millisecond. */
const CALLER = `
const dgram = require('node:dgram');
setInterval(() => {
  const socket = dgram.createSocket('udp4');
  socket.on('error', () => {}).send('x', ${PORT}, '${SERVER.v4}', () => socket.close());
}, 1);
`;

export const egressApply: Benchmark = {
  name: 'egress-apply',
  title: 'an egress policy changed to steered',
  how: 'etcd, kube-apiserver, `bin/nodewall controller`, a server and three `bin/nodewall agent`s in network namespaces of this one machine. `kubectl apply` gives a policy the other gateway, by turns; its pod sends a packet of a new connection each millisecond: the time until the server sees the first one with the other gateway’s address.',
  async run(settings) {
    const before = load();
    const { kubectl, steered } = await measure(trials(settings, 20));
    const worst = (values: readonly number[]) =>
      `worst of ${values.length}: ${Math.max(...values).toFixed(0)} ms; load ${before} before, ${load()} after`;
    return [
      figure('kubectl apply of an egress policy returns to new connections steered', 'ms', steered, {
        target: atMost(150),
        note: worst(steered),
      }),
      figure('… kubectl apply itself', 'ms', kubectl),
    ];
  },
};

interface Times {
  readonly kubectl: readonly number[];
  /** From the return of kubectl; below 0: before it. */
  readonly steered: readonly number[];
}

async function measure(changes: number): Promise<Times> {
  const bed = await startEgressBed(NODES);
  const children: ChildProcess[] = [];
  try {
    await bed.setGates('NodeNetworkPolicy: true, EgressGateway: true');
    await bed.startController();
    for (const node of NODES) bed.startAgent(node);
    await bed.apply(...Object.entries(GATEWAYS).map(([name, node]) => gateway(name, [node])), policy('one'));
    await bed.untilRealized('web');
    const listener = bed.lab.server.spawn([process.execPath, '-e', LISTENER]);
    children.push(listener);
    const seen: { readonly address: string; readonly at: string }[] = [];
    createInterface({ input: listener.stdout }).on('line', (line) => void seen.push(JSON.parse(line)));
    await once(listener.stdout, 'data');
    children.push(bed.lab.pod('plain-0').namespace.spawn([process.execPath, '-e', CALLER]));
    const last = (name: keyof typeof GATEWAYS) => {
      const found = seen.at(-1);
      return found?.address === bed.lab.node(GATEWAYS[name]).v4 ? BigInt(found.at) : null;
    };
    await until('packets leave by the first gateway', async () => last('one') !== null);
    const times = { kubectl: [] as number[], steered: [] as number[] };
    for (let i = 0; i < changes; i++) {
      const name = i % 2 === 0 ? 'two' : 'one';
      const begin = process.hrtime.bigint();
      await applied(bed, policy(name));
      const end = process.hrtime.bigint();
      await until(`packets leave by ${name}`, async () => last(name) !== null);
      times.kubectl.push(Number(end - begin) / 1e6);
      times.steered.push(Number((last(name) ?? end) - end) / 1e6);
      // Its status is written, and no agent has anything to do.
      await bed.untilRealized('web');
    }
    return times;
  } finally {
    await Promise.all(children.map((child) => stop(child)));
    await bed.close();
  }
}

const policy = (to: string): object => egressPolicy('web', ['plain-0'], { gateway: to });

async function applied({ cluster }: EgressBed, object: object): Promise<void> {
  const { code, stderr } = await cluster.kubectl(['apply', '-f', '-'], { stdin: JSON.stringify(object) });
  assert.equal(code, 0, stderr);
}
