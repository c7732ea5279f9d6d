import type { NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import { namedBy } from '../../apis/rule-peer.ts';
import type { Log } from '../../lib/process/log.ts';

/** Group numbers by name. */
export type LinkGroups = Readonly<Record<string, number>>;

/** The named link groups that these rules use. */
export function usedLinkGroups({ rules }: NodeState, { interfaceGroups }: Config): LinkGroups {
  const used: Record<string, number> = {};
  for (const name of namedBy(rules).interfaceGroups) {
    const number = typeof name === 'string' ? interfaceGroups[name] : undefined;
    if (number !== undefined) used[name] = number;
  }
  return used;
}

/**
 * If a name was removed from the configuration while a policy uses it, it keeps its last number:
 * otherwise the policy would be invalid, and traffic that it closes would be open after a restart.
 */
export function withLastLinkGroups(config: Config, last: LinkGroups, log: Log): Config {
  const lost = Object.entries(last).filter(([name]) => !Object.hasOwn(config.interfaceGroups, name));
  for (const [name, group] of lost) {
    log.warn(
      'policies name an interface group that the configuration lacks; its last number is used. Remove it from the policies, or add it to the configuration',
      { name, group },
    );
  }
  return { ...config, interfaceGroups: { ...Object.fromEntries(lost), ...config.interfaceGroups } };
}
