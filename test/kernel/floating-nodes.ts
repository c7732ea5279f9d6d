/** Nodes of a lab for egress gateways that have floating addresses, with leases given by hand. */
import { once } from 'node:events';
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { clusterObjects, EGRESS_CONFIG } from './egress-agents.ts';
import type { EgressLab } from './egress-lab.ts';

interface Said {
  readonly id?: number;
  readonly result?: unknown;
  readonly error?: string;
  readonly enforced?: readonly string[];
  readonly failed?: string;
  readonly drifted?: readonly string[];
}

/** One node: a process of floating-child.ts. */
class FloatingNode {
  readonly #child;
  readonly #waiting = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>();
  readonly drifts: string[] = [];
  #enforced = Promise.withResolvers<void>();
  #last = 0;
  #log = '';

  constructor(lab: EgressLab, node: string, manifests: string, config: string) {
    const program = join(import.meta.dirname, 'floating-child.ts');
    this.#child = lab.node(node).namespace.spawn([process.execPath, program, node, manifests, config]);
    this.#child.stderr.on('data', (part) => (this.#log += String(part)));
    createInterface(this.#child.stdout).on('line', (line) => this.#hear(JSON.parse(line)));
    this.#child.on('exit', () => {
      for (const { reject } of this.#waiting.values()) reject(new Error(`${node} ended: ${this.#log}`));
    });
  }

  log(): string {
    return this.#log;
  }

  /** Reads the manifests; resolves once they are in force. */
  async load(): Promise<void> {
    this.#enforced = Promise.withResolvers();
    await this.#call('load');
    await this.#enforced.promise;
  }

  async read(): Promise<readonly string[]> {
    return ((await this.#call('read')) as { address: string }[]).map(({ address }) => address).sort();
  }

  /** @param lease milliseconds; returns the MACs of conflicts, or 'late' */
  async take(addresses: readonly string[], lease: number): Promise<readonly string[] | 'late'> {
    const found = (await this.#call('take', addresses, lease)) as 'late' | { mac: string }[];
    return found === 'late' ? found : found.map(({ mac }) => mac);
  }

  /** Returns those that have ended. */
  async renew(addresses: readonly string[], lease: number): Promise<readonly string[]> {
    return (await this.#call('renew', addresses, lease)) as string[];
  }

  async drop(addresses: readonly string[]): Promise<void> {
    await this.#call('drop', addresses);
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    this.#child.kill('SIGKILL');
    await once(this.#child, 'exit');
  }

  #call(call: string, addresses: readonly string[] = [], lease = 0): Promise<unknown> {
    const id = ++this.#last;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    this.#waiting.set(id, { resolve, reject });
    this.#child.stdin.write(`${JSON.stringify({ id, call, addresses, lease })}\n`);
    return promise;
  }

  #hear({ id, result, error, enforced, failed, drifted }: Said): void {
    if (drifted !== undefined) this.drifts.push(...drifted);
    if (failed !== undefined) this.#enforced.reject(new Error(failed));
    if (enforced !== undefined) this.#enforced.resolve();
    const waiting = this.#waiting.get(id ?? 0);
    if (error === undefined) waiting?.resolve(result);
    else waiting?.reject(new Error(`${error}\n${this.#log.slice(-2000)}`));
  }
}

export interface FloatingNodes {
  node(name: string): FloatingNode;
  /** Starts a node's process, again if it was killed. */
  start(name: string): FloatingNode;
  write(name: string, objects: readonly object[]): Promise<void>;
  close(): Promise<void>;
}

export async function floatingNodes(lab: EgressLab): Promise<FloatingNodes> {
  const folder = await mkdtemp(join(tmpdir(), 'nodewall-floating-'));
  const [manifests, config] = [join(folder, 'manifests'), join(folder, 'config.yaml')];
  await mkdir(manifests);
  await writeFile(config, JSON.stringify(EGRESS_CONFIG)); // JSON is YAML
  const nodes = new Map<string, FloatingNode>();
  const write = async (name: string, items: readonly object[]): Promise<void> => {
    const fresh = join(folder, name);
    await writeFile(fresh, JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));
    await rename(fresh, join(manifests, name));
  };
  await write('cluster.json', clusterObjects(lab));
  return {
    write,
    node(name) {
      const node = nodes.get(name);
      if (node === undefined) throw new Error(`no node ${name}`);
      return node;
    },
    start(name) {
      const node = new FloatingNode(lab, name, manifests, config);
      nodes.set(name, node);
      return node;
    },
    async close() {
      await Promise.all([...nodes.values()].map((node) => node.kill()));
      await rm(folder, { recursive: true, force: true });
    },
  };
}
