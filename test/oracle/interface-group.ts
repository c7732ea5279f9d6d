import type { OracleConfig } from './config.ts';

const defaultGroups = { pods: 8, clusternet: 9 };

/**
 * The number of a link group, by number or by its name in the configuration; undefined for an
 * unknown name.
 */
export function groupNumber(group: string | number, config: OracleConfig): number | undefined {
  if (typeof group === 'number') return group;
  const groups: NonNullable<OracleConfig['interfaceGroups']> = {
    ...defaultGroups,
    ...config.interfaceGroups,
  };
  const entry = Object.hasOwn(groups, group) ? groups[group] : undefined;
  return typeof entry === 'object' ? entry.group : entry;
}
