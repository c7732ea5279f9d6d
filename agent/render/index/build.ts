import type { Family } from '../../../lib/net/address.ts';
import { shortHash } from '../../../lib/sharing/hash.ts';
import { sameItems } from '../../../lib/sharing/lists.ts';
import { type IncrementalMap, mapIncrementally } from '../incremental-list.ts';
import {
  type Chain,
  fixedChain,
  type NftRule,
  type PortProtocol,
  plainChain,
  plainRule,
  type Statement,
} from '../ruleset.ts';
import type { ChainVerdict, VerdictMap } from '../verdict-map.ts';
import type { MatchEntry } from './match-entry.ts';
import type { AddressesPlan, Plan, PortsPlan, SequencePlan } from './plan.ts';

/** The chains and maps of an index, which begins with the first chain. */
export interface Dispatched {
  readonly chains: readonly Chain[];
  readonly maps: readonly VerdictMap[];
}

/** The fields of a packet that the maps look up. */
export interface LookupFields {
  /** Null: the packets have no ports. */
  readonly protocol: PortProtocol | null;
  /** Whether ports are those that the client used, before destination NAT. */
  readonly original: boolean;
  readonly address: 'saddr' | 'daddr';
}

/**
 * Builds the chains and maps of a plan. Chains are fixed, except the first; so are interval maps.
 * Other maps change in place and are named for their place. At each place a lookup leads to all the
 * rules that can match from there on, so that a packet meets either the whole old list or the whole
 * new one, never a mixture. If several parts follow each other, a rule may move from one to
 * another; so their names include a hash of their rules, and a move makes new ones.
 */
export function buildIndex(
  name: string,
  plan: Plan,
  fields: LookupFields,
  known = new FixedChains(),
): Dispatched {
  const builder = new Builder(name, fields, known);
  const rules = builder.rules(plan, name);
  return { chains: [plainChain(name, rules), ...builder.chains.values()], maps: builder.maps };
}

/**
 * Caches fixed chains by content for repeated builds: those of this build and of the one before.
 */
export class FixedChains {
  #now = new Map<string, Chain>();
  #before = new Map<string, Chain>();
  readonly #ofPlans = new WeakMap<Plan, Target>();
  /** The lookup that an index begins with. */
  first: LookUp | null = null;

  get(key: string, make: () => Chain): Chain {
    const chain = this.#now.get(key) ?? this.#before.get(key) ?? make();
    this.#now.set(key, chain);
    return chain;
  }

  /** Begins a new build: chains not used since the previous call are dropped. */
  next(): void {
    this.#before = this.#now;
    this.#now = new Map();
  }

  /**
   * The result for a plan, cached as long as the plan exists: the same plan object is always in the
   * same place.
   */
  ofPlan(plan: Plan, make: () => Target): Target {
    let found = this.#ofPlans.get(plan);
    if (found === undefined) {
      found = make();
      this.#ofPlans.set(plan, found);
    }
    return found;
  }
}

/** The results of a lookup. */
interface LookUp {
  /** The inputs of the lookup; equal lookups have the same objects here. */
  readonly about: readonly unknown[];
  readonly verdicts: IncrementalMap<Plan, ChainVerdict>;
  /** The targets of the verdicts that don't lead to a single rule. */
  readonly targets: readonly Target[];
  readonly maps: readonly Filled[];
}

interface Filled {
  readonly map: VerdictMap;
  /** For each verdict of the map, the index of its plan. */
  readonly plans: readonly number[];
}

/**
 * A chain that tries a plan, with all chains and maps that it leads to; the chain itself is the
 * last.
 */
interface Target extends Dispatched {
  readonly name: string;
}

/** Marks a plan that several ports lead to. */
const SEVERAL = -2;

class Builder {
  readonly chains = new Map<string, Chain>();
  readonly maps: VerdictMap[] = [];
  readonly #root: string;
  readonly #fields: LookupFields;
  readonly #known: FixedChains;

  constructor(root: string, fields: LookupFields, known: FixedChains) {
    this.#root = root;
    this.#fields = fields;
    this.#known = known;
  }

  /**
   * The rules of a chain that tries the plan; `place` names the maps. Rules after these might not
   * be reached.
   */
  rules(plan: Plan, place: string): NftRule[] {
    switch (plan.kind) {
      case 'list':
        return plan.items.map(({ chain }) => plainRule({ kind: 'jump', chain }));
      case 'ports':
        return this.#portRules(plan, place);
      case 'addresses':
        return this.#addressRules(plan, place);
      case 'sequence':
        return this.#sequenceRules(plan, place);
    }
  }

  #sequenceRules({ parts, items }: SequencePlan, place: string): NftRule[] {
    const lists = parts.flatMap((part) => (part.kind === 'list' ? ids(part.items) : []));
    const several = parts.length - parts.filter(({ kind }) => kind === 'list').length > 1;
    const all = several ? ids(items) : lists;
    return parts.flatMap((part, i) => {
      if (part.kind === 'list') return this.rules(part, place);
      const own = `${place}-${shortHash(10, all, several ? ids(part.items) : [])}`;
      const isLast = i === parts.length - 1;
      // A lookup by goto never continues with the next rule here, so it gets a chain of its own to
      // return from.
      const returns = part.kind === 'ports' && part.others === null;
      return isLast || returns
        ? this.rules(part, own)
        : [plainRule({ kind: 'jump', chain: this.#target(part, own) })];
    });
  }

  #portRules(
    { field, ports, planOfPort, ranges, planOfRange, plans, others }: PortsPlan,
    at: string,
  ): NftRule[] {
    const { protocol, original } = this.#fields;
    const place = field === 'dport' ? at : `${at}-source`;
    if (protocol === null) throw new Error(`${place}: a map by port has an entry without ports`);
    const kind = others === null ? 'jump' : 'goto';
    const onlyPort = new Int32Array(plans.length).fill(-1);
    for (let i = 0; i < ports.length; i++) {
      const plan = planOfPort[i] ?? 0;
      onlyPort[plan] = onlyPort[plan] === -1 ? (ports[i] ?? SEVERAL) : SEVERAL;
    }
    for (const plan of planOfRange) onlyPort[plan] = SEVERAL;
    const maps = this.#lookUp(place, [kind, ports, planOfPort, ranges, planOfRange], {
      plans,
      verdict: (plan, i) =>
        this.#verdict(
          kind,
          plan,
          () => `${place}-${onlyPort[i] === SEVERAL ? shortHash(10, ids(plan.items)) : onlyPort[i]}`,
        ),
      maps: (fill) => [
        ...(ports.length === 0 ? [] : [fill(`${place}-ports`, null, portKeys(ports), planOfPort)]),
        ...(ranges.length === 0
          ? []
          : [fixed(fill(`${place}-ranges`, null, portKeys(ranges.flat()), planOfRange))]),
      ],
    });
    const rules = maps.map((map) =>
      plainRule({ kind: 'portMap', protocol, field, original: original && field === 'dport', map: map.name }),
    );
    if (others !== null) rules.push(...this.rules(others, `${place}-others`));
    return rules;
  }

  #addressRules({ classes, plans, others }: AddressesPlan, place: string): NftRule[] {
    const { address: field } = this.#fields;
    const maps = this.#lookUp(place, [classes], {
      plans,
      verdict: (plan, i) =>
        this.#verdict('goto', plan, () => {
          const keys = (classes.peersOf[i] ?? []).map((peer) => classes.peers[peer]?.key);
          return `${place}-${shortHash(10, keys.sort())}`;
        }),
      maps: (fill) =>
        classes.tables.flatMap(({ family, singles, classOfSingle, ranges, classOfRange }) => {
          const name = `${place}-v${family}`;
          // A single address may lie in a range, so singles come first.
          return [
            ...(classOfSingle.length === 0 ? [] : [fill(name, family, singles, classOfSingle)]),
            ...(classOfRange.length === 0
              ? []
              : [fixed(fill(`${name}-ranges`, family, ranges, classOfRange))]),
          ];
        }),
    });
    const rules = maps.map(({ name, family }) => {
      if (family === null) throw new Error(`${name}: no addresses`);
      return plainRule({ kind: 'addressMap', family, field, map: name });
    });
    if (others !== null) rules.push(...this.rules(others, `${place}-others`));
    return rules;
  }

  /**
   * The maps of a lookup, with everything they lead to. The first lookup of an index may have
   * 10,000 plans; there everything unchanged is reused without being looked at.
   */
  #lookUp(place: string, about: readonly unknown[], { plans, verdict, maps }: LookUpParts): VerdictMap[] {
    const isFirst = place === this.#root;
    const before = isFirst ? this.#known.first : null;
    const last = before !== null && sameItems(before.about, about) ? before : null;
    const targetOf = new Map<ChainVerdict, Target>();
    const verdicts = mapIncrementally(last?.verdicts ?? null, plans, (plan, i) => {
      const made = verdict(plan, i);
      if (made.target !== null) targetOf.set(made.verdict, made.target);
      return made.verdict;
    });
    // If one of the targets changes, all are requested again; they are cached by plan.
    const isAlike =
      last !== null && targetOf.size === 0 && (last.targets.length === 0 || verdicts.gone.length === 0);
    const targets = isAlike
      ? last.targets
      : last === null
        ? [...targetOf.values()]
        : plans.flatMap((plan, i) => verdict(plan, i).target ?? []);
    for (const target of targets) this.#add(target);
    const filled =
      last === null
        ? maps((name, family, keys, numbers) => fill(name, family, keys, numbers, verdicts.to))
        : last.maps.map((one) => refilled(one, verdicts.to));
    if (isFirst) this.#known.first = { about, verdicts, targets, maps: filled };
    for (const { map } of filled) this.maps.push(map);
    return filled.map(({ map }) => map);
  }

  #verdict(kind: 'jump' | 'goto', plan: Plan, place: () => string): Led {
    const [only, second] = plan.kind === 'list' ? plan.items : [];
    if (only !== undefined && second === undefined)
      return { verdict: { kind, chain: only.chain }, target: null };
    const target = this.#targetOf(plan, plan.kind === 'list' ? `${this.#root}-list` : place());
    return { verdict: { kind, chain: target.name }, target };
  }

  /** The name of a fixed chain that tries the plan. */
  #target(plan: Plan, place: string): string {
    const target = this.#targetOf(plan, place);
    this.#add(target);
    return target.name;
  }

  #targetOf(plan: Plan, place: string): Target {
    return this.#known.ofPlan(plan, () => this.#makeTarget(plan, place));
  }

  #add({ chains, maps }: Target): void {
    for (const chain of chains) this.chains.set(chain.name, chain);
    for (const map of maps) this.maps.push(map);
  }

  #makeTarget(plan: Plan, place: string): Target {
    const inner = new Builder(this.#root, this.#fields, this.#known);
    const rules = inner.rules(plan, place);
    const content = rules.map(({ statement }) => statementKey(statement)).join(' ');
    const chain = this.#known.get(`${place} ${content}`, () =>
      fixedChain(`${place}-${shortHash(10, content)}`, rules),
    );
    return { name: chain.name, chains: [...inner.chains.values(), chain], maps: inner.maps };
  }
}

function ids(items: readonly MatchEntry[]): string[] {
  return items.map(({ id }) => id);
}

/** Identifies a statement of an index. */
function statementKey(statement: Statement): string {
  switch (statement.kind) {
    case 'portMap':
    case 'addressMap':
      return statement.map;
    case 'jump':
    case 'goto':
      return statement.chain;
    default:
      throw new Error(`a rule index cannot contain the statement ${statement.kind}`);
  }
}

type Fill = (name: string, family: Family | null, keys: Uint8Array, plans: ArrayLike<number>) => Filled;

interface LookUpParts {
  readonly plans: readonly Plan[];
  readonly verdict: (plan: Plan, index: number) => Led;
  readonly maps: (fill: Fill) => Filled[];
}

/**
 * The verdict that leads to a plan: to a rule's own chain (target null), or to a chain made for the
 * plan.
 */
interface Led {
  readonly verdict: ChainVerdict;
  readonly target: Target | null;
}

/**
 * A map with only the verdicts that occur, in order of occurrence. `numbers`: for each key, the
 * index of its verdict.
 */
function fill(
  name: string,
  family: Family | null,
  keys: Uint8Array,
  numbers: ArrayLike<number>,
  verdicts: readonly ChainVerdict[],
): Filled {
  const found: ChainVerdict[] = [];
  const plans: number[] = [];
  const known = new Int32Array(verdicts.length).fill(-1);
  const targets = new Uint32Array(numbers.length);
  for (let i = 0; i < numbers.length; i++) {
    const number = numbers[i] ?? -1;
    const verdict = verdicts[number];
    if (verdict === undefined) throw new RangeError(`no verdict ${number}`);
    if (known[number] === -1) {
      known[number] = found.push(verdict) - 1;
      plans.push(number);
    }
    targets[i] = known[number] ?? 0;
  }
  const key = family === null ? 'port' : 'address';
  return { map: { name, key, family, interval: false, fixed: false, keys, targets, verdicts: found }, plans };
}

/** The same keys with other verdicts. */
function refilled({ map, plans }: Filled, all: readonly ChainVerdict[]): Filled {
  const verdicts = plans.map((number) => all[number] as ChainVerdict);
  if (sameItems(verdicts, map.verdicts)) return { map, plans };
  return map.fixed ? fixed({ map: { ...map, verdicts }, plans }) : { map: { ...map, verdicts }, plans };
}

/** A map of ranges, which never changes in place: named for its content. */
function fixed({ map, plans }: Filled): Filled {
  const { keys, targets, verdicts } = map;
  const hash = shortHash(10, Buffer.from(keys).toString('base64'), [...targets], verdicts);
  const name = map.fixed ? map.name.slice(0, map.name.lastIndexOf('-')) : map.name;
  return { map: { ...map, name: `${name}-${hash}`, interval: true, fixed: true }, plans };
}

/** Big-endian, as in packets. */
function portKeys(ports: readonly number[]): Uint8Array {
  const keys = new Uint8Array(2 * ports.length);
  for (let i = 0; i < ports.length; i++) {
    keys[2 * i] = (ports[i] ?? 0) >> 8;
    keys[2 * i + 1] = (ports[i] ?? 0) & 255;
  }
  return keys;
}
