import type { Transaction } from './transaction.ts';

/** As `dump transaction` prints it. */
export function transactionText({ rename, prepare, members, maps, swap, sweep }: Transaction): string {
  const part = (title: string, lines: readonly string[]) =>
    lines.length === 0 ? [] : [`# ${title}`, ...lines];
  const count = (bytes: Uint8Array, width: number) => bytes.length / width;
  return [
    ...part(
      'rename',
      rename.map(({ text }) => text),
    ),
    ...part(
      'prepare',
      prepare.map(({ text }) => text),
    ),
    ...part(
      'members',
      members.map((change) => {
        const width = change.keyLength;
        const added = count(change.addedSingles, width) + count(change.addedRanges, 2 * width);
        const removed = count(change.removedSingles, width) + count(change.removedRanges, 2 * width);
        return `# netlink: set ${change.set}: ${added} elements added, ${removed} deleted`;
      }),
    ),
    ...part(
      'maps',
      maps.map(
        ({ map, added, removed }) =>
          `# netlink: map ${map}: ${added.length} elements added, ${removed.length} deleted`,
      ),
    ),
    ...part(
      'swap',
      swap.map(({ text }) => text),
    ),
    ...part(
      'sweep',
      sweep.map(({ text }) => text),
    ),
    '',
  ].join('\n');
}
