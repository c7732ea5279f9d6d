import { shortHash } from '../../../apis/hash.ts';
import type { Chain, ChainVerdict, NftRule, PortProtocol, Statement, VerdictMap } from '../ruleset.ts';
import type { Item } from './item.ts';
import type { AddressesPlan, Plan, PortsPlan, SequencePlan } from './plan.ts';

/** What an index is made of; the first chain is where it begins. */
export interface Dispatched {
  readonly chains: readonly Chain[];
  readonly maps: readonly VerdictMap[];
}

/** Which fields of a packet the maps look up. */
export interface Fields {
  /** Null: the packets have no ports. */
  readonly protocol: PortProtocol | null;
  /** Ports are those that the client used, before destination NAT. */
  readonly original: boolean;
  readonly address: 'saddr' | 'daddr';
}

/**
 * A plan as chains and maps. Chains are fixed, save the first; so are interval maps. The other maps change in place, each named for where it stands:
 * at one place a look-up leads to all the rules that can match from there on, so that a packet meets the whole old list or the whole new one, never a bit of
 * both. Where several parts follow each other a rule may move from one to another, so their names tell which rules they are for, and a move makes new ones.
 */
export function build(name: string, plan: Plan, fields: Fields, known = new FixedChains()): Dispatched {
  const builder = new Builder(name, fields, known);
  const rules = builder.rules(plan, name);
  const root: Chain = { name, base: null, fixed: false, rules, source: null, ruleId: null };
  return { chains: [root, ...builder.chains.values()], maps: builder.maps };
}

/** Fixed chains by what is in them, for whoever builds again and again: those of this time and of the last. */
export class FixedChains {
  #now = new Map<string, Chain>();
  #before = new Map<string, Chain>();
  readonly #ofPlans = new WeakMap<Plan, Target>();

  get(key: string, make: () => Chain): Chain {
    const chain = this.#now.get(key) ?? this.#before.get(key) ?? make();
    this.#now.set(key, chain);
    return chain;
  }

  /** What is not asked for until the next time is forgotten then. */
  next(): void {
    this.#before = this.#now;
    this.#now = new Map();
  }

  /** What was made of a plan, for as long as there is the plan: one that is the same object is in the same place. */
  ofPlan(plan: Plan, make: () => Target): Target {
    let found = this.#ofPlans.get(plan);
    if (found === undefined) {
      found = make();
      this.#ofPlans.set(plan, found);
    }
    return found;
  }
}

/** A chain that tries a plan, with all chains and maps that it leads to; the chain itself is the last. */
interface Target extends Dispatched {
  readonly name: string;
}

/** Of a plan that several ports lead to. */
const SEVERAL = -2;

class Builder {
  readonly chains = new Map<string, Chain>();
  readonly maps: VerdictMap[] = [];
  readonly #root: string;
  readonly #fields: Fields;
  readonly #known: FixedChains;

  constructor(root: string, fields: Fields, known: FixedChains) {
    this.#root = root;
    this.#fields = fields;
    this.#known = known;
  }

  /** What a chain that tries the plan holds; `place` names the maps. What comes behind these rules would not be reached. */
  rules(plan: Plan, place: string): NftRule[] {
    switch (plan.kind) {
      case 'list':
        return plan.items.map(({ chain }) => plain({ kind: 'jump', chain }));
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
      // A look-up that goes to its chain and does not come back needs a chain to come back from.
      const returns = part.kind === 'ports' && part.others === null;
      return isLast || returns
        ? this.rules(part, own)
        : [plain({ kind: 'jump', chain: this.#target(part, own) })];
    });
  }

  #portRules(
    { field, ports, planOfPort, ranges, planOfRange, plans, others }: PortsPlan,
    at: string,
  ): NftRule[] {
    const { protocol, original } = this.#fields;
    const place = field === 'dport' ? at : `${at}-source`;
    if (protocol === null) throw new Error(`${place}: no ports`);
    const onlyPort = new Int32Array(plans.length).fill(-1);
    for (let i = 0; i < ports.length; i++) {
      const plan = planOfPort[i] ?? 0;
      onlyPort[plan] = onlyPort[plan] === -1 ? (ports[i] ?? SEVERAL) : SEVERAL;
    }
    for (const plan of planOfRange) onlyPort[plan] = SEVERAL;
    const kind = others === null ? 'jump' : 'goto';
    const verdicts = plans.map((plan, i) => {
      const port = onlyPort[i];
      return this.#verdict(
        kind,
        plan,
        () => `${place}-${port === SEVERAL ? shortHash(10, ids(plan.items)) : port}`,
      );
    });
    const rules: NftRule[] = [];
    const look = (map: VerdictMap): void => {
      this.maps.push(map);
      rules.push(
        plain({ kind: 'portMap', protocol, field, original: original && field === 'dport', map: map.name }),
      );
    };
    if (ports.length > 0) {
      const keys = new Uint8Array(2 * ports.length);
      for (let i = 0; i < ports.length; i++) setPort(keys, i, ports[i] ?? 0);
      look({
        name: `${place}-ports`,
        family: null,
        interval: false,
        fixed: false,
        keys,
        ...used(planOfPort, verdicts),
      });
    }
    if (ranges.length > 0) {
      const keys = new Uint8Array(4 * ranges.length);
      for (const [i, [first, last]] of ranges.entries()) {
        setPort(keys, 2 * i, first);
        setPort(keys, 2 * i + 1, last);
      }
      look(fixedMap(`${place}-ranges`, { family: null, keys, ...used(planOfRange, verdicts) }));
    }
    if (others !== null) rules.push(...this.rules(others, `${place}-others`));
    return rules;
  }

  #addressRules({ classes, plans, others }: AddressesPlan, place: string): NftRule[] {
    const { address: field } = this.#fields;
    const targets = plans.map((plan, i) =>
      this.#verdict('goto', plan, () => {
        const keys = (classes.peersOf[i] ?? []).map((peer) => classes.peers[peer]?.key);
        return `${place}-${shortHash(10, keys.sort())}`;
      }),
    );
    const rules: NftRule[] = [];
    const look = (map: VerdictMap): void => {
      if (map.family === null) throw new Error(`${map.name}: no addresses`);
      this.maps.push(map);
      rules.push(plain({ kind: 'addressMap', family: map.family, field, map: map.name }));
    };
    for (const { family, singles, classOfSingle, ranges, classOfRange } of classes.tables) {
      const name = `${place}-v${family}`;
      // An address by itself may lie in a range: it comes first.
      if (classOfSingle.length > 0) {
        look({
          name,
          family,
          interval: false,
          fixed: false,
          keys: singles,
          ...used(classOfSingle, targets),
        });
      }
      if (classOfRange.length > 0) {
        look(fixedMap(`${name}-ranges`, { family, keys: ranges, ...used(classOfRange, targets) }));
      }
    }
    if (others !== null) rules.push(...this.rules(others, `${place}-others`));
    return rules;
  }

  #verdict(kind: 'jump' | 'goto', plan: Plan, place: () => string): ChainVerdict {
    const [only, second] = plan.kind === 'list' ? plan.items : [];
    if (only !== undefined && second === undefined) return { kind, chain: only.chain };
    return { kind, chain: this.#target(plan, plan.kind === 'list' ? `${this.#root}-list` : place()) };
  }

  /** The name of a fixed chain that tries the plan. */
  #target(plan: Plan, place: string): string {
    const { name, chains, maps } = this.#known.ofPlan(plan, () => this.#makeTarget(plan, place));
    for (const chain of chains) this.chains.set(chain.name, chain);
    for (const map of maps) this.maps.push(map);
    return name;
  }

  #makeTarget(plan: Plan, place: string): Target {
    const inner = new Builder(this.#root, this.#fields, this.#known);
    const rules = inner.rules(plan, place);
    const content = rules.map(({ statement }) => statementKey(statement)).join(' ');
    const chain = this.#known.get(`${place} ${content}`, () => ({
      name: `${place}-${shortHash(10, content)}`,
      base: null,
      fixed: true,
      rules,
      source: null,
      ruleId: null,
    }));
    return { name: chain.name, chains: [...inner.chains.values(), chain], maps: inner.maps };
  }
}

function ids(items: readonly Item[]): string[] {
  return items.map(({ id }) => id);
}

function plain(statement: Statement): NftRule {
  return { matches: [], counter: false, statement, comment: null };
}

/** Of the statements of an index. */
function statementKey(statement: Statement): string {
  switch (statement.kind) {
    case 'portMap':
    case 'addressMap':
      return statement.map;
    case 'jump':
    case 'goto':
      return statement.chain;
    default:
      throw new Error(`${statement.kind} is no statement of an index`);
  }
}

function setPort(keys: Uint8Array, index: number, port: number): void {
  keys[2 * index] = port >> 8;
  keys[2 * index + 1] = port & 255;
}

/** Only the verdicts that come up, in the order they do. */
function used(
  numbers: ArrayLike<number>,
  verdicts: readonly ChainVerdict[],
): Pick<VerdictMap, 'targets' | 'verdicts'> {
  const found: ChainVerdict[] = [];
  const known = new Int32Array(verdicts.length).fill(-1);
  const targets = new Uint32Array(numbers.length);
  for (let i = 0; i < numbers.length; i++) {
    const number = numbers[i] ?? -1;
    const verdict = verdicts[number];
    if (verdict === undefined) throw new RangeError(`no verdict ${number}`);
    if (known[number] === -1) known[number] = found.push(verdict) - 1;
    targets[i] = known[number] ?? 0;
  }
  return { targets, verdicts: found };
}

function fixedMap(
  name: string,
  content: Pick<VerdictMap, 'family' | 'keys' | 'targets' | 'verdicts'>,
): VerdictMap {
  const { keys, targets, verdicts } = content;
  const hash = shortHash(10, Buffer.from(keys).toString('base64'), [...targets], verdicts);
  return { name: `${name}-${hash}`, interval: true, fixed: true, ...content };
}
