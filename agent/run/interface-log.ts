import type { Config } from '../../apis/config.ts';
import type { Log } from '../../lib/process/log.ts';
import { groupName, groupReasonText } from '../interfaces/classify.ts';
import type { GroupReconcilerEvents, InterfaceGroupChange } from '../interfaces/group-reconciler.ts';

/** More simultaneous changes than this are logged as one line for each group. */
const NAMED_ALONE = 5;
const NAMED = 20;

interface InterfaceLogOptions {
  readonly node: string;
  readonly config: Config;
  readonly log: Log;
}

/** The log of interface groups. */
export function interfaceLog(options: InterfaceLogOptions): Omit<GroupReconcilerEvents, 'owned' | 'known'> {
  const { node, config, log } = options;
  const refusals = new Set<string>();
  const shown = (group: number): string | number => groupName(config, group) ?? group;
  const line = (
    level: 'info' | 'debug',
    { name, index, before, group, reason }: InterfaceGroupChange,
  ): void => {
    log.log(level, group === 0 ? 'interface removed from its group' : 'interface added to its group', {
      node,
      interface: name,
      index,
      group: shown(group === 0 ? before : group),
      reason: groupReasonText(reason),
    });
  };
  return {
    changed(changes) {
      refusals.clear();
      const isBurst = changes.length > NAMED_ALONE;
      for (const change of changes) line(isBurst ? 'debug' : 'info', change);
      if (!isBurst) return;
      for (const [group, some] of Map.groupBy(changes, ({ group }) => group)) {
        log.info(group === 0 ? 'interfaces removed from their group' : 'interfaces added to their group', {
          node,
          group: shown(group),
          count: some.length,
          interfaces: some.slice(0, NAMED).map(({ name }) => name),
        });
      }
    },
    refused({ name, index, group }, error) {
      const isNew = !refusals.has(error.code);
      refusals.add(error.code);
      const advice =
        error.code === 'EPERM' ? '; this needs root, or CAP_NET_ADMIN in this network namespace' : '';
      log.log(isNew ? 'error' : 'debug', `cannot set the group of the interface${advice}`, {
        node,
        interface: name,
        index,
        group: shown(group),
        error: error.message,
      });
    },
    failed(error, retryIn) {
      log.error(`cannot list interfaces; retrying in ${retryIn / 1000} s`, { node, error: error.message });
    },
  };
}
