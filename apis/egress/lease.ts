/** Leases of floating addresses (docs/egress.md), beside the messages of apis/heartbeat.ts. */
import type { EgressGateway } from './objects.ts';

/**
 * A reason that moves nothing: another host has an address of the node's slots, and would have it
 * beside every other node too.
 */
export const ADDRESS_CONFLICT = 'AddressConflict';

/** The name of a gateway in leases: unique over the API groups. */
export function leaseName({ name }: Pick<EgressGateway, 'name'>): string {
  return name;
}

/** While a node that owns a slot waits for its grant, it asks so often (milliseconds). */
export const ASK_FOR_GRANT = 25;

/** Milliseconds after the end of a lease in which nobody else gets the address. */
export const LEASE_MARGIN = 500;
