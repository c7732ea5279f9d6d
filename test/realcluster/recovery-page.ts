import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { AGENT_PODS, SYSTEM_NAMESPACE, untilReady } from '../../build/cluster/install.ts';
import type { RealNode } from '../../build/cluster/real-node.ts';
import { parseMarkdown } from '../docs/markdown.ts';
import { type Bed, pods, tableOf, untilFollowed, untilTables } from './nodewall.ts';
import { reset } from './trial.ts';

const PAGE = join(import.meta.dirname, '../../docs/recovery.md');

/**
 * Policies that name the control plane's ports, so that the failsafe does not count: the only way
 * left to lock nodewall out.
 */
const LOCKS = {
  // New controllers cannot reach the API server.
  ingress: `
apiVersion: nodewall.io/v1alpha1
kind: ClusterNetworkPolicy
metadata: {name: lock}
spec:
  tier: emergency
  priority: 1
  appliedTo: [{nodeSelector: {}}]
  ingress: [{name: no-api, action: Drop, ports: [{protocol: TCP, port: 6443}]}]
`,
  // Agents cannot reach the controllers or the API server, nor names their addresses.
  egress: `
apiVersion: nodewall.io/v1alpha1
kind: ClusterNetworkPolicy
metadata: {name: lock}
spec:
  tier: emergency
  priority: 1
  appliedTo: [{nodeSelector: {}}]
  egress:
    - {name: no-control-plane, action: Drop, ports: [{protocol: TCP, port: 443}, {protocol: TCP, port: 6443}, {protocol: TCP, port: 8443}, {protocol: TCP, port: 9443}]}
    - {name: no-names, action: Drop, ports: [{protocol: UDP, port: 53}, {protocol: TCP, port: 53}]}
`,
} as const;

const isLocked = (table: string): boolean => table.includes('-lock-');

/** Until the rules are gone after a page's commands (milliseconds). */
const LIMIT = 60_000;

/** docs/recovery.md, followed on a cluster that rules lock for good. */
export class RecoveryPage {
  readonly #bed: Bed;

  constructor(bed: Bed) {
    this.#bed = bed;
  }

  get #nodes(): readonly RealNode[] {
    return this.#bed.cluster().nodes;
  }

  /**
   * Closes the control plane's ports on all nodes. Each is told to confirm that, as guarded apply
   * would take it back.
   */
  async lock(how: keyof typeof LOCKS): Promise<void> {
    const cluster = this.#bed.cluster();
    await reset(cluster);
    await cluster.apply(LOCKS[how]);
    await untilTables(cluster, 'the lock is enforced', isLocked);
    const confirm = ['--container=agent', '--', 'nodewall', 'confirm'];
    const agents = await pods(cluster, AGENT_PODS);
    await Promise.all(
      agents.map(({ metadata: { name } }) =>
        cluster.kubectlOutput(['exec', `--namespace=${SYSTEM_NAMESPACE}`, name, ...confirm]),
      ),
    );
  }

  /** Runs the blocks below a heading that are for a machine with kubectl. */
  async withKubectl(heading: string): Promise<void> {
    for (const script of await blocks(heading, 'with kubectl')) {
      const { code, stdout, stderr } = await this.#bed.shell(
        script.replace('POLICY=deny-all', 'POLICY=lock'),
      );
      assert.equal(code, 0, `${script}\n${stdout}${stderr}`);
    }
  }

  /** Runs the blocks below a heading that are for a node, on each of these. */
  async onNodes(heading: string, nodes = this.#nodes): Promise<void> {
    for (const node of nodes) {
      for (const script of await blocks(heading, 'on the node')) {
        const { code, stderr } = await node.run(['bash', '-euo', 'pipefail', '-c', script]);
        assert.equal(code, 0, `${node.name}: ${script}\n${stderr}`);
      }
    }
  }

  /** All nodes but these are locked, and have been all along. */
  async assertLocked(but: readonly RealNode[] = []): Promise<void> {
    for (const node of this.#nodes)
      if (!but.includes(node)) assert.ok(isLocked(await tableOf(node)), `${node.name} is not locked`);
  }

  async untilOpen(): Promise<void> {
    await untilTables(this.#bed.cluster(), 'no rules are left', (table) => table === '', LIMIT);
  }

  /** `filesOn`: the nodes that were opened by hand. */
  async comeBack(filesOn: readonly RealNode[] = []): Promise<void> {
    const cluster = this.#bed.cluster();
    await this.withKubectl('Delete the policy');
    await untilReady(cluster);
    if (filesOn.length > 0) await this.onNodes('Come back', filesOn);
    await this.withKubectl('Come back');
    await untilFollowed(cluster);
  }
}

/** The blocks below a heading that run on such a machine, in order. */
async function blocks(heading: string, where: 'with kubectl' | 'on the node'): Promise<string[]> {
  const all = shellBlocks(await readFile(PAGE, 'utf8')).filter((block) => block.heading === heading);
  const found = all.filter(({ script }) => script.startsWith(`# ${where}\n`)).map(({ script }) => script);
  assert.ok(found.length > 0, `docs/recovery.md has no block "${where}" below "${heading}"`);
  return found;
}

/** The `sh` fences of a document, by the heading they stand below. */
interface ShellBlock {
  /** The nearest heading, without its marks. */
  readonly heading: string;
  /** 1-based line of its first command. */
  readonly line: number;
  readonly script: string;
}

export function shellBlocks(text: string): ShellBlock[] {
  return parseMarkdown('the page', text).flatMap(({ heading, fences }) =>
    fences
      .filter(({ info }) => info === 'sh')
      .map(({ line, text }) => ({ heading, line: line + 1, script: text.trimEnd() })),
  );
}
