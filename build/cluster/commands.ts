import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { RealCluster } from './cluster.ts';

/**
 * A folder for a shell's PATH with `kubectl` (as administrator), and `on HOST COMMAND …` for a
 * command on a node, in the office or outside. Removed with the cluster.
 */
export async function writeCommands(cluster: RealCluster): Promise<string> {
  const bin = join(cluster.folder, 'bin');
  await mkdir(bin, { recursive: true });
  const [controlPlane] = cluster.nodes;
  if (controlPlane === undefined) throw new Error('no control plane');
  const kubectl = quoted(controlPlane.namespace.command([cluster.kubernetes, 'kubectl']));
  await write(
    join(bin, 'kubectl'),
    // Its cache belongs to the cluster too.
    `export KUBECONFIG="\${KUBECONFIG:-${cluster.kubeconfig}}" KUBECACHEDIR=${quoted([cluster.folder])}\nexec ${kubectl} "$@"`,
  );
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
