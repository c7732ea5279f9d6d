import { type Address, type AddressRange, addressKey, type Family } from '../address.ts';
import { countOf, type Gateway, isInAny, ofFamily, type Policy } from './egress-objects.ts';

/** A policy with the gateway that it may use. */
export interface Claim {
  readonly policy: Policy;
  readonly gateway: Gateway;
}

/** Which addresses of a family a policy may leave with. */
type Addresses =
  | { readonly kind: 'none'; readonly reasons: readonly string[] }
  | {
      readonly kind: 'some';
      readonly admits: (address: Address) => boolean;
      /** The address, where there is but one. */
      readonly only: Address | undefined;
      /** The manifests leave open whether anything is left for the policy. */
      readonly mayLack: boolean;
    };

const NO_ADDRESS: Addresses = { kind: 'none', reasons: ['no-address'] };

/**
 * What docs/egress.md says of the addresses of a policy of a Floating gateway. An
 * address in a status stays; one that must be dealt out may be any that no other policy has or
 * names.
 */
export function addressesOf(claim: Claim, family: Family, claims: readonly Claim[]): Addresses {
  const { policy, gateway } = claim;
  const pool = ofFamily(gateway.pool, family);
  const fixed = policy.fixed.find((address) => address.family === family);
  const lacks = [
    ...(pool.length === 0 ? ['no-family'] : []),
    ...(policy.allocation === 'Fixed' && fixed === undefined ? ['no-family'] : []),
  ];
  if (lacks.length > 0) {
    const isFixedElsewhere = policy.allocation === 'Fixed' && fixed !== undefined;
    return { kind: 'none', reasons: isFixedElsewhere ? [...lacks, 'no-address'] : lacks };
  }
  const others = claims.filter((one) => one.policy !== policy && one.gateway === gateway);
  const scene = { policy, pool, family, others, defaults: gateway.defaults };
  if (fixed !== undefined && policy.allocation === 'Fixed') return ofFixed(scene, fixed);
  return policy.allocation === 'Shared' ? ofShared(scene) : ofDedicated(scene);
}

interface Scene {
  readonly policy: Policy;
  readonly pool: readonly AddressRange[];
  readonly family: Family;
  readonly others: readonly Claim[];
  readonly defaults: readonly Address[];
}

/** A Fixed address goes to its policy, unless another has it or names it too. */
function ofFixed({ policy, pool, family, others, defaults }: Scene, fixed: Address): Addresses {
  if (!isInAny(pool, fixed)) return NO_ADDRESS;
  if (includes(defaults, fixed)) return exactly(fixed, true);
  const rivals = others.filter(
    ({ policy: other }) => includes(namedBy(other), fixed) || includes(keptBy(other, pool, family), fixed),
  );
  if (
    rivals.length === 0 ||
    rivals.every((rival) => rival.policy.isAudit && !includes(rival.policy.has, fixed))
  )
    return exactly(fixed, rivals.length > 0);
  if (mayShareFixed(policy)) {
    const isNamedOnly = rivals.every(
      (rival) => mayShareFixed(rival.policy) && includes(namedBy(rival.policy), fixed),
    );
    return exactly(fixed, !isNamedOnly);
  }
  const has = includes(policy.has, fixed);
  const kept = surelyKept(
    others.map((other) => other.policy),
    pool,
    family,
  );
  if (includes(kept, fixed) && !has) return NO_ADDRESS;
  const mayHave = rivals.some((rival) => includes(keptBy(rival.policy, pool, family), fixed));
  return exactly(fixed, !has || mayHave);
}

/** All Shared policies of a gateway have its default address. */
function ofShared({ policy, pool, family, others, defaults }: Scene): Addresses {
  const said = defaults.find((address) => address.family === family && isInAny(pool, address));
  if (said !== undefined) return exactly(said, false);
  const sharing = [policy, ...others.map((other) => other.policy)].filter(isShared);
  const rest = others.map((other) => other.policy).filter((other) => !isShared(other));
  const kept = unique(sharing.flatMap((one) => keptBy(one, pool, family)));
  const isContested = kept.some((address) => rest.some((other) => includes(other.has, address)));
  if (kept.length > 0 && !isContested) return among(kept, false);
  return either(kept, free(pool, family, rest, BigInt(demand(rest, pool, family))));
}

/** Addresses that are nobody else's. */
function ofDedicated({ policy, pool, family, others, defaults }: Scene): Addresses {
  const all = others.map((other) => other.policy);
  const mine = unique(keptBy(policy, pool, family));
  const isContested = mine.some(
    (address) => includes(defaults, address) || all.some((other) => includes(other.has, address)),
  );
  if (mine.length >= policy.count && !isContested) return among(mine, false);
  const dealt = free(pool, family, all, BigInt(demand(all, pool, family) + policy.count - 1), defaults);
  // With fewer than it asks for, it keeps those and may get more.
  const found = either(mine, dealt);
  return found.kind === 'some' && mine.length > 0 && !isContested ? { ...found, mayLack: false } : found;
}

/** Addresses that it may keep, or, where it cannot, what is left. */
function either(kept: readonly Address[], dealt: Addresses): Addresses {
  if (kept.length === 0) return dealt;
  if (dealt.kind === 'none') return among(kept, true);
  return { ...dealt, admits: (address) => includes(kept, address) || dealt.admits(address) };
}

/** What the pool has left beside what others have or name; `wanted` more may go to others. */
function free(
  pool: readonly AddressRange[],
  family: Family,
  others: readonly Policy[],
  wanted: bigint,
  defaults: readonly Address[] = [],
): Addresses {
  // An Audit policy is as if absent: whether it is given anything is left open.
  const enforced = others.filter((other) => !other.isAudit);
  const ofOthers = (kept: readonly Address[], list: readonly Policy[]) =>
    unique([...defaults, ...kept, ...list.flatMap(namedBy)]).filter((address) => isInAny(pool, address));
  const taken = ofOthers(surelyKept(enforced, pool, family), enforced);
  const all = others.flatMap((other) => keptBy(other, pool, family));
  const left = countOf(pool) - BigInt(taken.length);
  if (left <= 0n) return NO_ADDRESS;
  const surely = countOf(pool) - BigInt(ofOthers(all, others).length) - wanted;
  return {
    kind: 'some',
    admits: (address) => isInAny(pool, address) && !includes(taken, address),
    only: undefined,
    mayLack: surely <= 0n,
  };
}

/** Of Shared policies whose statuses differ, one address stays, and which is left open. */
function surelyKept(policies: readonly Policy[], pool: readonly AddressRange[], family: Family): Address[] {
  const [shared, own] = [policies.filter(isShared), policies.filter((policy) => !isShared(policy))];
  const sharing = unique(shared.flatMap((policy) => keptBy(policy, pool, family)));
  return [...(sharing.length > 1 ? [] : sharing), ...own.flatMap((policy) => keptBy(policy, pool, family))];
}

/** How many addresses others may get that have none: of Dedicated policies, and the default. */
function demand(others: readonly Policy[], pool: readonly AddressRange[], family: Family): number {
  const dedicated = others.filter(({ allocation }) => allocation === 'Dedicated');
  const missing = dedicated.map((other) => Math.max(0, other.count - keptBy(other, pool, family).length));
  return missing.reduce((sum, count) => sum + count, 1);
}

/** Two policies of egressgateway.spidernet.io may name one address. */
export function mayShareFixed({ apiGroup, allocation }: Policy): boolean {
  return apiGroup === 'egressgateway.spidernet.io' && allocation === 'Fixed';
}

function isShared({ allocation }: Policy): boolean {
  return allocation === 'Shared';
}

/** The addresses of its status that the policy can keep. */
function keptBy(policy: Policy, pool: readonly AddressRange[], family: Family): Address[] {
  const kept = policy.has.filter((address) => address.family === family && isInAny(pool, address));
  if (policy.allocation !== 'Fixed') return kept;
  return kept.filter((address) => includes(policy.fixed, address));
}

function namedBy({ allocation, fixed }: Policy): readonly Address[] {
  return allocation === 'Fixed' ? fixed : [];
}

function includes(list: readonly Address[], { family, value }: Address): boolean {
  return list.some((one) => one.family === family && one.value === value);
}

function unique(list: readonly Address[]): Address[] {
  return [...new Map(list.map((address) => [addressKey(address), address])).values()];
}

function exactly(address: Address, mayLack: boolean): Addresses {
  return among([address], mayLack);
}

function among(list: readonly Address[], mayLack: boolean): Addresses {
  const only = list.length === 1 ? list[0] : undefined;
  return { kind: 'some', admits: (address) => includes(list, address), only, mayLack };
}
