import { Monitor, type MonitorEvent } from 'nftables-napi';
import type { Clock } from '../../../lib/process/clock.ts';
import { type Closable, keepOpen } from '../../../lib/process/keep-open.ts';
import type { Log } from '../../../lib/process/log.ts';
import { pace } from '../../../lib/process/pace.ts';
import type { Enforcer } from '../../apply/enforcer.ts';
import type { NodeRuleReconciler } from '../../apply/reconciler.ts';
import { TABLE } from '../../render/ruleset.ts';
import type { MonitorTrouble } from '../dataplane.ts';

/**
 * Interval of full comparisons with the kernel, besides those after events of the monitor, in
 * milliseconds.
 */
const VERIFY_INTERVAL = 60_000;
/**
 * Milliseconds between two full comparisons after lost events, at least: events may be lost
 * continuously while another program changes its own tables.
 */
const OVERRUN_INTERVAL = 1_000;

interface Watched {
  readonly reconciler: Pick<NodeRuleReconciler, 'isOwn' | 'invalidate'>;
  readonly enforcer: Pick<Enforcer<unknown>, 'idle' | 'verify'>;
  readonly log: Log;
  readonly clock: Clock;
  /** Counts the monitor's failures and losses. */
  readonly troubled: (trouble: MonitorTrouble) => void;
  /** Sets whose elements this agent changes beside the enforcer: their events are none. */
  readonly quietSets: readonly string[];
  /** Default: the addon's Monitor; replaced in tests. */
  readonly open?: (listener: (event: MonitorEvent) => void) => Closable;
}

/**
 * Compares right after a foreign change of our table, and at a long interval. A monitor that fails
 * is opened again. Returns a function that stops it.
 */
export function watchKernel(watched: Watched): () => Promise<void> {
  const { reconciler, enforcer, log, clock, troubled, quietSets } = watched;
  const table = { family: TABLE.family, table: TABLE.name } as const;
  const { open = (listener) => new Monitor({ ...table, quietSets }, listener) } = watched;
  /** A third party may have changed anything that was known. */
  function verifyAll(): void {
    void enforcer.idle().then(() => {
      reconciler.invalidate();
      enforcer.verify();
    });
  }
  const overruns = pace(clock, OVERRUN_INTERVAL, verifyAll);

  function take(event: Extract<MonitorEvent, { kind: 'change' }>): void {
    // The event of our own commit may arrive before its call returns, so it is evaluated once no
    // call is running.
    void enforcer.idle().then(() => {
      if (reconciler.isOwn(event.generation)) return;
      log.debug('a third party changed the table inet nodewall', {
        by: event.processName,
        generation: event.generation,
      });
      enforcer.verify();
    });
  }
  const monitor = keepOpen({
    clock,
    open(failed, isAgain) {
      const opened = open((event) => {
        if (event.kind === 'change') return take(event);
        if (event.kind === 'error') return failed(event.error);
        troubled('overrun');
        overruns.request();
      });
      if (isAgain) {
        log.info('watching the table inet nodewall again; comparing all of it', { stage: 'apply' });
        verifyAll();
      }
      return opened;
    },
    failed(error, retryIn) {
      troubled('failed');
      log.error('the nftables monitor failed; comparing once a minute, opening it again', {
        stage: 'apply',
        error: error.message,
        retryIn,
      });
    },
  });
  const interval = setInterval(() => enforcer.verify(), VERIFY_INTERVAL);
  return async () => {
    clearInterval(interval);
    overruns.close();
    await monitor.close();
  };
}
