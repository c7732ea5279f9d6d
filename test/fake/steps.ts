import type { Command } from '../../agent/apply/plan/command.ts';
import type { Transaction } from '../../agent/apply/plan/transaction.ts';
import type { Ruleset } from '../../agent/render/ruleset.ts';
import type { toPacket } from '../tracer/packet.ts';
import { tracer } from '../tracer/tracer.ts';
import { asRuleset } from './as-ruleset.ts';
import type { FakeKernel } from './fake-kernel.ts';

type Packet = NonNullable<ReturnType<typeof toPacket>>;

/**
 * Watches a change from what the fake holds now. The function it returns says, once it is done,
 * what was wrong: after every commit, every packet's verdict must be that of the rules before
 * (until the swap) or of those desired (from `withdraw` on; between the two it may be either), with
 * the members that the sets had at that moment. So must that of a packet that is still in the rules
 * of before the commit, and looks up sets and maps as they are after it.
 */
export function watchVerdicts(
  kernel: FakeKernel,
  packets: readonly Packet[],
): (changes: readonly Transaction[], desired: Ruleset) => string[] {
  const before = asRuleset(kernel.table());
  const moments: { readonly commands: readonly Command[]; readonly now: Ruleset }[] = [];
  kernel.onCommit(() => {
    moments.push({ commands: kernel.calls.at(-1)?.commands ?? [], now: asRuleset(kernel.table()) });
  });
  return (changes, desired) => {
    if (before.chains.size === 0) return [];
    // After the first there are only names to change.
    const [first, ...names] = changes;
    const stages = [
      ...Object.entries(first ?? {}),
      ...names.flatMap((one) =>
        Object.values(one).map((commands: readonly Command[]) => ['collect', commands] as const),
      ),
    ];
    const isWithoutSwap = first?.swap.length === 0;
    const wrong: string[] = [];
    let reached = 'rename';
    let last = before;
    for (const { commands, now } of moments) {
      // Copies of chains are made and removed before.
      reached = stages.find(([, own]) => own === commands)?.[0] ?? reached;
      const isSwapped = isWithoutSwap || reached === 'swap';
      const [old, wanted] = [before, desired].map((ruleset) => tracer(withMembers(ruleset, now)));
      const allowed = ['withdraw', 'collect'].includes(reached)
        ? [wanted]
        : isSwapped
          ? [old, wanted]
          : [old];
      const late: Ruleset = {
        chains: last.chains,
        sets: new Map([...last.sets, ...now.sets]),
        maps: new Map([...last.maps, ...now.maps]),
      };
      last = now;
      for (const [where, walk] of [
        ['', tracer(now)],
        [', in the rules of before', tracer(late)],
      ] as const)
        for (const packet of packets) {
          const found = walk(packet).verdict;
          const right = allowed.map((trace) => trace?.(packet).verdict);
          if (!right.includes(found))
            wrong.push(`${reached}${where}: ${found} for ${right.join(' or ')}: ${text(packet)}`);
        }
    }
    return wrong;
  };
}

/** The ruleset with the members that its sets have now, where they are there. */
function withMembers(ruleset: Ruleset, { sets }: Ruleset): Ruleset {
  return { ...ruleset, sets: new Map([...ruleset.sets].map(([name, set]) => [name, sets.get(name) ?? set])) };
}

function text(packet: Packet): string {
  return JSON.stringify(packet, (_, value: unknown) =>
    typeof value === 'bigint' ? `0x${value.toString(16)}` : value,
  );
}
