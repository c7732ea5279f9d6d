/** Kubernetes' own tests of networks: the programs, the image of their pods, and a run of them. */
import { createHash } from 'node:crypto';
import { mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { importImage, writeImage } from '../../build/cluster/box.ts';
import type { RealCluster } from '../../build/cluster/cluster.ts';
import { PAUSE_IMAGE } from '../../build/cluster/configuration.ts';
import { writeCommands } from '../../build/cluster/install.ts';
import type { RealNode } from '../../build/cluster/real-node.ts';
import { chosenKubernetes } from '../../build/cluster/versions.ts';
import { unpackDebian } from '../../build/images/mmdebstrap.ts';
import { cached } from '../../build/programs/cache.ts';
import { output, run } from '../../build/programs/command.ts';
import { buildGoModule } from '../../build/programs/go.ts';
import { ifAbsent } from '../../lib/process/state-file.ts';

const MAIN = join(import.meta.dirname, 'kubernetes/main.go');
const IMAGE = 'docker.io/library/agnhost:test';
/** Commands that the tests run in their pods, beside those of agnhost itself. */
const PACKAGES =
  'base-files bash bind9-dnsutils conntrack coreutils curl findutils gawk grep hostname iproute2 iptables iputils-ping libc-bin netcat-openbsd procps sed util-linux wget'.split(
    ' ',
  );
/** Links that packages' scripts would make. */
const LINKS: Readonly<Record<string, string>> = {
  'bin/sh': 'bash',
  'bin/nc': 'nc.openbsd',
  'usr/bin/awk': 'gawk',
  'usr/sbin/iptables': 'xtables-nft-multi',
  'usr/sbin/ip6tables': 'xtables-nft-multi',
};
/** Images of Kubernetes that the one here, or that of the cluster's pauses, stands for. */
const STANDS_FOR = /\/(?:agnhost|busybox|pause|glibc-dns-testing|jessie-dnsutils|distroless-iptables):/;
const ARCHITECTURE = process.arch === 'x64' ? 'amd64' : process.arch;
/** Pods of tests run on the workers. */
const WORKERS = 2;
/** Tests that run at once. */
const PROCESSES = 8;

interface Spec {
  /** skipped: by itself. */
  readonly outcome: 'passed' | 'failed' | 'skipped';
  /** Why it failed or was skipped, in a line; '' where it passed. */
  readonly why: string;
}

/** By title. */
export type Specs = ReadonlyMap<string, Spec>;

export interface Suite {
  /** Folder of the programs. */
  readonly programs: string;
  /** Archive of the pods' image. */
  readonly image: string;
  /** The names that the tests know it by. */
  readonly names: readonly string[];
}

/** Programs and image, from the cache or made. */
export async function buildSuite(): Promise<Suite> {
  const { release } = chosenKubernetes();
  const programs = await buildGoModule({
    name: 'e2e',
    module: 'k8s.io/kubernetes',
    version: `v${release}`,
    files: [MAIN],
    programs: ['.', 'github.com/onsi/ginkgo/v2/ginkgo', 'k8s.io/kubernetes/test/images/agnhost'],
    takes: `Kubernetes' own tests, ${release}, some minutes after Kubernetes was built`,
  });
  const agnhost = join(programs, 'agnhost');
  const key = createHash('sha256').update(await readFile(agnhost));
  key.update(await readFile(import.meta.filename));
  const folder = await cached('agnhost', key.digest('hex').slice(0, 16), async (fresh) => {
    const base = join(fresh, 'base');
    await mkdir(base);
    await unpackDebian(base, PACKAGES, [ARCHITECTURE]);
    for (const [path, to] of Object.entries(LINKS)) await output(['ln', '-sf', to, join(base, path)]);
    await writeFile(join(base, 'etc/passwd'), 'root:x:0:0:root:/root:/bin/bash\n');
    await writeFile(join(base, 'etc/group'), 'root:x:0:\n');
    await mkdir(join(base, 'uploads'));
    const parts = { name: IMAGE, entrypoint: ['/agnhost'], arguments: ['pause'] };
    await writeImage({ ...parts, base, files: { agnhost } }, join(fresh, 'agnhost.tar'));
    await output(['rm', '-rf', base]);
  });
  const all = await output([join(programs, 'programs'), 'images']);
  const names = all.split('\n').filter((name) => STANDS_FOR.test(name));
  return { programs, image: join(folder, 'agnhost.tar'), names };
}

interface RunOptions {
  /** Regular expressions of Go on titles. */
  readonly focus: string;
  readonly skip: string;
}

/** Runs tests; resolves with those that began. */
type RunSuite = (options: RunOptions) => Promise<Specs>;

/**
 * Gives a cluster what the tests need. They run on its control plane's network, as administrator.
 */
export async function prepareSuite(cluster: RealCluster, suite: Suite): Promise<RunSuite> {
  for (const node of cluster.nodes) await importImages(node, suite);
  const [controlPlane] = cluster.nodes;
  if (controlPlane === undefined) throw new Error('no control plane');
  const folder = join(cluster.folder, 'e2e');
  await mkdir(folder);
  // ginkgo takes a file of this name for tests that are compiled.
  const program = join(folder, 'e2e.test');
  await symlink(join(suite.programs, 'programs'), program);
  const kubectl = join(await writeCommands(cluster), 'kubectl');
  const settings = [
    ...[`--kubeconfig=${cluster.kubeconfig}`, `--kubectl-path=${kubectl}`, '--provider=skeleton'],
    ...[`--num-nodes=${WORKERS}`, '--dump-logs-on-failure=false'],
  ];
  return async ({ focus, skip }) => {
    const argv = [
      ...[join(suite.programs, 'ginkgo'), 'run', `-procs=${PROCESSES}`, '--no-color', '--timeout=40m'],
      ...[`--focus=${focus}`, `--skip=${skip}`, '--json-report=report.json', `--output-dir=${folder}`],
      ...[program, '--', ...settings],
    ];
    await rm(join(folder, 'report.json'), { force: true });
    const { code, stdout, stderr } = await run(controlPlane.namespace.command(argv), { cwd: folder });
    const report = await readFile(join(folder, 'report.json'), 'utf8').catch(ifAbsent);
    if (report === null)
      throw new Error(`ginkgo ended with status ${code}:\n${(stdout + stderr).slice(-4000)}`);
    return specsOf(report);
  };
}

/** By the names that the tests know. */
async function importImages(node: RealNode, { image, names }: Suite): Promise<void> {
  await importImage(node, image);
  for (const name of names) {
    const from = name.includes('/pause:') ? PAUSE_IMAGE : IMAGE;
    const argv = ['ctr', '--namespace=k8s.io', 'images', 'tag', '--force', from, name];
    const { code, stderr } = await node.run(argv);
    if (code !== 0) throw new Error(`${argv.join(' ')} on ${node.name}: ${stderr}`);
  }
}

interface GinkgoSuite {
  readonly SpecReports: readonly {
    readonly ContainerHierarchyTexts: readonly string[] | null;
    readonly LeafNodeType: string;
    readonly LeafNodeText: string;
    /** passed, failed, skipped, timedout, …: types.SpecState of ginkgo. */
    readonly State: string;
    readonly RunTime: number;
    readonly Failure?: { readonly Message: string };
  }[];
}

/** The tests that began, of ginkgo's JSON report (types.Report). */
export function specsOf(report: string): Specs {
  const suites: readonly GinkgoSuite[] = JSON.parse(report);
  const specs = new Map<string, Spec>();
  for (const {
    ContainerHierarchyTexts,
    LeafNodeType,
    LeafNodeText,
    State,
    RunTime,
    Failure,
  } of suites.flatMap(({ SpecReports }) => SpecReports)) {
    // Tests that were not chosen are there as skipped, and took no time.
    if (LeafNodeType !== 'It' || RunTime === 0 || State === 'pending') continue;
    const title = [...(ContainerHierarchyTexts ?? []), LeafNodeText].join(' ');
    const outcome = State === 'passed' || State === 'skipped' ? State : 'failed';
    const [why = ''] = (Failure?.Message ?? '').split('\n', 1);
    specs.set(title, { outcome, why });
  }
  return specs;
}
