import type { NodeState } from '../../apis/compiled.ts';
import type { Config } from '../../apis/config.ts';
import type { Log } from '../../lib/process/log.ts';

/** Numbers by name. */
export type LinkGroups = Readonly<Record<string, number>>;

/** The named link groups that rules in force ask for. */
export function usedLinkGroups({ rules }: NodeState, { interfaceGroups }: Config): LinkGroups {
  const used: Record<string, number> = {};
  for (const name of rules.flatMap((rule) => rule.interfaceGroups)) {
    const number = typeof name === 'string' ? interfaceGroups[name] : undefined;
    if (number !== undefined) used[name] = number;
  }
  return used;
}

/**
 * A name that was taken out of the configuration while a policy asks for it stands for what it last
 * did: else the policy would be invalid, and what it closes would be open after a restart.
 */
export function withLastLinkGroups(config: Config, last: LinkGroups, log: Log): Config {
  const lost = Object.entries(last).filter(([name]) => !Object.hasOwn(config.interfaceGroups, name));
  for (const [name, group] of lost) {
    log.warn(
      'an interface group that policies name is no longer in the configuration; it stays what it was. Take it out of the policies first, or put it back',
      { name, group },
    );
  }
  return { ...config, interfaceGroups: { ...Object.fromEntries(lost), ...config.interfaceGroups } };
}
