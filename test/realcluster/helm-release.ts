import { join } from 'node:path';
import type { RealCluster } from '../../build/cluster/cluster.ts';
import { SYSTEM_NAMESPACE } from '../../build/cluster/install.ts';
import { packageChart } from '../../build/manifests/chart/chart-files.ts';
import { type Finished, run } from '../../build/programs/command.ts';

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
