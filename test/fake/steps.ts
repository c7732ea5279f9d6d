import type { Transaction } from '../../agent/apply/transaction.ts';
import type { Ruleset } from '../../agent/render/ruleset.ts';
import type { toPacket } from '../tracer/packet.ts';
import { tracer } from '../tracer/tracer.ts';
import { asRuleset } from './asruleset.ts';
import type { FakeKernel } from './fakekernel.ts';

type Packet = NonNullable<ReturnType<typeof toPacket>>;

/**
 * Watches a change from what the fake holds now to `desired`: after every commit, every packet's verdict must be that of the structure before
 * (until the swap) or of the one desired (from the swap on), with the members that the sets have at that moment. Says what was wrong.
 */
export function watchVerdicts(
  kernel: FakeKernel,
  { change, desired, known }: { change: Transaction; desired: Ruleset; known: readonly Ruleset[] },
  packets: readonly Packet[],
): string[] {
  const wrong: string[] = [];
  const before = asRuleset(kernel.table(), known);
  let swapped = false;
  let commits = 0;
  kernel.onCommit(() => {
    commits++;
    const now = asRuleset(kernel.table(), known);
    swapped ||= isSwap(kernel, change);
    if (now.chains.size === 0 || before.chains.size === 0) return;
    const wanted = swapped ? desired : { ...before, sets: new Map([...before.sets, ...common(before, now)]) };
    const [walk, expected] = [tracer(now), tracer(wanted)];
    for (const packet of packets) {
      const [found, right] = [walk(packet).verdict, expected(packet).verdict];
      if (found !== right) {
        const line = kernel.calls.at(-1)?.lines[0] ?? '';
        wrong.push(`after commit ${commits} (${line} …) ${found} for ${right}: ${text(packet)}`);
      }
    }
  });
  return wrong;
}

function isSwap({ calls }: FakeKernel, { swap }: Transaction): boolean {
  const line = calls.at(-1)?.lines[0];
  return line !== undefined && swap[0]?.text.split('\n')[0] === line;
}

function common(before: Ruleset, now: Ruleset): [string, NonNullable<ReturnType<Ruleset['sets']['get']>>][] {
  return [...now.sets].filter(([name]) => before.sets.has(name));
}

function text(packet: Packet): string {
  return JSON.stringify(packet, (_, value: unknown) =>
    typeof value === 'bigint' ? `0x${value.toString(16)}` : value,
  );
}
