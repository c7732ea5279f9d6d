import type { Kernel } from '../../agent/apply/netlink/kernel.ts';

/**
 * What a kernel holds of our table, comparable: everything that has a meaning, no handles. Null: no
 * table.
 */
export type Listing = Record<string, readonly string[]> | null;

export async function listing(kernel: Pick<Kernel, 'snapshot' | 'elements'>): Promise<Listing> {
  const table = await kernel.snapshot();
  if (table === null) return null;
  // One that is not needed any more stays, without rules (apply/retired.ts).
  const retired = ['prerouting', 'forward'];
  const chains = table.chains.filter(({ name, rules }) => !retired.includes(name) || rules.length > 0);
  const lines: [string, string[]][] = chains.map(({ name, base, rules }) => [
    `chain ${name}${base === null ? '' : ` ${base.type} ${base.hook} ${base.priority} ${base.policy}`}`,
    rules.map(({ digest, comment }) => `${digest}${comment === null ? '' : ` ${comment}`}`),
  ]);
  if (table.isDormant) lines.push(['dormant', []]);
  for (const { name, isAnonymous, isMap, isInterval, keyLength } of table.sets) {
    if (isAnonymous) continue;
    const found = await kernel.elements(name);
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
