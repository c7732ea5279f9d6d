import type { RouteEvent } from 'nftables-napi';
import { type Closable, keepOpen } from '../../lib/process/back-off.ts';
import type { Clock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import { pace } from '../../lib/process/timers.ts';
import type { AgentMetrics, MonitorName } from './agent-metrics.ts';

/** Milliseconds between two calls of `missed` after lost events, at least. */
const MISSED_INTERVAL = 1_000;

interface LinkWatchOptions {
  readonly name: MonitorName;
  readonly node: string;
  readonly log: Log;
  readonly metrics: Pick<AgentMetrics, 'monitor'>;
  readonly clock: Clock;
  /** Opens a RouteMonitor; may throw. */
  readonly open: (listener: (events: readonly RouteEvent[]) => void) => Closable;
  /** The behaviour until the monitor is open again, for the log. */
  readonly meanwhile: string;
  /** Called with events that arrived. */
  readonly happened: (events: readonly RouteEvent[]) => void;
  /** Called when events may be missing: everything must be read again. */
  readonly missed: () => void;
}

/** Follows the kernel's events of links; a monitor that fails is opened again. */
export function watchLinks(options: LinkWatchOptions): { close(): Promise<void> } {
  const { name, node, log, metrics, clock, open, meanwhile, happened, missed } = options;
  const overruns = pace(clock, MISSED_INTERVAL, missed);
  const kept = keepOpen({
    clock,
    open(failed, isAgain) {
      const monitor = open((events) => {
        const known = events.filter(({ event }) => event !== 'error' && event !== 'overrun');
        if (known.length > 0) happened(known);
        for (const one of events) {
          if (one.event === 'error') failed(one.error);
          if (one.event !== 'overrun') continue;
          metrics.monitor(name, 'overrun');
          overruns.request();
        }
      });
      if (isAgain) {
        log.info('watching again; reading everything', { node, monitor: name });
        missed();
      }
      return monitor;
    },
    failed(error, retryIn) {
      metrics.monitor(name, 'failed');
      log.error(`cannot watch the ${name} of this machine; ${meanwhile}, opening the monitor again`, {
        node,
        monitor: name,
        error: error.message,
        retryIn,
      });
    },
  });
  return {
    async close() {
      overruns.close();
      await kept.close();
    },
  };
}
