import type {
  DestinationRange,
  EgressClass,
  EgressOutcome,
  EgressPolicyName,
} from '../../../apis/egress/node-egress.ts';
import { FAMILIES, type Family } from '../../../lib/net/address.ts';
import type { Interval } from '../../../lib/net/interval.ts';
import { packAddress } from '../../../lib/net/member-set.ts';
import { shortHash } from '../../../lib/sharing/hash.ts';
import { chainName, comment } from '../../render/nft-text.ts';
import { type Chain, type NftRule, plainChain, plainRule, type Statement } from '../../render/ruleset.ts';
import { type ChainVerdict, toVerdictMap, type VerdictMap } from '../../render/verdict-map.ts';
import { auditId, dropChain, policyId, qualifiedPolicyText } from './counted.ts';

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

/** The chain in which a slot's number is written into the marks. */
export function slotChain(slot: number): string {
  return `egress-slot-${slot}`;
}

export function takeChain(take: number): string {
  return `egress-take-${take}`;
}

interface RenderedOutcome {
  readonly chain: Chain;
  /** One for each policy in mode Audit, to count what it would have decided. */
  readonly audits: readonly Chain[];
}

const POLICY_CHAIN = 'egress-policy';
const AUDIT_CHAIN = 'egress-audit';

/**
 * The chain of an outcome. Its counter counts connections: their first packets, and those that the
 * client sends again. It is named for its content, so that the counter lasts as long as the
 * outcome.
 */
function outcomeChain(outcome: EgressOutcome): RenderedOutcome {
  const { policy, audited, action } = outcome;
  const audits = audited.map((one) => auditChain(one));
  const said = policy === null ? 'no policy' : qualifiedPolicyText(policy);
  const rules = [
    ...audits.map(({ name }) => plainRule({ kind: 'jump', chain: name })),
    ...statements(action).map(
      (statement): NftRule => ({ matches: [], counter: true, statement, comment: comment(said) }),
    ),
  ];
  const hash = shortHash(10, policy, audited, rendered(action));
  const chain = plainChain(chainName(POLICY_CHAIN, hash, words(policy)), rules);
  return { chain: { ...chain, ruleId: policy === null ? null : policyId(policy) }, audits };
}

/** The part of an action that is rendered: another reserve makes no other chain. */
function rendered(action: EgressOutcome['action']): EgressOutcome['action'] {
  return action.kind === 'slots' ? { kind: action.kind, slots: action.slots } : action;
}

function auditChain(policy: EgressPolicyName): Chain {
  const rule: NftRule = {
    matches: [],
    counter: true,
    statement: { kind: 'return' },
    comment: comment(`audit: ${qualifiedPolicyText(policy)}`),
  };
  const chain = plainChain(chainName(AUDIT_CHAIN, shortHash(10, policy), words(policy)), [rule]);
  return { ...chain, ruleId: auditId(policy) };
}

function words(policy: EgressPolicyName | null): string {
  if (policy === null) return 'none';
  return policy.namespace === '' ? policy.name : `${policy.namespace}.${policy.name}`;
}

function statements(action: EgressOutcome['action']): Statement[] {
  switch (action.kind) {
    case 'pass':
    case 'direct':
      return [{ kind: 'accept' }];
    case 'take':
      return [{ kind: 'goto', chain: takeChain(action.take) }];
    case 'drop':
      return action.reason === 'policy'
        ? [{ kind: 'drop' }]
        : [{ kind: 'goto', chain: dropChain(action.reason) }];
    case 'slots':
      return slotStatements(action.slots);
  }
}

function slotStatements(slots: readonly number[]): Statement[] {
  const [only, ...more] = slots;
  if (only === undefined) return [{ kind: 'goto', chain: dropChain('not-ready') }];
  if (more.length === 0) return [{ kind: 'goto', chain: slotChain(only) }];
  const verdicts = buckets(slots).map((slot): ChainVerdict => ({ kind: 'goto', chain: slotChain(slot) }));
  const fields = ['saddr', 'daddr'] as const;
  return FAMILIES.map((family) => ({ kind: 'hashMap', family, fields, verdicts }));
}

/** More than the slots of a node, so that each gets about the same share. */
const BUCKETS = 128;

/**
 * The slot of each bucket, by rendezvous hashing: where a slot is added or removed, only its own
 * buckets change. Exported for tests.
 */
export function buckets(slots: readonly number[]): number[] {
  return Array.from({ length: BUCKETS }, (_, bucket) => {
    const weights = slots.map((slot) => ({ slot, weight: shortHash(8, bucket, slot) }));
    return weights.reduce((most, one) => (one.weight > most.weight ? one : most)).slot;
  });
}
