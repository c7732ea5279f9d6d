import { Monitor } from 'nftables-napi';
import type { Log } from '../../lib/process/log.ts';
import type { Enforcer } from '../apply/enforcer.ts';
import type { NodeRuleReconciler } from '../apply/reconciler.ts';
import { type Ruleset, TABLE } from '../render/ruleset.ts';

/** A full comparison with the kernel, besides what the monitor tells at once (milliseconds). */
const VERIFY_INTERVAL = 60_000;

interface Watched {
  readonly reconciler: NodeRuleReconciler;
  readonly enforcer: Enforcer<Ruleset>;
  readonly log: Log;
}

/**
 * Foreign changes of our table lead to a comparison at once, and one comes at a slow interval
 * besides. Returns what ends it.
 */
export function watchKernel({ reconciler, enforcer, log }: Watched): () => Promise<void> {
  const monitor = new Monitor({ family: TABLE.family, table: TABLE.name }, (event) => {
    // Our own commit's event can come before its call returns: judge it once nothing runs.
    void enforcer.idle().then(() => {
      if (event.kind === 'change' && reconciler.isOwn(event.generation)) return;
      if (event.kind === 'change') {
        log.debug('the table was changed by somebody else', {
          by: event.processName,
          generation: event.generation,
        });
      } else {
        // Events are lost: what was vouched for may have been changed since.
        reconciler.distrust();
        if (event.kind === 'error')
          log.error('the monitor failed; only the slow comparison is left', { error: event.error.message });
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
