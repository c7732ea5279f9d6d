import type { DestinationRange, EgressClass, EgressOutcome } from '../../../apis/egress/node-egress.ts';
import { FAMILIES, type Family } from '../../../lib/net/address.ts';
import type { Interval } from '../../../lib/net/interval.ts';
import { packAddress } from '../../../lib/net/member-set.ts';
import { shortHash } from '../../../lib/sharing/hash.ts';
import { chainName } from '../../render/nft-text.ts';
import { type Chain, plainChain, plainRule } from '../../render/ruleset.ts';
import { toVerdictMap, type VerdictMap } from '../../render/verdict-map.ts';
import { outcomeChain, type RenderedOutcome } from './outcomes.ts';

/** A chain that looks up the destination, and the maps that it needs. */
export interface RenderedClass {
  readonly chain: Chain;
  readonly maps: readonly VerdictMap[];
}

/** Which chain a destination leads to. */
export interface DestinationChain {
  readonly range: Interval;
  readonly chain: string;
}

/**
 * A chain with one look-up of the destination for each family. The maps are named for their
 * content, as all interval maps; the chain's own name stays.
 */
export function destinationChain(
  name: string,
  targets: Readonly<Record<Family, readonly DestinationChain[]>>,
  last: Chain['rules'] = [],
): RenderedClass {
  const maps = FAMILIES.flatMap((family) => rangeMap(name, family, targets[family]) ?? []);
  const rules = maps.map((map) =>
    plainRule({ kind: 'addressMap', family: map.family ?? 4, field: 'daddr', map: map.name }),
  );
  return { chain: plainChain(name, [...rules, ...last]), maps };
}

/** Null: there are no ranges. */
export function rangeMap(
  words: string,
  family: Family,
  targets: readonly DestinationChain[],
): VerdictMap | null {
  if (targets.length === 0) return null;
  const pack = (value: bigint): Uint8Array => packAddress({ family, value });
  const entries = targets.map(({ range, chain }) => ({
    first: pack(range.first),
    last: pack(range.last),
    verdict: { kind: 'goto', chain } as const,
  }));
  const content = targets.map(({ range, chain }) => [String(range.first), String(range.last), chain]);
  const name = `${words.slice(0, 60)}-v${family}-${shortHash(10, content)}`;
  return toVerdictMap({ name, key: 'address', family, interval: true, fixed: true }, entries);
}

export function classChain(id: string): string {
  return chainName('egress-class', shortHash(10, id), id);
}

interface Known {
  readonly class: EgressClass;
  /** Names of its outcomes' chains, in the order of its ranges. */
  readonly chains: readonly string[];
  readonly rendered: RenderedClass;
}

/** Renders classes and outcomes; those that are the same objects as before are not made again. */
export class ClassRenderer {
  #outcomes = new Map<EgressOutcome, RenderedOutcome>();
  #classes = new Map<string, Known>();

  render(
    classes: Iterable<EgressClass>,
    outcomes: Iterable<EgressOutcome>,
  ): { readonly classes: readonly RenderedClass[]; readonly outcomes: readonly RenderedOutcome[] } {
    const ofOutcome = new Map<EgressOutcome, RenderedOutcome>();
    const byId = new Map<string, string>();
    for (const outcome of outcomes) {
      const rendered = this.#outcomes.get(outcome) ?? outcomeChain(outcome);
      ofOutcome.set(outcome, rendered);
      byId.set(outcome.id, rendered.chain.name);
    }
    const ofClass = new Map<string, Known>();
    for (const one of classes) ofClass.set(one.id, this.#class(one, byId));
    this.#outcomes = ofOutcome;
    this.#classes = ofClass;
    return {
      classes: [...ofClass.values()].map(({ rendered }) => rendered),
      outcomes: [...ofOutcome.values()],
    };
  }

  #class(one: EgressClass, byId: ReadonlyMap<string, string>): Known {
    const ranges = [...one.ipv4, ...one.ipv6];
    const chains = ranges.map(({ outcome }) => chainOf(byId, outcome));
    const before = this.#classes.get(one.id);
    if (before?.class === one && before.chains.every((chain, i) => chain === chains[i])) return before;
    const targets = (list: readonly DestinationRange[]): DestinationChain[] =>
      list.map(({ range, outcome }) => ({ range, chain: chainOf(byId, outcome) }));
    const rendered = destinationChain(classChain(one.id), { 4: targets(one.ipv4), 6: targets(one.ipv6) });
    return { class: one, chains, rendered };
  }
}

function chainOf(byId: ReadonlyMap<string, string>, outcome: string): string {
  const chain = byId.get(outcome);
  if (chain === undefined) throw new RangeError(`no egress outcome ${outcome}`);
  return chain;
}
