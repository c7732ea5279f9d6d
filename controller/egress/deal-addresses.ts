import type { EgressGateway, EgressPolicy } from '../../apis/egress/objects.ts';
import { FAMILIES, type Family, formatAddress, parseAddress } from '../../lib/net/address.ts';
import { isInPool, type Pool, poolAddresses } from '../../lib/net/address-pool.ts';
import { HolderRecords } from './order.ts';

export type FamilyAddresses = Readonly<Record<Family, readonly string[]>>;

/**
 * Deals the pool's addresses out to the policies of a floating gateway: first what statuses say,
 * then Fixed ones, the one of all Shared policies, and Dedicated ones, each in the order of the
 * policies. A policy keeps an address as long as the pool has it; a policy without an address in a
 * family has none left, or must not have it. An address that another policy had last, by the
 * gateway's status, is dealt to nobody else.
 *
 * @param policies in evaluation order
 */
export function dealAddresses(
  gateway: EgressGateway,
  pool: Pool,
  policies: readonly EgressPolicy[],
): ReadonlyMap<EgressPolicy, FamilyAddresses> {
  const deal = new Deal(gateway, pool, policies);
  const of = (allocation: string): readonly EgressPolicy[] =>
    policies.filter(({ spec }) => spec.address.allocation === allocation);
  const [fixed, shared, dedicated] = [of('Fixed'), of('Shared'), of('Dedicated')];
  deal.shareKept(shared, [...fixed, ...dedicated]);
  for (const policy of policies) if (policy.spec.address.allocation !== 'Shared') deal.keep(policy);
  for (const policy of fixed) deal.fix(policy);
  if (shared.length > 0) deal.shareFree();
  for (const policy of dedicated) deal.dedicate(policy);
  return new Map([
    ...[...fixed, ...dedicated].map((policy) => [policy, deal.of(policy)] as const),
    ...shared.map((policy) => [policy, deal.shared()] as const),
  ]);
}

/** Those of the addresses that the gateway's status has for the policy, or the policy's own. */
export function written(
  { status }: EgressGateway,
  dealt: ReadonlyMap<EgressPolicy, FamilyAddresses>,
): ReadonlyMap<EgressPolicy, FamilyAddresses> {
  const records = new HolderRecords(status);
  return new Map(
    [...dealt].map(([policy, own]) => {
      const known = new Set([...records.inUse(policy), ...toldAddresses(policy)]);
      const of = (family: Family): readonly string[] => own[family].filter((address) => known.has(address));
      return [policy, { 4: of(4), 6: of(6) }];
    }),
  );
}

class Deal {
  readonly #gateway: EgressGateway;
  readonly #pool: Pool;
  /** The holder of each address: a policy, or the gateway for its Shared policies. */
  readonly #holders = new Map<string, EgressPolicy | EgressGateway>();
  /** The addresses of statuses that their policies could keep. */
  readonly #told: ReadonlySet<string>;
  readonly #own = new Map<EgressPolicy, Record<Family, string[]>>();
  readonly #shared: Record<Family, string | null> = { 4: null, 6: null };
  readonly #records: HolderRecords;
  /** Addresses in the statuses of Shared policies. */
  readonly #ofShared: ReadonlySet<string>;
  /** The next addresses to try: none of those before gets free during one deal. */
  readonly #next: Record<Family, Iterator<string>>;

  constructor(gateway: EgressGateway, pool: Pool, policies: readonly EgressPolicy[]) {
    this.#gateway = gateway;
    this.#pool = pool;
    this.#told = new Set(policies.flatMap(toldAddresses));
    this.#records = new HolderRecords(gateway.status);
    const shared = policies.filter(({ spec }) => spec.address.allocation === 'Shared');
    this.#ofShared = new Set(shared.flatMap(toldAddresses));
    this.#next = { 4: offered(gateway, pool, 4), 6: offered(gateway, pool, 6) };
  }

  of(policy: EgressPolicy): FamilyAddresses {
    return this.#ownOf(policy);
  }

  shared(): FamilyAddresses {
    const list = (address: string | null): readonly string[] => (address === null ? [] : [address]);
    return { 4: list(this.#shared[4]), 6: list(this.#shared[6]) };
  }

  /**
   * The address that most of the policies have; one that the status of another policy names too
   * only if there is no other.
   */
  shareKept(policies: readonly EgressPolicy[], others: readonly EgressPolicy[]): void {
    const addressesOf = (some: readonly EgressPolicy[], family: Family): string[] =>
      some.flatMap(({ status }) => ofFamily(status?.addresses ?? [], family));
    for (const family of FAMILIES) {
      const contested = new Set(addressesOf(others, family));
      const uses = Map.groupBy(addressesOf(policies, family), (address) => address);
      const rank = (address: string, count: number): number => (contested.has(address) ? 0 : 1e6) + count;
      const ranked = [...uses].map(([address, all]) => ({ address, rank: rank(address, all.length) }));
      for (const { address } of ranked.sort((a, b) => b.rank - a.rank)) this.#share(family, address);
    }
  }

  /** Shared addresses of the families that have none yet. */
  shareFree(): void {
    for (const family of FAMILIES) {
      for (const address of ofFamily(this.#records.ofHolder(this.#gateway), family))
        this.#share(family, address);
      if (this.#shared[family] === null) this.#share(family, this.#free(family, this.#gateway));
    }
  }

  #share(family: Family, address: string | null): void {
    if (address === null || this.#shared[family] !== null) return;
    if (this.#claim(address, this.#gateway)) this.#shared[family] = address;
  }

  /** Gives a Fixed or Dedicated policy the addresses of its status, then those it had last. */
  keep(policy: EgressPolicy): void {
    const { allocation, fixed, count } = policy.spec.address;
    const told = [...(policy.status?.addresses ?? []), ...this.#records.ofHolder(policy)];
    for (const family of FAMILIES) {
      const wanted = allocation === 'Fixed' ? 1 : count;
      const named = namedAddress(fixed, family);
      for (const address of new Set(ofFamily(told, family))) {
        if (allocation === 'Fixed' && address !== named) continue;
        if (this.#ownOf(policy)[family].length < wanted) this.#assign(policy, family, address);
      }
    }
  }

  fix(policy: EgressPolicy): void {
    for (const family of FAMILIES) {
      const address = namedAddress(policy.spec.address.fixed, family);
      if (address !== null && this.#ownOf(policy)[family].length === 0) this.#assign(policy, family, address);
    }
  }

  dedicate(policy: EgressPolicy): void {
    const { count } = policy.spec.address;
    const own = this.#ownOf(policy);
    for (const family of FAMILIES) {
      for (let missing = count - own[family].length; missing > 0; missing--) {
        const address = this.#free(family, policy);
        if (address === null) break;
        this.#assign(policy, family, address);
      }
    }
  }

  #assign(policy: EgressPolicy, family: Family, address: string): void {
    if (this.#claim(address, policy)) this.#ownOf(policy)[family].push(address);
  }

  #claim(address: string, by: EgressPolicy | EgressGateway): boolean {
    if (!isInPool(this.#pool, address) || this.#isHeldBack(address, by)) return false;
    const holder = this.#holders.get(address);
    if (holder === undefined) this.#holders.set(address, by);
    return holder === undefined || holder === by;
  }

  /** Somebody else had it last. What the claimant's own status names it has. */
  #isHeldBack(address: string, by: EgressPolicy | EgressGateway): boolean {
    if (!this.#records.isOfAnother(address, by)) return false;
    return by.kind === 'EgressGateway' ? !this.#ofShared.has(address) : !toldAddresses(by).includes(address);
  }

  #free(family: Family, by: EgressPolicy | EgressGateway): string | null {
    for (;;) {
      const { value, done } = this.#next[family].next();
      if (done === true) return null;
      if (this.#isFree(value, by)) return value;
    }
  }

  /** Addresses of a status are kept for their policy, also if it cannot have them now. */
  #isFree(address: string, by: EgressPolicy | EgressGateway): boolean {
    if (this.#records.isOfAnother(address, by)) return false;
    return !this.#holders.has(address) && !this.#told.has(address);
  }

  #ownOf(policy: EgressPolicy): Record<Family, string[]> {
    let own = this.#own.get(policy);
    if (own === undefined) {
      own = { 4: [], 6: [] };
      this.#own.set(policy, own);
    }
    return own;
  }
}

/**
 * The addresses of the policy's status that it could keep: of a Fixed policy those that it names.
 */
function toldAddresses({ spec: { address }, status }: EgressPolicy): string[] {
  return FAMILIES.flatMap((family) => {
    const named = namedAddress(address.fixed, family);
    const told = ofFamily(status?.addresses ?? [], family);
    return address.allocation === 'Fixed' ? told.filter((one) => one === named) : told;
  });
}

/** Those that the gateway's status names first: somebody had them. */
function* offered({ status }: EgressGateway, pool: Pool, family: Family): Generator<string> {
  const told = ofFamily(status?.slots.flatMap(({ addresses }) => addresses) ?? [], family);
  yield* told.filter((address) => isInPool(pool, address));
  yield* poolAddresses(pool, family);
}

/** In the form of formatAddress. */
function ofFamily(addresses: readonly string[], family: Family): string[] {
  return addresses.flatMap((text) => {
    const address = parseAddress(text);
    return address?.family === family ? formatAddress(address) : [];
  });
}

/** The address of a pair in the form of formatAddress; null: the pair has none of the family. */
export function namedAddress(
  pair: { readonly ipv4?: string; readonly ipv6?: string } | undefined,
  family: Family,
): string | null {
  const text = family === 4 ? pair?.ipv4 : pair?.ipv6;
  const address = text === undefined ? null : parseAddress(text);
  return address === null ? null : formatAddress(address);
}
