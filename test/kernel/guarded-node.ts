import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Dataplane } from './dataplane.ts';
import { createEnforcedNode, type EnforcedNode, type RunningAgent } from './enforced-node.ts';
import { cidr, policy, tcp } from './manifests.ts';
import { listen } from './talk.ts';
import { until } from './until.ts';

/** The port of the other host that the probes need. */
export const PORT = 4443;

/** A name server on this host is not probed. */
const NAMES = { servers: ['127.0.0.1'] };
const QUICK = { window: 1, failAfter: 1 };

interface Remembered {
  readonly trial: object | null;
  readonly holds: readonly { readonly key: string; readonly isBrief: boolean }[];
}

/** A node with guarded apply, whose probes connect to a client, by IPv4 and by IPv6. */
export class GuardedNode {
  readonly node: EnforcedNode;
  #agent: RunningAgent | null = null;

  /** @param program starts the agent; absent: bin/nodewall */
  static async create(dataplane: Dataplane, program?: () => string): Promise<GuardedNode> {
    const node = await createEnforcedNode(undefined, dataplane, program);
    const [client] = node.topology.clients;
    assert.ok(client);
    await listen(client, [PORT]);
    return new GuardedNode(node);
  }

  private constructor(node: EnforcedNode) {
    this.node = node;
  }

  get agent(): RunningAgent {
    assert.ok(this.#agent);
    return this.#agent;
  }

  async start(guard: object = {}): Promise<void> {
    const [first] = this.node.topology.plan.clientAddresses;
    const probes = [
      { name: 'v4', tcp: `${first?.v4}:${PORT}` },
      { name: 'v6', tcp: `[${first?.v6}]:${PORT}` },
      { name: 'nobody', http: `http://${first?.v4}:${PORT + 1}/` },
    ];
    const config = { names: NAMES, guard: { ...QUICK, enabled: true, probes, ...guard } };
    this.#agent = this.node.start(...(await this.node.configure(config)));
  }

  /** The agent of a cluster, where guarded apply is on by default. */
  async follow(
    controller: URL,
    options: readonly string[],
    guard: object = QUICK,
    names: object = NAMES,
  ): Promise<void> {
    const config = await this.node.configure({ names, guard });
    this.#agent = this.node.follow(controller, ...options, ...config);
  }

  async end(): Promise<void> {
    await this.agent.end('SIGKILL');
  }

  /** A change that denies nothing, or only what no probe needs. */
  async open(port: number, action: 'Allow' | 'Drop' = 'Allow'): Promise<void> {
    await this.node.write('open.json', [policy('open', { ingress: [{ action, ports: [tcp(port)] }] })]);
  }

  /** A change that cuts the probes of a family off, or all. */
  async cut(marker: number, family?: 4 | 6): Promise<void> {
    const to = family === undefined ? {} : { to: [cidr(family === 4 ? '0.0.0.0/0' : '::/0')] };
    const rule = { name: 'out', action: 'Drop', ...to, ports: [tcp(PORT), tcp(marker)] } as const;
    await this.node.write('cut.json', [policy('cut', { egress: [rule] })]);
  }

  /** What the guard remembers, as JSON; empty: nothing. */
  async memory(): Promise<string> {
    const text = await this.file('guard.json');
    return text.slice(text.indexOf('\n') + 1);
  }

  /** What the guard remembers. */
  async remembered(): Promise<Remembered> {
    const { trial = null, holds = [] } = JSON.parse((await this.memory()) || '{}') as Partial<Remembered>;
    return { trial, holds };
  }

  /** The times (milliseconds since 1970) of the log's lines with this message, oldest first. */
  times(message: string): number[] {
    return this.agent
      .log()
      .split('\n')
      .filter((line) => line.includes(`"message":"${message}`))
      .map((line) => Date.parse((JSON.parse(line) as { timestamp: string }).timestamp));
  }

  /** Waits until the agent has logged a text so many times. */
  async says(text: string, times = 1): Promise<void> {
    const { agent } = this;
    await until(`the agent says ${text}`, async () => agent.log().split(text).length > times, {
      detail: agent.log,
    });
  }

  async has(text: string): Promise<boolean> {
    return (await this.node.rules()).includes(text);
  }

  async file(name: string): Promise<string> {
    return await readFile(join(this.node.stateDir, name), 'utf8').catch(() => '');
  }

  async close(): Promise<void> {
    await this.#agent?.end('SIGKILL');
    await this.node.close();
  }
}
