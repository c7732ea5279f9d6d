import type { Kernel } from '../../agent/apply/kernel.ts';

/** What a kernel holds of our table, comparable: everything that has a meaning, no handles. Null: no table. */
export type Listing = Record<string, readonly string[]> | null;

export async function listing({ netlink }: Pick<Kernel, 'netlink'>): Promise<Listing> {
  const table = await netlink.snapshot('inet', 'nodewall');
  if (table === null) return null;
  const lines: [string, string[]][] = table.chains.map(({ name, base, rules }) => [
    `chain ${name}${base === null ? '' : ` ${base.type} ${base.hook} ${base.priority} ${base.policy}`}`,
    rules.map(({ digest, comment }) => `${digest}${comment === null ? '' : ` ${comment}`}`),
  ]);
  if (table.isDormant) lines.push(['dormant', []]);
  for (const { name, isAnonymous, isMap, isInterval, keyLength } of table.sets) {
    if (isAnonymous) continue;
    const found = await netlink.elements({ family: 'inet', table: 'nodewall', set: name });
    const step = isInterval ? 2 * keyLength : keyLength;
    const bytes = Buffer.from((isInterval ? found?.ranges : found?.keys) ?? []);
    const elements = Array.from({ length: bytes.length / step }, (_, i) => {
      const verdict = found?.verdicts?.[i];
      const target =
        verdict === undefined ? '' : ` ${verdict.kind} ${'chain' in verdict ? verdict.chain : ''}`;
      return `${bytes.toString('hex', i * step, (i + 1) * step)}${target}`;
    });
    if (found?.hasCatchAll) elements.push('*');
    lines.push([`${isMap ? 'map' : 'set'} ${name} ${keyLength}${isInterval ? ' interval' : ''}`, elements]);
  }
  return Object.fromEntries(lines.sort(([a], [b]) => (a < b ? -1 : 1)));
}
