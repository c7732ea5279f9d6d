/** nodewall as an administrator installs it on the cluster. */

import { chmod, mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ROOT } from '../programs/folder.ts';
import type { RealCluster } from './cluster.ts';

export const SYSTEM_NAMESPACE = 'nodewall-system';
export const AGENT_PODS = 'app.kubernetes.io/name=nodewall-agent';
export const CONTROLLERS = 'app.kubernetes.io/name=nodewall-controller';
export const KUSTOMIZE_BASE = join(import.meta.dirname, '../../deploy/kustomize/base');

/** So long the machine may take for what takes seconds when nothing else runs (milliseconds). */
export const PATIENCE = 180_000;

/**
 * Either base by docs/cluster.md; resolves when controllers and agents are ready. The gate is off
 * then.
 */
export async function install(cluster: RealCluster, base = KUSTOMIZE_BASE): Promise<void> {
  await cluster.kubectlOutput(['apply', '--server-side', '-k', base]);
  await untilReady(cluster);
}

/** Both workloads, as `kubectl rollout status` sees them. */
export async function untilReady(cluster: RealCluster): Promise<void> {
  for (const workload of ['deployment/nodewall-controller', 'daemonset/nodewall-agent']) {
    const args = [
      'rollout',
      'status',
      workload,
      `--namespace=${SYSTEM_NAMESPACE}`,
      `--timeout=${PATIENCE / 1000}s`,
    ];
    const { code, stderr } = await cluster.kubectl(args);
    if (code !== 0) throw new Error(`${workload}: ${stderr}\n${await describeCluster(cluster)}`);
  }
}

/** The state that a person would read first where something does not come about. */
export async function describeCluster(cluster: RealCluster): Promise<string> {
  const commands = [
    ['get', 'pods', '--all-namespaces', '--output=wide'],
    ['get', 'ncnp'],
    ['logs', `--namespace=${SYSTEM_NAMESPACE}`, `--selector=${CONTROLLERS}`, '--tail=15', '--prefix'],
    ['logs', `--namespace=${SYSTEM_NAMESPACE}`, `--selector=${AGENT_PODS}`, '--tail=8', '--prefix'],
    ['get', 'events', `--namespace=${SYSTEM_NAMESPACE}`, '--field-selector=type=Warning'],
  ];
  const texts = await Promise.all(
    commands.map(async (args) => {
      const { stdout, stderr } = await cluster.kubectl(args);
      return `--- kubectl ${args.join(' ')}\n${stdout}${stderr}`;
    }),
  );
  return texts.join('\n');
}

/**
 * A folder for a shell's PATH with `kubectl` and `nodewall` of this checkout (as administrator, on
 * the control plane's network), and `on HOST COMMAND …` for a command on a node, in the office or
 * outside. Removed with the cluster.
 */
export async function writeCommands(cluster: RealCluster): Promise<string> {
  const bin = join(cluster.folder, 'bin');
  await mkdir(bin, { recursive: true });
  const [controlPlane] = cluster.nodes;
  if (controlPlane === undefined) throw new Error('no control plane');
  const commands = {
    kubectl: [cluster.kubernetes, 'kubectl'],
    nodewall: [join(ROOT, 'bin/nodewall')],
  };
  for (const [name, command] of Object.entries(commands)) {
    const inside = quoted(controlPlane.namespace.command(command));
    await write(
      join(bin, name),
      // kubectl's cache belongs to the cluster too.
      `export KUBECONFIG="\${KUBECONFIG:-${cluster.kubeconfig}}" KUBECACHEDIR=${quoted([cluster.folder])}\nexec ${inside} "$@"`,
    );
  }
  await symlink(join(ROOT, 'bin/kubectl-nodewall'), join(bin, 'kubectl-nodewall'));
  const hosts = [
    // A node that is restarted has other namespaces: its process is looked up by each call.
    ...cluster.nodes.map(({ name, initFile }) => {
      const enter = `nsenter --target "$(cat ${quoted([initFile])})" --mount --uts --ipc --net --pid`;
      return `${name}) exec ${enter} -- "$@" ;;`;
    }),
    ...[cluster.office, cluster.outside].map(
      ({ name, namespace }) => `${name}) exec ${quoted(namespace.command([]))} "$@" ;;`,
    ),
  ];
  const names = [...cluster.nodes, cluster.office, cluster.outside].map(({ name }) => name).join('|');
  await write(
    join(bin, 'on'),
    [
      `[ $# -ge 2 ] || { echo "usage: on ${names} COMMAND..." >&2; exit 2; }`,
      'host=$1; shift',
      'case $host in',
      ...hosts,
      `*) echo "on: no host $host; there are ${names}" >&2; exit 2 ;;`,
      'esac',
    ].join('\n'),
  );
  return bin;
}

async function write(path: string, script: string): Promise<void> {
  await writeFile(path, `#!/bin/sh\n${script}\n`);
  await chmod(path, 0o755);
}

/** For a shell: each word in single quotes. */
function quoted(words: readonly string[]): string {
  return words.map((word) => `'${word.replaceAll("'", String.raw`'\''`)}'`).join(' ');
}
