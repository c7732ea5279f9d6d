import type { IptablesTable } from './tables.ts';

/**
 * The input of `iptables-restore --noflush` for all tables of one family, in a network namespace
 * without chains of ours; for people and for tests.
 */
export function restoreText(tables: readonly IptablesTable[]): string {
  return tables.map(tableText).join('');
}

function tableText({ name, jumps, chains }: IptablesTable): string {
  const lines = [
    `*${name}`,
    ...[...chains.keys()].map((chain) => `:${chain} - [0:0]`),
    ...jumps.map(({ from, to }) => `-I ${from} 1 -j ${to}`),
    ...[...chains.values()].flatMap((chain) => chain.rules.map(({ text }) => `-A ${chain.name} ${text}`)),
    'COMMIT',
  ];
  return `${lines.join('\n')}\n`;
}
