import { createInterface } from 'node:readline/promises';
import { nodeNames } from '../controller/kubeapi/ask-nodes.ts';
import type { KubeApi } from '../controller/kubeapi/kube-api.ts';
import { type BundleManifest, SupportBundle } from '../lib/process/bundle.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { VERSION } from '../lib/process/version.ts';
import { hasKubeconfig, withCluster } from './cluster-api.ts';
import type { MachineOptions, Printed } from './command-options.ts';
import { loadConfig } from './load.ts';
import { errorText, json, print } from './output.ts';
import { oneLine } from './record-text.ts';

interface BundleOptions extends MachineOptions, Printed<'text' | 'json'> {
  readonly kubeconfig?: string;
  readonly node?: readonly string[];
  readonly machine: boolean;
  readonly yes: boolean;
  readonly withFlows: boolean;
  readonly file?: string;
}

/** Characters of a line about what is missing; a reason has at most 500. */
const MOST_WHY = 600;
/** From so many nodes on, somebody must have wanted it. */
const ASK_BEYOND = 20;

/**
 * `nodewall bundle`: what maintainers need to know, in one file without secrets. Exit status 3 if
 * nothing could be had.
 */
export async function bundleCommand(options: BundleOptions): Promise<ExitStatus> {
  const config = await loadConfig(options.config);
  const { kubeconfig, node, machine, withFlows } = options;
  if (machine && (kubeconfig !== undefined || node !== undefined))
    throw new CommandError(EXIT.usage, 'give either --machine, or --kubeconfig and --node');
  if (machine || (node === undefined && !hasKubeconfig(kubeconfig)))
    return await written(options, async (bundle) => {
      const { collectMachine } = await import('../agent/bundle/machine-bundle.ts');
      await collectMachine({ bundle, stateDir: options.stateDir, config, withFlows });
    });
  const { collectCluster } = await import('../controller/bundle/cluster-bundle.ts');
  return await withCluster(kubeconfig, async (request) => {
    const { nodes, problem } = await nodesOf(request, options);
    return await written(options, async (bundle) => {
      if (problem !== null) bundle.missing('nodes', problem);
      await collectCluster({ request, bundle, nodes, withFlows, progress });
    });
  });
}

/** Where no controller answers, no node can be asked; the rest is collected all the same. */
async function nodesOf(
  request: KubeApi,
  { node, yes }: BundleOptions,
): Promise<{ readonly nodes: readonly string[]; readonly problem: string | null }> {
  let nodes: readonly string[];
  try {
    nodes = await nodeNames(request);
  } catch (error) {
    // A user who names Nodes need not be able to list them.
    if (node !== undefined) return { nodes: [...new Set(node)], problem: null };
    return { nodes: [], problem: (error as Error).message };
  }
  const unknown = node?.find((name) => !nodes.includes(name));
  if (unknown !== undefined)
    throw new CommandError(EXIT.invalid, `--node: the cluster has no Node ${JSON.stringify(unknown)}`);
  if (node !== undefined) return { nodes: [...new Set(node)], problem: null };
  if (nodes.length > ASK_BEYOND && !yes && !(await isWanted(nodes.length)))
    throw new CommandError(
      EXIT.usage,
      `the cluster has ${nodes.length} nodes: give --yes for all, or --node for some`,
    );
  return { nodes, problem: null };
}

async function isWanted(nodes: number): Promise<boolean> {
  if (!process.stdin.isTTY || !process.stderr.isTTY) return false;
  const asking = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return /^y(?:es)?$/i.test((await asking.question(`Collect from all ${nodes} nodes? [y/N] `)).trim());
  } finally {
    asking.close();
  }
}

async function written(
  { file, output }: BundleOptions,
  collect: (bundle: SupportBundle) => Promise<void>,
): Promise<ExitStatus> {
  const now = Date.now();
  const name =
    file ?? `nodewall-bundle-${new Date(now).toISOString().slice(0, 19).replaceAll(':', '')}Z.tar.gz`;
  const bundle = new SupportBundle(name, { version: VERSION, now });
  let manifest: BundleManifest & { readonly bytes: number };
  try {
    await collect(bundle);
    manifest = await bundle.close();
  } catch (error) {
    throw new CommandError(EXIT.refused, `cannot write the bundle: ${(error as Error).message}`, {
      cause: error,
    });
  }
  const { bytes, parts, missing, leftOut } = manifest;
  if (process.stderr.isTTY) process.stderr.write('\r\u001b[K');
  if (output === 'json') await print(json({ file: name, bytes, parts, missing, leftOut }));
  else {
    for (const { what, why } of missing)
      process.stderr.write(errorText(oneLine(`missing: ${what}: ${why}`, MOST_WHY)));
    await print(
      `${name}: ${parts.length} files, ${bytes} bytes, ${missing.length} missing (manifest.json).\n`,
    );
  }
  return parts.length === 0 ? EXIT.refused : EXIT.done;
}

function progress(done: number, all: number): void {
  if (process.stderr.isTTY) process.stderr.write(`\r${done} of ${all} pods and nodes\u001b[K`);
}
