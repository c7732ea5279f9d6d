import { validateOptions } from '../../apis/validate/object.ts';
import { type ClusterSource, clusterSource, type Deliver } from '../watch/cluster/cluster-source.ts';
import type { Following } from '../watch/cluster/follow-object.ts';
import { Freshness } from '../watch/cluster/freshness.ts';
import type { Reflector } from '../watch/cluster/reflector.ts';
import type { ApiGet } from '../watch/cluster/transport.ts';
import type { WatchMetrics, WatchNotice } from '../watch/cluster/watch-notice.ts';
import { WATCH_TIMES } from '../watch/cluster/watch-times.ts';
import type { ControllerContext } from './controller-context.ts';

export interface ControllerWatchesOptions {
  readonly context: Pick<ControllerContext, 'kubeConfig' | 'config' | 'options' | 'log'>;
  /** Returns numbers from 0 to 1. */
  readonly random: () => number;
  readonly get: ApiGet;
  readonly notice: (notice: WatchNotice) => void;
  /** Called when all watches are proven, since `freshness.begin`, not to be behind. */
  readonly proven: () => void;
}

/** All watches of a controller: the source of objects to compile, and those of its other parts. */
export class ControllerWatches {
  readonly source: ClusterSource;
  /** This replica leads only once its watches are proven, since the election, not to be behind. */
  readonly freshness: Freshness;
  readonly #following: Following;
  readonly #reflectors: Reflector[] = [];

  constructor({ context, random, get, notice, proven }: ControllerWatchesOptions) {
    const { kubeConfig, config, options, log } = context;
    const relist = [options.relistPeriod * 1000, options.relistPeriod * 2000] as const;
    this.source = clusterSource({
      kubeConfig,
      ...validateOptions(config),
      times: { relist },
      random,
      onNotice: notice,
    });
    this.#following = { get, times: { ...WATCH_TIMES, relist }, random, notice };
    // A watch that has listed nothing yet shows nothing old.
    const watches = () => [this.source, ...this.#reflectors.filter((one) => one.isListed())];
    this.freshness = new Freshness(watches, (milliseconds) => {
      log.info('all watches are proven fresh', { milliseconds: Math.round(milliseconds) });
      proven();
    });
  }

  /** Adds watches beside the source; before the start. */
  follow(make: (following: Following) => readonly Reflector[]): void {
    this.#reflectors.push(...make(this.#following));
  }

  /** @param deliver called with the source's objects at first, and after every change */
  async start(deliver: Deliver): Promise<void> {
    for (const one of this.#reflectors) one.start();
    await this.source.start(deliver);
  }

  metrics(): readonly WatchMetrics[] {
    return [...this.source.metrics(), ...this.#reflectors.map((one) => one.metrics())];
  }

  async close(): Promise<void> {
    await Promise.all([...this.#reflectors.map((one) => one.close()), this.source.close()]);
  }
}
