import { IptablesError } from '../agent/apply/iptables/tools.ts';
import type { Dataplane, Dataplanes } from './dataplane.ts';
import type { Log } from './log.ts';

/**
 * What other dataplanes hold goes once the chosen one has everything in force, never before: there is no moment in which neither stands. Until then
 * a packet meets both. Returns whether nothing is left; what fails is said, and is for the caller to try again.
 */
export function succession(
  { chosen, others }: Pick<Dataplanes, 'others'> & { readonly chosen: Pick<Dataplane, 'name'> },
  node: string,
  log: Pick<Log, 'info' | 'warn'>,
): () => Promise<boolean> {
  let left = [...others];
  return async () => {
    const failed: typeof left = [];
    for (const other of left) {
      try {
        const removed = await other.remove();
        if (removed.length > 0) log.info('moved over', { node, dataplane: chosen.name, removed });
      } catch (error) {
        if (error instanceof IptablesError && error.code === 'NOT_PERMITTED') {
          // Somebody's rules are there; perhaps none of ours. Asking again gives no other answer.
          log.warn('cannot look for what another dataplane of ours may have left; nodewall cleanup can', {
            node,
            dataplane: chosen.name,
            where: other.name,
            error: error.message,
          });
          continue;
        }
        failed.push(other);
        log.warn('what another dataplane of ours left cannot be removed; both are in force, trying again', {
          node,
          dataplane: chosen.name,
          left: other.name,
          error: (error as Error).message,
        });
      }
    }
    left = failed;
    return left.length === 0;
  };
}
