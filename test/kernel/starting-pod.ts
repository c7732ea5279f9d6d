/** Pods that start again and again on one node of a lab for egress gateways, as CNI does it. */
import { once } from 'node:events';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { EgressAgents } from './egress-agents.ts';
import { type EgressLab, type LabPod, SERVER, SERVER_PORT } from './egress-lab.ts';

const PLUGIN = join(import.meta.dirname, '../../agent/nftables-napi/build/Release/nodewall-egress');

/**
 * For each line `HOST` of input: connects, and prints after how many milliseconds it is connected.
 */
const CALLER = `
const { connect } = require('node:net');
require('node:readline').createInterface({ input: process.stdin }).on('line', (host) => {
  const start = performance.now();
  connect(${SERVER_PORT}, host).on('error', () => {}).on('connect', () => console.log(performance.now() - start));
});
console.log('up');`;

const COUNT = `table inet calls { chain output { type filter hook output priority 0;
  tcp dport ${SERVER_PORT} tcp flags & (syn|ack) == syn counter
}\n}\n`;

export interface Incarnation {
  readonly name: string;
  readonly uid: string;
  /** The label `pod`, by which policies select. */
  readonly label: string;
}

/** A pod's place: network namespace and addresses, which one pod after another has. */
export class StartingPod {
  readonly #lab: EgressLab;
  readonly #agents: EgressAgents;
  readonly place: LabPod;
  #caller: ReturnType<LabPod['namespace']['spawn']> | null = null;
  #lines: AsyncIterator<string> | null = null;

  constructor(lab: EgressLab, agents: EgressAgents, place: string) {
    this.#lab = lab;
    this.#agents = agents;
    this.place = lab.pod(place);
  }

  /** Starts the program that connects. */
  async prepare(): Promise<void> {
    const { namespace } = this.place;
    await namespace.run(['nft', '-f', '-'], { stdin: COUNT });
    this.#caller = namespace.spawn([process.execPath, '-e', CALLER]);
    this.#lines = createInterface({ input: this.#caller.stdout })[Symbol.asyncIterator]();
    await this.#lines.next();
  }

  async close(): Promise<void> {
    const caller = this.#caller;
    if (caller === null || caller.exitCode !== null || caller.signalCode !== null) return;
    caller.kill();
    await once(caller, 'close');
  }

  /** The manifest; `isRunning`: with addresses in the status. */
  object({ name, uid, label }: Incarnation, isRunning: boolean): object {
    const { node, v4, v6 } = this.place;
    return {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, uid, namespace: 'default', labels: { pod: label } },
      spec: { nodeName: node },
      status: isRunning ? { phase: 'Running', podIPs: [{ ip: v4 }, { ip: v6 }] } : { phase: 'Pending' },
    };
  }

  /** Writes what libcni leaves at the end of ADD. */
  async addResult(pod: Incarnation): Promise<void> {
    const text = JSON.stringify({
      kind: 'cniCacheV1',
      containerId: pod.uid,
      config: '',
      ifName: 'eth0',
      networkName: 'net',
      cniArgs: cniArgs(pod),
      result: this.#result(),
    });
    await writeFile(this.#file(pod), text);
  }

  async removeResult(pod: Incarnation): Promise<void> {
    await rm(this.#file(pod));
  }

  /** Calls the CNI plugin on the node; resolves with what it prints. */
  async plugin(command: 'ADD' | 'DEL' | 'CHECK', pod: Incarnation): Promise<string> {
    const { namespace } = this.#lab.node(this.place.node);
    const config = {
      cniVersion: '1.0.0',
      name: 'net',
      type: 'nodewall-egress',
      socket: join(this.#agents.stateDir(this.place.node), 'cni/agent.sock'),
      prevResult: this.#result(),
    };
    const env = {
      CNI_COMMAND: command,
      CNI_CONTAINERID: pod.uid,
      CNI_IFNAME: 'eth0',
      CNI_NETNS: '/proc/self/ns/net',
      CNI_PATH: '/opt/cni/bin',
      CNI_ARGS: cniArgs(pod)
        .map((pair) => pair.join('='))
        .join(';'),
    };
    const result = await namespace.run([PLUGIN], {
      env: { ...process.env, ...env },
      stdin: JSON.stringify(config),
      anyStatus: true,
    });
    return result.stdout;
  }

  /**
   * Connects to the server now; returns after how many milliseconds it was connected, and the SYNs.
   */
  async connect(family: 4 | 6): Promise<{ milliseconds: number; syns: number }> {
    const before = await this.#syns();
    this.#caller?.stdin.write(`${family === 4 ? SERVER.v4 : SERVER.v6}\n`);
    const late = setTimeout(() => this.#caller?.kill(), 15_000);
    const { value } = (await this.#lines?.next()) ?? {};
    clearTimeout(late);
    return { milliseconds: Number(value), syns: (await this.#syns()) - before };
  }

  async #syns(): Promise<number> {
    const { stdout } = await this.place.namespace.run(['nft', 'list', 'table', 'inet', 'calls']);
    return Number(/packets (\d+)/.exec(stdout)?.[1]);
  }

  #result(): object {
    const { v4, v6 } = this.place;
    return {
      cniVersion: '1.0.0',
      interfaces: [{ name: 'veth0' }, { name: 'eth0', sandbox: '/var/run/netns/x' }],
      ips: [
        { address: `${v4}/24`, interface: 1 },
        { address: `${v6}/64`, interface: 1 },
      ],
    };
  }

  #file({ uid }: Incarnation): string {
    return join(this.#agents.cniResults(this.place.node), `net-${uid}-eth0`);
  }
}

function cniArgs({ name, uid }: Incarnation): [string, string][] {
  return [
    ['IgnoreUnknown', '1'],
    ['K8S_POD_NAMESPACE', 'default'],
    ['K8S_POD_NAME', name],
    ['K8S_POD_INFRA_CONTAINER_ID', uid],
    ['K8S_POD_UID', uid],
  ];
}
