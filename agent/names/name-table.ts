import { LRUCache } from 'lru-cache';
import type { NamesConfig } from '../../apis/config.ts';
import type { NameTable } from '../../apis/names.ts';
import { type Address, FAMILIES, parseAddress } from '../../lib/net/address.ts';
import {
  type AddressRecord,
  type FqdnPeerIndex,
  fqdnPeerIndex,
  type KnownAddress,
  type NameEntry,
  type NameSource,
  nameEntry,
  PeerUnions,
  type Resolution,
  staysUntil,
  toCanonical,
} from './name-entry.ts';
import { type SavedName, toSavedName } from './saved-names.ts';

/** Events for the log; each is reported once, when it begins. */
export interface NameReports {
  /** A name does not resolve; `addresses` of its addresses stay (0: it stands for none). */
  failing(name: string, reason: string, addresses: number): void;
  /** The last addresses of a name that does not resolve were removed. */
  givenUp(name: string): void;
  resolvesAgain(name: string): void;
  /** More was answered than a limit permits. */
  full(what: Bound, name: string): void;
  /** An answer gave a name that only wildcards match an address that these never have. */
  reserved(name: string, address: string): void;
}

/** The limits of the table. */
export interface NameLimits {
  /** Addresses of one name. */
  readonly addressesOfName: number;
  /** Names that only wildcards match. */
  readonly learntNames: number;
  /** Addresses of all those names together. */
  readonly learntAddresses: number;
  /** Addresses of all names that policies write out, together. */
  readonly addresses: number;
}
export type Bound = keyof NameLimits;

export const NAME_LIMITS: NameLimits = {
  addressesOfName: 1024,
  learntNames: 10_000,
  learntAddresses: 50_000,
  addresses: 100_000,
};
/** Limit of names that are reported to exceed a limit. */
const TOLD = 100;

export type NameTimes = Pick<NamesConfig, 'minimumTTL' | 'maximumTTL' | 'keep' | 'stale'>;

interface NameTableOptions {
  readonly times: NameTimes;
  readonly reports: NameReports;
  readonly limits?: NameLimits;
  /**
   * Whether only a name that a policy writes out may have the address; absent: no such addresses.
   */
  readonly reserved?: (address: Address) => boolean;
}

/**
 * The FQDN cache: the known addresses of names. An address stays until its TTL (within bounds) has
 * ended and `keep` seconds have passed since it was last in an answer. For a name that the agent
 * queries, the addresses of the last answer stay until the next answer, at most `stale` seconds.
 * Memory is bounded, whatever the answers. All times are the clock's, in milliseconds.
 */
export class KnownNames implements NameTable {
  readonly #times: NameTimes;
  readonly #reports: NameReports;
  readonly #limits: NameLimits;
  readonly #reserved: (address: Address) => boolean;
  readonly #keep: number;
  readonly #stale: number;
  readonly #unions = new PeerUnions();
  /** Names that policies write out; the agent queries them. */
  readonly #literals = new Map<string, NameEntry>();
  /** Names that only wildcards match; the one with the oldest answer is evicted first. */
  readonly #learnt: LRUCache<string, NameEntry>;
  readonly #counts = { literal: 0, learnt: 0 };
  readonly #told = new Set<string>();
  #index: FqdnPeerIndex = fqdnPeerIndex([]);

  constructor({ times, reports, limits = NAME_LIMITS, reserved = () => false }: NameTableOptions) {
    this.#times = times;
    this.#reports = reports;
    this.#limits = limits;
    this.#reserved = reserved;
    this.#keep = times.keep * 1000;
    this.#stale = times.stale * 1000;
    this.#learnt = new LRUCache<string, NameEntry>({
      max: limits.learntNames,
      dispose: (entry, name, reason) => {
        if (reason === 'evict') this.#tellFull('learntNames', name);
        this.#counts.learnt -= entry.addresses.size;
        this.#unions.remove(entry);
      },
    });
  }

  /** The names that policies write out, sorted. */
  get literals(): readonly string[] {
    return this.#index.literals;
  }

  /** Sets the peers; names that none of them matches are removed. */
  want(peers: readonly string[]): void {
    const before = this.#entries();
    this.#index = fqdnPeerIndex(peers);
    this.#unions.reset(peers);
    this.#literals.clear();
    this.#learnt.clear();
    this.#told.clear();
    Object.assign(this.#counts, { literal: 0, learnt: 0 });
    for (const entry of before) {
      entry.peers = this.#index.peersOf(entry.name);
      if (entry.peers.length === 0) continue;
      // The agent no longer queries it.
      if (!this.#isLiteral(entry)) entry.failing = null;
      for (const address of entry.addresses.keys())
        if (!this.#mayHave(entry, address)) entry.addresses.delete(address);
      this.#insert(entry);
    }
    this.#shrink();
  }

  /** Whether a peer matches the name. */
  wants(name: string): boolean {
    return this.#index.peersOf(name).length > 0;
  }

  /** The result of a query for a name that policies write out. */
  resolved(name: string, resolution: Resolution, now: number): void {
    const entry = this.#find(name);
    if (entry === null || !this.#isLiteral(entry)) return;
    this.#judge(entry, resolution);
    for (const family of FAMILIES) {
      const answer = resolution[family];
      if (answer.kind === 'addresses') this.#recordAll(entry, answer.records, 'resolved', now);
    }
  }

  /** The records of an answer to another process on the node. */
  learnt(name: string, records: readonly AddressRecord[], now: number): void {
    const entry = records.length === 0 ? null : this.#find(name);
    if (entry === null) return;
    this.#recordAll(entry, records, 'learnt', now);
    this.#dropIfEmpty(entry);
    this.#shrink();
  }

  /** Removes expired addresses; returns when the next one expires, null if none will. */
  sweep(now: number): number | null {
    const next = this.#entries().map((entry) => this.#sweep(entry, now));
    const first = next.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY);
    return first === Number.POSITIVE_INFINITY ? null : first;
  }

  addresses(peer: string): readonly string[] {
    return this.#unions.addresses(peer);
  }

  /** Whether the addresses of any peer changed since the last call. */
  consumeChange(): boolean {
    return this.#unions.consumeChange();
  }

  toSaved(now: number): SavedName[] {
    const known = this.#entries().filter(({ addresses }) => addresses.size > 0);
    known.sort((a, b) => (a.name < b.name ? -1 : 1));
    return known.map((entry) => toSavedName(entry, { now, keep: this.#keep }));
  }

  /** Restores the state of an earlier run for the names that peers match now. */
  fromSaved(names: readonly SavedName[], now: number): void {
    for (const name of names) this.#restore(name, now);
    this.#shrink();
  }

  #entries(): NameEntry[] {
    return [...this.#literals.values(), ...this.#learnt.values()];
  }

  #isLiteral({ name }: NameEntry): boolean {
    return this.#index.has(name);
  }

  /** The entry of a name, created if missing; null if no peer matches the name. */
  #find(name: string): NameEntry | null {
    const found = this.#literals.get(name) ?? this.#learnt.get(name);
    if (found !== undefined) return found;
    const peers = this.#index.peersOf(name);
    if (peers.length === 0) return null;
    const entry = nameEntry(name, peers);
    this.#insert(entry);
    return entry;
  }

  #insert(entry: NameEntry): void {
    if (this.#isLiteral(entry)) this.#literals.set(entry.name, entry);
    else this.#learnt.set(entry.name, entry);
    this.#unions.add(entry);
    this.#count(entry, entry.addresses.size);
  }

  #count(entry: NameEntry, by: number): void {
    this.#counts[this.#isLiteral(entry) ? 'literal' : 'learnt'] += by;
  }

  #add(entry: NameEntry, address: string, known: KnownAddress): void {
    entry.addresses.set(address, known);
    this.#count(entry, 1);
    this.#unions.touch(entry);
  }

  #delete(entry: NameEntry, address: string): void {
    entry.addresses.delete(address);
    this.#count(entry, -1);
    this.#unions.touch(entry);
  }

  #recordAll(entry: NameEntry, records: readonly AddressRecord[], source: NameSource, now: number): void {
    for (const { address, ttl } of records.slice(0, this.#limits.addressesOfName)) {
      const canonical = toCanonical(address);
      if (canonical === null) continue;
      const { text, family } = canonical;
      const expires = now + 1000 * clampTTL(ttl, this.#times);
      const known = entry.addresses.get(text);
      if (known !== undefined) {
        known.expires = Math.max(known.expires, expires);
        known.seen = now;
        if (source === 'resolved') Object.assign(known, { source, isCurrent: true });
      } else if (this.#mayHave(entry, text) && this.#makeRoom(entry, now)) {
        this.#add(entry, text, { family, expires, seen: now, source, isCurrent: source === 'resolved' });
      }
    }
  }

  #mayHave(entry: NameEntry, text: string): boolean {
    if (this.#isLiteral(entry)) return true;
    const address = parseAddress(text);
    if (address === null || !this.#reserved(address)) return true;
    this.#tell(text, () => this.#reports.reserved(entry.name, text));
    return false;
  }

  /**
   * Makes room for one more address: an old one that only `keep` holds is removed, never one within
   * its TTL. False if there is no room.
   */
  #makeRoom(entry: NameEntry, now: number): boolean {
    if (this.#isLiteral(entry) && this.#counts.literal >= this.#limits.addresses) {
      this.#tellFull('addresses', entry.name);
      return false;
    }
    if (entry.addresses.size < this.#limits.addressesOfName) return true;
    this.#tellFull('addressesOfName', entry.name);
    let oldest: string | null = null;
    let seen = now;
    for (const [address, known] of entry.addresses) {
      if (known.expires > now || known.seen >= seen) continue;
      oldest = address;
      seen = known.seen;
    }
    if (oldest === null) return false;
    this.#delete(entry, oldest);
    return true;
  }

  /** Removes the learnt names with the oldest answers until the limit holds. */
  #shrink(): void {
    while (this.#counts.learnt > this.#limits.learntAddresses && this.#learnt.size > 1) {
      const [oldest = ''] = this.#learnt.rkeys();
      this.#tellFull('learntAddresses', oldest);
      this.#learnt.delete(oldest);
    }
  }

  #dropIfEmpty(entry: NameEntry): void {
    if (entry.addresses.size === 0 && !this.#isLiteral(entry)) this.#learnt.delete(entry.name);
  }

  #tellFull(what: Bound, name: string): void {
    this.#tell(what === 'addressesOfName' ? name : what, () => this.#reports.full(what, name));
  }

  #tell(key: string, report: () => void): void {
    if (this.#told.has(key) || this.#told.size >= TOLD) return;
    this.#told.add(key);
    report();
  }

  /** Updates whether the name resolves, and which addresses the last answer no longer contains. */
  #judge(entry: NameEntry, resolution: Resolution): void {
    const resolves = FAMILIES.some((family) => resolution[family].kind === 'addresses');
    for (const family of FAMILIES) {
      const { kind } = resolution[family];
      // If not known, the addresses of the last answer stay.
      const isKnown = kind === 'addresses' || (kind === 'none' && resolves);
      if (!isKnown) continue;
      for (const known of entry.addresses.values()) if (known.family === family) known.isCurrent = false;
    }
    if (resolves) {
      if (entry.failing !== null) this.#reports.resolvesAgain(entry.name);
      entry.failing = null;
      return;
    }
    const answer = resolution[4];
    const reason = answer.kind === 'addresses' ? '' : answer.reason;
    if (entry.failing === null) this.#reports.failing(entry.name, reason, entry.addresses.size);
    entry.failing = reason;
  }

  /** Removes expired addresses of the entry; returns when the next one expires. */
  #sweep(entry: NameEntry, now: number): number {
    let next = Number.POSITIVE_INFINITY;
    const before = entry.addresses.size;
    const stay = { keep: this.#keep, stale: this.#isLiteral(entry) ? this.#stale : 0 };
    for (const [address, known] of entry.addresses) {
      const until = staysUntil(entry, known, stay);
      // An address may become the node's own, or the API server's.
      if (until <= now || !this.#mayHave(entry, address)) this.#delete(entry, address);
      else next = Math.min(next, until);
    }
    if (before > 0 && entry.addresses.size === 0) {
      if (entry.failing !== null) this.#reports.givenUp(entry.name);
      this.#dropIfEmpty(entry);
    }
    return next;
  }

  #restore({ name, failing, addresses }: SavedName, now: number): void {
    const recent = addresses.filter(({ seen }) => seen + this.#stale > now);
    const entry = recent.length === 0 ? null : this.#find(name);
    if (entry === null) return;
    entry.grace = now + this.#keep;
    entry.failing = this.#isLiteral(entry) ? failing : null;
    for (const { address, source, seen, expires } of recent.slice(0, this.#limits.addressesOfName)) {
      const canonical = toCanonical(address);
      if (canonical === null || entry.addresses.has(canonical.text)) continue;
      if (!this.#mayHave(entry, canonical.text) || !this.#makeRoom(entry, now)) continue;
      this.#add(entry, canonical.text, {
        family: canonical.family,
        source,
        // If the clock was set back, the addresses must not stay forever.
        seen: Math.min(seen, now),
        expires: Math.min(expires, now + 1000 * this.#times.maximumTTL),
        isCurrent: true,
      });
    }
  }
}

/**
 * The TTL within the bounds, in seconds. A TTL above 2 ** 31 - 1 counts as 0 (RFC 2181 section 8);
 * so does a value that is not a number.
 */
export function clampTTL(ttl: number, { minimumTTL, maximumTTL }: NameTimes): number {
  const isUsable = ttl >= 0 && ttl < 2 ** 31;
  return Math.min(Math.max(isUsable ? ttl : 0, minimumTTL), maximumTTL);
}
