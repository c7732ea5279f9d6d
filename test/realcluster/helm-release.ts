/** The chart one version before this one, from git, and its images. */

import { join } from 'node:path';
import type { RealCluster } from '../../build/cluster/cluster.ts';
import { SYSTEM_NAMESPACE } from '../../build/cluster/install.ts';
import { buildImages, type Images } from '../../build/images/build.ts';
import { packageChart } from '../../build/manifests/chart/chart-files.ts';
import { cached } from '../../build/programs/cache.ts';
import { type Finished, run } from '../../build/programs/command.ts';
import { missingCommit, unpackCommit } from '../skew/previous-release.ts';

const RELEASE = 'nodewall';

/** The chart of this checkout, or another, as a release of one cluster, by Helm itself. */
export class HelmRelease {
  readonly #cluster: RealCluster;
  readonly #helm: string;

  /** @param helm path of the program */
  constructor(cluster: RealCluster, helm: string) {
    this.#cluster = cluster;
    this.#helm = helm;
  }

  async install(...settings: readonly string[]): Promise<void> {
    await this.installChart(await this.#ownChart(), ...settings);
  }

  /** As install(), of another chart, by its folder. */
  async installChart(chart: string, ...settings: readonly string[]): Promise<void> {
    await this.#output('install', RELEASE, chart, '--create-namespace', ...set(settings));
  }

  async upgrade(...settings: readonly string[]): Promise<void> {
    await this.#output('upgrade', RELEASE, await this.#ownChart(), '--reset-values', ...set(settings));
  }

  async rollback(revision: number): Promise<void> {
    await this.#output('rollback', RELEASE, String(revision));
  }

  /** A failure is no error here. */
  uninstall(...options: readonly string[]): Promise<Finished> {
    return this.#run('uninstall', RELEASE, ...options);
  }

  /** That of this checkout, which belongs to the cluster. */
  async #ownChart(): Promise<string> {
    const folder = join(this.#cluster.folder, 'chart');
    await packageChart(folder);
    return folder;
  }

  async #output(...args: readonly string[]): Promise<string> {
    const { code, stdout, stderr } = await this.#run(...args);
    if (code !== 0) throw new Error(`helm ${args.join(' ')}: status ${code}\n${stderr}${stdout}`);
    return stdout;
  }

  #run(...args: readonly string[]): Promise<Finished> {
    const { folder, kubeconfig, nodes } = this.#cluster;
    const [controlPlane] = nodes;
    if (controlPlane === undefined) throw new Error('no control plane');
    const options = [`--kubeconfig=${kubeconfig}`, `--namespace=${SYSTEM_NAMESPACE}`];
    return run(controlPlane.namespace.command([this.#helm, ...args, ...options]), {
      // Its caches belong to the cluster.
      env: { ...process.env, HOME: folder },
    });
  }
}

function set(settings: readonly string[]): string[] {
  return settings.flatMap((setting) => ['--set', setting]);
}

/**
 * Nothing has been released yet. This is the first commit with a chart: before the hook of
 * uninstall, the ValidatingAdmissionPolicies, gates that are turned off node by node, and metrics
 * through the controllers. Replaced by the tag of each release.
 */
const PREVIOUS = 'afe5c5bbdb55f6b8d67a7c3c4acae7fb7a8a6c5e';

export interface PreviousChart {
  /** Folder of the chart. */
  readonly chart: string;
  /** Tag of its images. */
  readonly tag: string;
  readonly images: Images;
}

/** From the cache, or made: its images take a minute or two. */
export async function previousChart(): Promise<PreviousChart> {
  const missing = await missingCommit(PREVIOUS);
  if (missing !== null) throw new Error(missing);
  const tag = `previous-${PREVIOUS.slice(0, 8)}`;
  const root = await cached('previouschart', PREVIOUS.slice(0, 16), (folder) =>
    unpackCommit(PREVIOUS, folder),
  );
  return { chart: join(root, 'deploy/chart'), tag, images: await buildImages({ root, tag }) };
}
