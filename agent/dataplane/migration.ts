import type { Log } from '../../lib/process/log.ts';
import type { Enforced } from '../apply/enforcer.ts';
import { type Dataplane, type Dataplanes, logHidden, removeEach } from './dataplane.ts';

/**
 * Removes the rules of other dataplanes once the chosen one has everything in force, never before:
 * at every moment at least one of them is enforced. Until then a packet must pass both; if that
 * lasts because a policy fails, it is logged. Such rules stay, because they may be all that
 * enforces the policy. The function returned resolves to whether no retry is needed.
 */
export function dataplaneMigration(
  { chosen, others }: Pick<Dataplanes, 'others'> & { readonly chosen: Pick<Dataplane, 'name'> },
  node: string,
  log: Pick<Log, 'info' | 'warn'>,
): (failedPolicies: Enforced['failed']) => Promise<boolean> {
  let left = [...others];
  let isSaid = false;

  async function sayOnce(policies: Enforced['failed']): Promise<void> {
    if (isSaid) return;
    isSaid = true;
    const held = await Promise.all(left.map((one) => one.holdsRules().catch(() => false)));
    const names = left.flatMap(({ name }, i) => (held[i] ? name : []));
    if (names.length === 0) return;
    log.warn(
      'the previous dataplane stays in force until every policy can be applied; until then a packet must pass both',
      { node, dataplane: chosen.name, previous: names, policies: [...policies.keys()] },
    );
  }

  return async (failedPolicies) => {
    if (failedPolicies.size > 0) {
      await sayOnce(failedPolicies);
      return true;
    }
    const { removed, hidden, failed } = await removeEach(left);
    logHidden(log, node, hidden);
    for (const { from, error } of failed) {
      log.warn('cannot remove the rules of the previous dataplane; both are in force, retrying', {
        node,
        dataplane: chosen.name,
        previous: from.name,
        error: error.message,
      });
    }
    if (removed.length > 0)
      log.info('removed the rules of the previous dataplane', { node, dataplane: chosen.name, removed });
    left = failed.map(({ from }) => from);
    return left.length === 0;
  };
}
