import { type Dataplane, type Dataplanes, removeEach, warnHidden } from './dataplane.ts';
import type { Log } from './log.ts';

/**
 * What other dataplanes hold goes once the chosen one has all in force that it can, never before: there is no moment in which neither stands. Until then
 * a packet meets both. Returns whether nothing is left; what fails is said, and is for the caller to try again.
 */
export function succession(
  { chosen, others }: Pick<Dataplanes, 'others'> & { readonly chosen: Pick<Dataplane, 'name'> },
  node: string,
  log: Pick<Log, 'info' | 'warn'>,
): () => Promise<boolean> {
  let left = [...others];
  return async () => {
    const { removed, hidden, failed } = await removeEach(left);
    warnHidden(log, node, hidden);
    for (const { from, error } of failed) {
      log.warn('what another dataplane of ours left cannot be removed; both are in force, trying again', {
        node,
        dataplane: chosen.name,
        left: from.name,
        error: error.message,
      });
    }
    if (removed.length > 0) log.info('moved over', { node, dataplane: chosen.name, removed });
    left = failed.map(({ from }) => from);
    return left.length === 0;
  };
}
