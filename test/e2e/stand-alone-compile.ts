import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestCluster } from '../cluster/cluster.ts';
import { toStableText } from '../kernel/ruleset-text.ts';
import { WarmNodewall } from '../kernel/warm.ts';
import { createNamespace, type Namespace } from '../netns/namespace.ts';

const KINDS = [
  ...['nodes', 'pods', 'namespaces', 'services', 'endpointslices', 'clusternetworkpolicies.nodewall.io'],
  ...['clustergroups.nodewall.io', 'tiers.nodewall.io'],
].join();

/** The tables that a stand-alone node has which knows the objects of a cluster. */
export class StandAloneCompile {
  readonly #cluster: TestCluster;
  /** Path of the agents' configuration. */
  readonly #config: string;
  /** Where the kernel takes each table, and gives it back as it lists tables. */
  #scratch: Namespace | undefined;
  #nodewall: WarmNodewall | undefined;
  #objects = '';
  #tables = new Map<string, string>();

  constructor(cluster: TestCluster, config: string) {
    this.#cluster = cluster;
    this.#config = config;
  }

  /** By node, as ruleset-text.ts gives it. */
  async tables(nodes: readonly string[]): Promise<ReadonlyMap<string, string>> {
    const objects = JSON.stringify(await this.#cluster.get<object>(KINDS, '--all-namespaces'));
    if (this.#objects === objects && nodes.every((node) => this.#tables.has(node))) return this.#tables;
    const path = join(this.#cluster.folder, 'objects.json');
    await writeFile(path, JSON.stringify({ apiVersion: 'v1', kind: 'List', ...JSON.parse(objects) }));
    const tables = new Map<string, string>();
    for (const node of nodes) tables.set(node, await this.#table(path, node));
    this.#objects = objects;
    this.#tables = tables;
    return tables;
  }

  async close(): Promise<void> {
    await this.#nodewall?.close();
    await this.#scratch?.close();
  }

  async #table(path: string, node: string): Promise<string> {
    this.#scratch ??= await createNamespace('compiled');
    this.#nodewall ??= new WarmNodewall(this.#scratch);
    const args = ['--manifests', path, '--node', node, '--config', this.#config, '-o', 'nft'];
    const { stdout: text } = await this.#nodewall.run('compile', ...args);
    const stdin = `table inet nodewall\ndelete table inet nodewall\n${text}`;
    await this.#scratch.run(['nft', '-f', '-'], { stdin });
    const listed = await this.#scratch.run(['nft', '-s', 'list', 'table', 'inet', 'nodewall']);
    return toStableText(listed.stdout);
  }
}
