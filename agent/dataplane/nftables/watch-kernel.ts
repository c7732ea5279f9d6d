import { Monitor } from 'nftables-napi';
import type { Log } from '../../../lib/process/log.ts';
import type { Enforcer } from '../../apply/enforcer.ts';
import type { NodeRuleReconciler } from '../../apply/reconciler.ts';
import { type Ruleset, TABLE } from '../../render/ruleset.ts';

/**
 * Interval of full comparisons with the kernel, besides those after events of the monitor, in
 * milliseconds.
 */
const VERIFY_INTERVAL = 60_000;

interface Watched {
  readonly reconciler: NodeRuleReconciler;
  readonly enforcer: Enforcer<Ruleset>;
  readonly log: Log;
}

/**
 * Compares right after a foreign change of our table, and at a long interval. Returns a function
 * that stops it.
 */
export function watchKernel({ reconciler, enforcer, log }: Watched): () => Promise<void> {
  const monitor = new Monitor({ family: TABLE.family, table: TABLE.name }, (event) => {
    // The event of our own commit may arrive before its call returns, so it is evaluated once no
    // call is running.
    void enforcer.idle().then(() => {
      if (event.kind === 'change' && reconciler.isOwn(event.generation)) return;
      if (event.kind === 'change') {
        log.debug('a third party changed the table inet nodewall', {
          by: event.processName,
          generation: event.generation,
        });
      } else {
        // Events were lost: a third party may have changed anything that was known.
        reconciler.invalidate();
        if (event.kind === 'error')
          log.error('the nftables monitor failed; comparing once a minute', { error: event.error.message });
      }
      enforcer.verify();
    });
  });
  const interval = setInterval(() => enforcer.verify(), VERIFY_INTERVAL);
  return async () => {
    clearInterval(interval);
    await monitor.close();
  };
}
