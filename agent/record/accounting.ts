import { isRecordChain, type Ruleset } from '../render/ruleset.ts';

/** The owner of each chain, by the name of the chain. */
export type Owners = ReadonlyMap<string, ChainOwner>;

/** The part of nftables-napi's TableSnapshot that is read. */
export interface CountedTable {
  readonly chains: readonly {
    readonly name: string;
    readonly handle: number;
    readonly rules: readonly { readonly packets: bigint | null; readonly bytes: bigint | null }[];
  }[];
}

export interface RuleTotals extends Count {
  /** ISO 8601; null: never. */
  readonly lastHit: string | null;
  /**
   * `logged`: the packets that matched while the rule had logging. `recorded`: those of them that
   * reached its record chain. The difference was not recorded.
   */
  readonly logged: number;
  readonly recorded: number;
}

interface Count {
  readonly packets: number;
  readonly bytes: number;
}

/**
 * `matched`: the rule's own chain. `logged`: the same, with logging. `record`: the chain that
 * writes the record.
 */
type ChainKind = 'matched' | 'logged' | 'record';

export interface ChainOwner {
  readonly rule: string;
  readonly kind: ChainKind;
}

/** A chain as of its last reading. */
interface SavedChain extends ChainOwner, Count {
  readonly name: string;
  readonly handle: number;
}

/** Content of counters.json. */
export interface SavedAccounts {
  readonly chains: readonly SavedChain[];
  /** By rule id: the counters of deleted chains. */
  readonly rules: Readonly<Record<string, RuleTotals>>;
  /** By rule id: since when it is counted (ISO 8601); absent: earlier versions did not save it. */
  readonly since?: Readonly<Record<string, string>>;
}

const NOTHING: RuleTotals = { packets: 0, bytes: 0, lastHit: null, logged: 0, recorded: 0 };
export const NO_ACCOUNTS: SavedAccounts = { chains: [], rules: {} };

/**
 * Packets and bytes of each rule for as long as the rule exists. The kernel counts per chain (with
 * iptables: per rule, see apply/iptables/saved.ts), and a chain is deleted when the text of its
 * rule changes, when the table is replaced, and at a reboot. The last counters of a deleted chain
 * are added to those of its rule.
 *
 * Pure: readings and times are parameters. A chain is identified by its handle, since its name may
 * be used again by a new chain, which starts at 0.
 */
export class Accounting {
  readonly #bases: Map<string, RuleTotals>;
  #chains: Map<number, SavedChain>;
  #owners: Owners;
  /**
   * Rules with a record since the last reading; its time is more exact than that of the reading.
   */
  readonly #recent = new Set<string>();
  /** The time of the first reading with a chain of the rule, by rule id. */
  readonly #since: Map<string, string>;

  /** Continues from saved counters. Throws a TypeError if `saved` does not have the right form. */
  constructor(saved: unknown = NO_ACCOUNTS) {
    requireAccounts(saved);
    this.#bases = new Map(Object.entries(saved.rules));
    this.#chains = new Map(saved.chains.map((chain) => [chain.handle, chain]));
    this.#since = new Map(Object.entries(saved.since ?? {}));
    this.#owners = new Map<string, ChainOwner>(saved.chains.map((chain) => [chain.name, chain]));
  }

  /** Sets the chains that are in force. */
  know(owners: Owners): void {
    this.#owners = owners;
  }

  /**
   * A reading of the whole table; null: there is no table. `time` (ISO 8601) becomes the last hit
   * of the rules whose counters grew.
   */
  read(table: CountedTable | null, time: string): void {
    const now = this.#count(table?.chains ?? [], time);
    for (const gone of this.#chains.values()) this.#update(gone.rule, (base) => plus(base, gone));
    this.#chains = now;
    this.#recent.clear();
  }

  /** A reading of some of the kernel's chains; the others stay as they were. */
  readSome(chains: CountedTable['chains'], time: string): void {
    for (const [handle, chain] of this.#count(chains, time)) {
      const replaced = this.#chains.get(handle);
      if (replaced !== undefined) this.#update(replaced.rule, (base) => plus(base, replaced));
      this.#chains.set(handle, chain);
    }
  }

  /** Names of the chains of the ruleset that no reading has contained yet. */
  unread(): string[] {
    const names = new Set<string>();
    for (const { name } of this.#chains.values()) names.add(name);
    return [...this.#owners.keys()].filter((name) => !names.has(name));
  }

  /** A record of this rule was written: `time` (ISO 8601, microseconds) becomes its last hit. */
  hit(rule: string, time: string): void {
    this.#recent.add(rule);
    this.#update(rule, (base) => ({ ...base, lastHit: time }));
  }

  /** Forgets all rules except these. */
  keep(rules: ReadonlySet<string>): void {
    for (const rule of this.#bases.keys()) if (!rules.has(rule)) this.#bases.delete(rule);
    for (const rule of this.#since.keys()) if (!rules.has(rule)) this.#since.delete(rule);
    for (const [handle, { rule }] of this.#chains) if (!rules.has(rule)) this.#chains.delete(handle);
    const isKept = ({ rule }: ChainOwner): boolean => rules.has(rule);
    // Usually all are kept.
    if (!this.#owners.values().every(isKept)) {
      this.#owners = new Map(this.#owners.entries().filter(([, owner]) => isKept(owner)));
    }
  }

  /** Counters by rule id; a rule that was never hit may be absent. */
  totals(): Map<string, RuleTotals> {
    const totals = new Map(this.#bases);
    for (const chain of this.#chains.values()) {
      totals.set(chain.rule, plus(totals.get(chain.rule) ?? NOTHING, chain));
    }
    return totals;
  }

  /** By rule id: since when it is counted (ISO 8601). */
  since(): ReadonlyMap<string, string> {
    return this.#since;
  }

  save(): SavedAccounts {
    return {
      chains: [...this.#chains.values()],
      rules: Object.fromEntries(this.#bases),
      since: Object.fromEntries(this.#since),
    };
  }

  #update(rule: string, change: (before: RuleTotals) => RuleTotals): void {
    this.#bases.set(rule, change(this.#bases.get(rule) ?? NOTHING));
  }

  /**
   * The current counters, by handle. Chains that continue from their last reading are removed from
   * `chains`.
   */
  #count(found: CountedTable['chains'], time: string): Map<number, SavedChain> {
    const now = new Map<number, SavedChain>();
    for (const { name, handle, rules } of found) {
      const before = this.#chains.get(handle);
      const isSame = before !== undefined && isSameChain(name, before.name);
      const known = this.#owners.get(name);
      const owner = known ?? (isSame ? before : undefined);
      if (owner === undefined) continue;
      if (!this.#since.has(owner.rule)) this.#since.set(owner.rule, time);
      const packets = sum(rules.map((rule) => rule.packets));
      const bytes = sum(rules.map((rule) => rule.bytes));
      const chain = { rule: owner.rule, kind: owner.kind, name, handle, packets, bytes };
      const goesOn = isSame && packets >= before.packets && bytes >= before.bytes;
      // With iptables, the counting rule stays when logging is added elsewhere for its policy rule:
      // the packets that it counted before were not to be recorded.
      if (goesOn && owner.rule === before.rule && owner.kind !== before.kind) {
        this.#update(owner.rule, (base) => minus(plus(base, before), { ...before, kind: owner.kind }));
      }
      const grew = packets > (goesOn ? before.packets : 0);
      if (grew && chain.kind !== 'record' && !this.#recent.has(chain.rule)) {
        this.#update(chain.rule, (base) => ({ ...base, lastHit: time }));
      }
      now.set(handle, chain);
      if (goesOn) this.#chains.delete(handle);
    }
    return now;
  }
}

function minus(total: RuleTotals, chain: SavedChain): RuleTotals {
  return plus(total, { ...chain, packets: -chain.packets, bytes: -chain.bytes });
}

function plus(total: RuleTotals, { kind, packets, bytes }: SavedChain): RuleTotals {
  if (kind === 'record') return { ...total, recorded: total.recorded + packets };
  return {
    ...total,
    packets: total.packets + packets,
    bytes: total.bytes + bytes,
    logged: total.logged + (kind === 'logged' ? packets : 0),
  };
}

/**
 * Before a chain is replaced by another of the same name, the transaction renames it to stale-N
 * (apply/plan/transaction.ts).
 */
function isSameChain(name: string, before: string): boolean {
  return name === before || name.startsWith('stale-');
}

/** As numbers: 2 ** 53 bytes are 9 petabytes. */
function sum(counts: readonly (bigint | null)[]): number {
  return counts.reduce((total, count) => total + Number(count ?? 0n), 0);
}

function requireAccounts(saved: unknown): asserts saved is SavedAccounts {
  const { chains, rules, since = {} } = Object(saved) as Partial<SavedAccounts>;
  const isRule = (rule: RuleTotals) =>
    [rule.packets, rule.bytes, rule.logged, rule.recorded].every(Number.isFinite);
  const isChain = ({ name, rule, handle, packets, bytes }: SavedChain) =>
    typeof name === 'string' && typeof rule === 'string' && [handle, packets, bytes].every(Number.isFinite);
  if (
    !Array.isArray(chains) ||
    !chains.every(isChain) ||
    !Object.values<RuleTotals>(Object(rules)).every(isRule) ||
    !Object.values<unknown>(Object(since)).every((time) => typeof time === 'string')
  ) {
    throw new TypeError('the saved counters are not valid');
  }
}

/**
 * The owners of the chains of a ruleset: each policy rule has one chain, and with logging a second
 * one that writes its record. So have spoofed packets.
 */
export function nftOwners({ chains }: Ruleset): Owners {
  const recording = new Set<string>();
  for (const chain of chains.values())
    if (chain.ruleId !== null && isRecordChain(chain)) recording.add(chain.ruleId);
  const owners = new Map<string, ChainOwner>();
  for (const chain of chains.values()) {
    const { name, ruleId } = chain;
    if (ruleId === null) continue;
    const kind = isRecordChain(chain) ? 'record' : recording.has(ruleId) ? 'logged' : 'matched';
    owners.set(name, { rule: ruleId, kind });
  }
  return owners;
}
