import { formatAddress, parseAddress } from '../../../lib/net/address.ts';
import { asFields, asList } from '../../schema/json-schema.ts';
import type { EgressGatewayStatus, EgressPolicyStatus } from '../objects.ts';

/**
 * Converts what the controller of egressgateway.spidernet.io wrote into an EgressGateway, so that
 * addresses keep their owners: one slot for each node that has addresses, named after it. A node
 * that policies leave by with its own address has the first slot, which decides that. Values that
 * cannot be read are left out: a status is not for its user to correct. Null: nothing is known.
 */
export function toGatewayStatus(raw: unknown): EgressGatewayStatus | null {
  const given = new Set<string>();
  const nodes = asList(asFields(raw)?.nodeList).flatMap((item) => {
    const { name, status, ready, active, eips, epis } = asFields(item) ?? {};
    if (typeof name !== 'string' || name === '') return [];
    // Some versions call the list `epis`; v1 has `active`.
    const pairs = asList(eips ?? epis);
    const own = pairs.flatMap(addressesOf).filter((address) => !given.has(address));
    for (const address of own) given.add(address);
    const usesOwn = active === true || pairs.some((pair) => addressesOf(pair).length === 0);
    return [{ name, pairs, usesOwn, addresses: [...new Set(own)], ...readiness(status ?? ready) }];
  });
  if (nodes.length === 0) return null;
  const policies = nodes.flatMap(({ pairs }) => pairs.flatMap(usersOf));
  const owners = [...nodes.filter(({ usesOwn }) => usesOwn), ...nodes.filter(({ usesOwn }) => !usesOwn)];
  return {
    nodes: nodes.map(({ name, ready, reason }) => ({ name, ready, ...(reason ? { reason } : {}) })),
    slots: owners.flatMap(({ name, usesOwn, addresses }) =>
      usesOwn || addresses.length > 0 ? [{ name, node: name, epoch: 0, addresses }] : [],
    ),
    ...(policies.length === 0 ? {} : { policies }),
  };
}

/**
 * The policies that use an entry's addresses. Those of 2023 have no namespace, and are left out.
 */
function usersOf(entry: unknown): NonNullable<EgressGatewayStatus['policies']>[number][] {
  const addresses = addressesOf(entry);
  if (addresses.length === 0) return [];
  return asList(asFields(entry)?.policies).flatMap((item) => {
    const { name, namespace = '' } = asFields(item) ?? {};
    return typeof name === 'string' && typeof namespace === 'string' ? [{ namespace, name, addresses }] : [];
  });
}

/** A node of which the status says nothing is ready. */
function readiness(state: unknown): { readonly ready: boolean; readonly reason?: string } {
  if (typeof state !== 'string' || state === '') return { ready: state !== false };
  const ready = state.toLowerCase() === 'ready';
  return ready ? { ready } : { ready, reason: state };
}

/** Null: it has no address, or uses its node's. */
export function toPolicyStatus(raw: unknown): EgressPolicyStatus | null {
  const addresses = addressesOf(asFields(raw)?.eip);
  return addresses.length === 0 ? null : { addresses };
}

/** The addresses in `{ipv4, ipv6}`. */
function addressesOf(pair: unknown): string[] {
  const { ipv4, ipv6 } = asFields(pair) ?? {};
  return [ipv4, ipv6].flatMap((text) => {
    const address = typeof text === 'string' ? parseAddress(text) : null;
    return address === null ? [] : [formatAddress(address)];
  });
}
