/** `npm run cluster`: a small cluster with nodewall for a person, until Ctrl-C. */

import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { buildBox } from './box.ts';
import { startRealCluster, versionsOf } from './cluster.ts';
import { install, writeCommands } from './install.ts';
import { POD_NETWORKS } from './pod-network.ts';
import { CONTAINERD_NAMES, chosenContainerd, chosenKubernetes, KUBERNETES_NAMES } from './versions.ts';

const HELP = `usage: npm run cluster [-- --help]
       NODEWALL_KUBERNETES=${KUBERNETES_NAMES.at(-1)} NODEWALL_CONTAINERD=${CONTAINERD_NAMES.at(-1)} npm run cluster

Starts a Kubernetes cluster of three nodes (cp-1, worker-1, worker-2) in namespaces of this machine,
with nodewall installed and its feature gate off, and keeps it until Ctrl-C. Needs root.
The first run builds Kubernetes and the images: about 20 minutes. Later ones take about a minute.
Kubernetes may be ${KUBERNETES_NAMES.join(', ')}; containerd ${CONTAINERD_NAMES.join(', ')}.
NODEWALL_POD_NETWORK may be ${Object.keys(POD_NETWORKS).join(', ')};
NODEWALL_PROXY_MODE nftables or iptables.

Example, in a second terminal, with the PATH that the first one prints:
  kubectl apply --server-side -f deploy/examples/flagship/protect-api.yaml
  kubectl apply --server-side -f deploy/gate/on.yaml
  on cp-1 nft list table inet nodewall
`;

async function main(): Promise<void> {
  const started = performance.now();
  const say = (what: string): void =>
    void process.stdout.write(
      `${((performance.now() - started) / 1000).toFixed(1).padStart(6)} s  ${what}\n`,
    );
  const [kubernetes, containerd] = [chosenKubernetes(), chosenContainerd()];
  say(`Kubernetes ${kubernetes.name}, containerd ${containerd.name}`);
  say('programs and images: from the cache, or made once');
  const box = await buildBox();
  say('programs and images are there');
  const cluster = await startRealCluster({ ...box, progress: say });
  try {
    await cluster.apply(await readFile(join(import.meta.dirname, 'manifests/echo.yaml'), 'utf8'));
    await install(cluster);
    say(await versionsOf(cluster));
    say('nodewall is installed; nothing is enforced before the gate is on');
    const bin = await writeCommands(cluster);
    process.stdout.write(`
In another terminal, as root, in this folder:
  export PATH=${bin}:$PATH
  kubectl get nodes,pods -A -o wide
  kubectl apply --server-side -f deploy/examples/flagship/protect-api.yaml -f deploy/gate/on.yaml
  nodewall status                            # or: kubectl nodewall status
  on cp-1 nft list table inet nodewall       # also: on worker-1, worker-2, office, outside

Ctrl-C ends the cluster and removes all of it.
`);
    await Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]);
    process.stdout.write('\n');
    say('ending');
  } finally {
    await cluster.close();
  }
  say('nothing is left');
}

const args = process.argv.slice(2);
if (args.includes('--help')) process.stdout.write(HELP);
else if (args.length > 0) {
  process.stderr.write(HELP);
  process.exitCode = 2;
} else if (process.getuid?.() !== 0) {
  process.stderr.write('npm run cluster: namespaces need root; run it as root\n');
  process.exitCode = 3;
} else await main();
