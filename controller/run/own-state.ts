import { hostname } from 'node:os';
import type { ControllerState } from '../../apis/controller-state.ts';
import { VERSION } from '../../lib/process/version.ts';
import { formatMissingRight, type RbacRule } from '../kubeapi/rbac-rule.ts';
import type { WatchMetrics } from '../watch/cluster/watch-notice.ts';
import type { ControllerContext } from './controller-context.ts';
import type { Lifecycle } from './lifecycle.ts';

export interface OwnStateSources {
  readonly context: Pick<ControllerContext, 'options' | 'listen'>;
  readonly life: Lifecycle;
  readonly isLeading: boolean;
  readonly missingRights: readonly RbacRule[];
  readonly gates: ControllerState['gates'];
  readonly revision: string;
  readonly streams: number;
  readonly others: readonly string[];
  /** Milliseconds since 1970; null: there is no certificate. */
  readonly certificateExpires: number | null;
  readonly statusesWaiting: number;
  readonly leftOutServices: readonly string[];
  readonly watches: readonly WatchMetrics[];
  readonly metrics: string;
  readonly date: Date;
}

/** This controller's own state. */
export function ownState(sources: OwnStateSources): ControllerState {
  const { context, life, missingRights, certificateExpires, watches, date, ...rest } = sources;
  const { rss, heapUsed } = process.memoryUsage();
  return {
    name: context.options.podName ?? `${context.listen.host ?? hostname()}:${context.listen.port}`,
    version: VERSION,
    nodejs: process.version,
    time: date.toISOString(),
    uptime: Math.round(process.uptime()),
    memory: { rss, heapUsed },
    isStopping: life.isEnding || life.isOver,
    missingRights: missingRights.map(formatMissingRight),
    certificateExpires: certificateExpires === null ? null : new Date(certificateExpires).toISOString(),
    watches: watches.map(({ lacks: _, bookmarks: __, lastEvent, ...counts }) => ({
      ...counts,
      lastEvent: lastEvent === null ? null : new Date(lastEvent).toISOString(),
    })),
    ...rest,
  };
}
