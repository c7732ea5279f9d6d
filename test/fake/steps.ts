import type { Command } from '../../agent/apply/plan/command.ts';
import type { Transaction } from '../../agent/apply/plan/transaction.ts';
import type { BaseChain, Chain, NamedSet, Ruleset } from '../../agent/render/ruleset.ts';
import type { ChainVerdict, VerdictMap } from '../../agent/render/verdict-map.ts';
import { BITS, type Cidr } from '../../lib/net/address.ts';
import type { toPacket } from '../tracer/packet.ts';
import { tracer } from '../tracer/tracer.ts';
import type { FakeKernel } from './fake-kernel.ts';
import { chainNames, currentRule, type FakeChain, type FakeSet, type FakeTable } from './table.ts';

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

/** What the fake holds, as the tracer takes it. */
export function asRuleset(table: FakeTable | null): Ruleset {
  if (table === null) return { chains: new Map(), sets: new Map(), maps: new Map() };
  const names = chainNames(table);
  const all = [...table.sets.values()];
  const chains = [...table.chains.values()].map((chain): [string, Chain] => [
    chain.name,
    toChain(chain, names),
  ]);
  const sets = all
    .filter(({ isMap }) => !isMap)
    .map((set): [string, NamedSet] => [set.name, toNamedSet(set)]);
  const maps = all
    .filter(({ isMap }) => isMap)
    .map((set): [string, VerdictMap] => [set.name, toVerdictMap(set, names)]);
  return { chains: new Map(chains), sets: new Map(sets), maps: new Map(maps) };
}

function toChain({ name, base, rules }: FakeChain, names: ReadonlyMap<number, string>): Chain {
  return {
    name,
    base: base as BaseChain | null,
    fixed: false,
    rules: rules.map((rule) => currentRule(rule, names)),
    source: null,
    ruleId: null,
  };
}

function toNamedSet({ name, keyLength, interval, comment, elements }: FakeSet): NamedSet {
  const family = keyLength === 4 || keyLength === 12 ? 4 : 6;
  const key = keyLength === 4 || keyLength === 16 ? 'address' : 'service';
  const ranges = [...elements].map(
    ([first, { last }]) => [BigInt(`0x${first}`), BigInt(`0x${last}`)] as const,
  );
  const prefixes = ranges
    .filter(([first, last]) => first !== last)
    .map(
      ([first, last]): Cidr => ({
        family,
        value: first,
        length: BITS[family] - (last - first).toString(2).length,
      }),
    );
  const singles = [...elements].flatMap(([first, { last }]) => (first === last ? first : []));
  return {
    name,
    family,
    key,
    interval,
    comment: comment ?? '',
    members: {
      singles: new Uint8Array(Buffer.from(singles.sort().join(''), 'hex')),
      prefixes: prefixes.sort((a, b) => (a.value < b.value ? -1 : 1)),
    },
  };
}

function toVerdictMap(
  { name, keyLength, interval, elements, key = keyLength === 2 ? 'port' : 'address' }: FakeSet,
  names: ReadonlyMap<number, string>,
): VerdictMap {
  const sorted = [...elements].sort(([a], [b]) => (a < b ? -1 : 1));
  const hex = sorted.map(([first, { last }]) => (interval ? first + last : first)).join('');
  const verdicts = sorted.flatMap(([, { verdict }]): ChainVerdict[] =>
    verdict === null ? [] : [{ kind: verdict.kind, chain: names.get(verdict.chain) ?? '?' }],
  );
  return {
    name,
    key,
    family: key === 'port' || key === 'mark' ? null : keyLength === 4 || keyLength === 12 ? 4 : 6,
    interval,
    fixed: false,
    keys: new Uint8Array(Buffer.from(hex, 'hex')),
    targets: Uint32Array.from(verdicts, (_, i) => i),
    verdicts,
  };
}
