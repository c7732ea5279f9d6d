/** docs/compatibility.md, made of the results. */
import {
  CONTAINERD_NAMES,
  chosenContainerd,
  chosenKubernetes,
  KUBERNETES_NAMES,
} from '../../cluster/versions.ts';
import { CONNECTION_COMBINATIONS } from './connections.ts';
import { CLUSTER_SUITES, KERNELS, MATRIX_SUITES } from './matrix.ts';
import type { Cell, ClusterCell, ConnectionCell, Recorded, SuiteCell } from './results.ts';

const HEAD = `# Compatibility

<!-- Made from build/manifests/compatibility by \`npm run generate\`; edit there. -->

Suites of the project in virtual machines with other kernels, those of Debian's releases, and with another kind of
processor; the system beside them is the same in all, Debian 12. Each cell has the number of tests, the date, and the
revision of the repository (\`+\`: with changes that were not committed). \`npm run test:long -- guests\` runs them and
records the results here ([test/guests](../test/guests/README.md)).

Each cell says how: with Debian's image, by the processors of a machine with KVM (\`virtual\`) or by an emulated
processor (\`emulated\`); or with a kernel made of Debian's source and its options for networks, as a program of the
machine (\`user mode\`). The last two have one processor: they say nothing of speed, nor of what happens between
processors.

A cell that says "not run" claims nothing. The suites run on the machine of the developers too (Linux 6.18) with each
\`npm test\`, as far as its kernel has what they need; of \`others\` one of each kind.
`;

const OF_CLUSTERS = `## Clusters

The stories of [test/realcluster](../test/realcluster/README.md) on the machine of the developers, whose cgroups are
those of version 1, with [a cluster](../build/cluster/README.md) of each combination of Kubernetes and containerd, runc
1.1 and kube-proxy in its nftables mode. \`npm run test:long -- versions\` runs them and records the results here; each
\`npm test\` runs those of Kubernetes ${chosenKubernetes({}).name} with containerd ${chosenContainerd({}).name}.
`;

const OF_CONNECTIONS = `## Connections

By NodePort (both \`externalTrafficPolicy\`, to pods and to pods on the host's network), load balancer, external IP,
cluster IP, \`hostPort\`, to pods and to ports of the host: each from an office, another network, two nodes and a pod on
each of these, by TCP and UDP, IPv4 and IPv6, in a fresh [cluster](../build/cluster/README.md). They are made without
nodewall, under rules that allow all, and under a default deny with exact allowances, and [a
table](../test/realcluster/connections/table.ts) says by the semantics what becomes of each: 616 connections three
times, 152 where nothing gives Services addresses. \`npm run test:long -- --grep connections\` runs them and records the
results here. kube-proxy's mode \`ipvs\` was not tried: the kernel lacks it.
`;

const OF_SUITES = `## Tests of others

Kubernetes' own tests of networks and of the kubelet's probes ([test/peers](../test/peers/README.md)), but for those of
features that the cluster lacks, and of the pods' own network policies: without nodewall, and while it enforces [a
default deny](../test/peers/default-deny.yaml) on all nodes. Counted are those that pass without it. \`npm run test:long
-- peers\` runs them and records the results here. The nearest peer's own cases of node policies are written in our
words in [test/cases/antrea-nodes.md](../test/cases/antrea-nodes.md), and run with real packets in each dataplane.
`;

interface CompatibilityResults {
  readonly cells: readonly Cell[];
  readonly clusters: readonly ClusterCell[];
  readonly connections: readonly ConnectionCell[];
  readonly suites: readonly SuiteCell[];
}

/** Equal results are equal bytes. */
export function compatibilityPage(results: CompatibilityResults): string {
  const { cells, clusters, connections, suites } = results;
  const matrix = table(
    ['suite', ...KERNELS.map(({ name, title }) => headOf(title, name, cells))],
    MATRIX_SUITES.map(({ name, shows }) => [`**${name}**: ${shows}`, ...cellsOf(name, cells)]),
  );
  return [
    HEAD,
    matrix,
    '',
    ...section('Failed', ['suite', 'Linux', 'test'], failuresOf(cells)),
    '',
    ...section('Skipped', ['suite', 'Linux', 'why'], skipsOf(cells)),
    '',
    OF_CLUSTERS,
    ...CLUSTER_SUITES.flatMap(({ name, shows }) => [
      `**${name}**: ${shows}`,
      '',
      clustersTable(name, clusters),
      '',
    ]),
    ...clusterFailures(clusters),
    OF_CONNECTIONS,
    connectionsTable(connections),
    '',
    ...connectionFailures(connections),
    OF_SUITES,
    ...suitesTables(suites),
  ].join('\n');
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [head, head.map(() => '---'), ...rows];
  return lines.map((fields) => `| ${fields.join(' | ')} |`).join('\n');
}

/** A kernel's title, with the releases that were tried. */
function headOf(title: string, name: string, cells: readonly Cell[]): string {
  const releases = cells.filter(({ kernel }) => kernel === name).map(({ release }) => release);
  return [title, ...[...new Set(releases)].sort()].join('<br>');
}

function cellsOf(suiteName: string, cells: readonly Cell[]): string[] {
  return KERNELS.map(({ name }) => {
    const cell = cells.find(({ kernel, suite }) => kernel === name && suite === suiteName);
    return cell === undefined ? textOf(cell) : `${textOf(cell)}, ${cell.guest}`;
  });
}

/** A row for each version of Kubernetes. */
function clustersTable(suite: string, all: readonly ClusterCell[]): string {
  const cells = all.filter((cell) => cell.suite === suite);
  const rows = KUBERNETES_NAMES.map((kubernetes) => [
    `Kubernetes ${kubernetes}`,
    ...CONTAINERD_NAMES.map((containerd) => {
      const cell = cells.find((one) => one.kubernetes === kubernetes && one.containerd === containerd);
      return [...(cell?.node ? [cell.node] : []), textOf(cell)].join('<br>');
    }),
  ]);
  return table(['', ...CONTAINERD_NAMES.map((name) => `containerd ${name}`)], rows);
}

function clusterFailures(cells: readonly ClusterCell[]): string[] {
  const rows = cells.flatMap(({ suite, kubernetes, containerd, failures }) =>
    failures.map((failure) => [
      suite,
      `Kubernetes ${kubernetes}, containerd ${containerd}`,
      inTable(failure),
    ]),
  );
  return rows.length === 0 ? [] : ['Failed:', '', table(['suite', 'cluster', 'test'], rows), ''];
}

function connectionsTable(cells: readonly ConnectionCell[]): string {
  const rows = CONNECTION_COMBINATIONS.map(({ network, proxy, dataplane }) => {
    const cell = cells.find(
      (one) => one.network === network && one.proxy === proxy && one.dataplane === dataplane,
    );
    return [network, proxy === 'none' ? 'none' : `kube-proxy, ${proxy}`, dataplane, textOf(cell)];
  });
  return table(['network of pods', 'proxy of Services', 'nodewall', 'connections as they should be'], rows);
}

function connectionFailures(cells: readonly ConnectionCell[]): string[] {
  const rows = cells.flatMap(({ network, proxy, dataplane, failures }) =>
    failures.map((failure) => [[network, proxy, dataplane].join(', '), inTable(failure)]),
  );
  return rows.length === 0 ? [] : ['Failed:', '', table(['cluster', 'connection'], rows), ''];
}

function suitesTables(cells: readonly SuiteCell[]): string[] {
  if (cells.length === 0) return ['Not run.', ''];
  const rows = cells.map((cell) => [cell.suite, cell.node, cell.dataplane, textOf(cell)]);
  const failed = cells.flatMap(({ dataplane, failures }) =>
    failures.map((failure) => [`fails with ${dataplane} alone`, inTable(failure)]),
  );
  const others = new Set(cells.flatMap(({ failWithout }) => failWithout));
  const all = [...failed, ...[...others].map((title) => ['fails without nodewall', inTable(title)])];
  return [
    table(['tests', 'cluster', 'nodewall', 'of those that pass without'], rows),
    '',
    ...(all.length === 0 ? [] : [table(['', 'test'], all), '']),
  ];
}

function textOf(cell: Recorded | undefined): string {
  if (cell === undefined) return 'not run';
  const { result, passed, failed, skipped, date, revision } = cell;
  const counts = [`${passed} passed`];
  if (failed > 0) counts.push(`**${failed} failed**`);
  if (skipped > 0) counts.push(`${skipped} skipped`);
  const text = result === 'unfinished' ? '**did not end**' : counts.join(', ');
  return `${text}<br>${date}, ${revision}`;
}

function section(title: string, head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  return [`## ${title}`, rows.length === 0 ? 'None of what was run.' : table(head, rows)];
}

function failuresOf(cells: readonly Cell[]): string[][] {
  return cells.flatMap(({ suite, release, failures }) =>
    failures.map((failure) => [suite, release, inTable(failure)]),
  );
}

/** Each reason of a suite once, with the kernels that have it. */
function skipsOf(cells: readonly Cell[]): string[][] {
  const all = cells.flatMap(({ suite, release, skips }) => skips.map((why) => ({ suite, release, why })));
  return [...Map.groupBy(all, ({ suite, why }) => JSON.stringify([suite, why])).values()].map((found) => {
    const [{ suite, why } = { suite: '', why: '' }] = found;
    return [suite, found.map(({ release }) => release).join(', '), inTable(why)];
  });
}

/** Text of tests, which is no Markdown. */
function inTable(text: string): string {
  return text.replaceAll(/\s+/g, ' ').replaceAll(/[\\`*_<>|[\]]/g, '\\$&');
}
