import { parseAddress } from '../../../lib/net/address.ts';
import { present } from '../../../lib/sharing/present.ts';
import type { EgressGatewayStatus, EgressPolicyStatus, HeldAddress } from '../../egress/objects.ts';
import { EGRESS_GATEWAY_STATUS_SCHEMA, EGRESS_POLICY_STATUS_SCHEMA } from '../../schema/egress-status.ts';
import { asFields, asList, checkSchema, type JsonSchema } from '../../schema/json-schema.ts';
import { type FieldPath, type Findings, show } from '../problem.ts';
import { canonicalAddress } from './addresses.ts';

/**
 * The status is what a controller decided before. It never makes an object invalid: a broken one
 * is ignored with a notice. Null: there is none, or it says nothing of nodes and slots.
 */
export function readGatewayStatus(raw: unknown, found: Findings): EgressGatewayStatus | null {
  const fields = asFields(raw);
  if (raw === undefined || (fields !== null && fields.nodes === undefined && fields.slots === undefined)) {
    return null;
  }
  const addresses = asList(fields?.slots).flatMap((slot, at) => {
    const path = ['slots', at, 'addresses'];
    return asList(asFields(slot)?.addresses).map((text, index) => ({ text, path: [...path, index] }));
  });
  const held = asList(fields?.addresses).map((one, at) => {
    return { text: asFields(one)?.address, path: ['addresses', at, 'address'] };
  });
  if (isBroken(EGRESS_GATEWAY_STATUS_SCHEMA, raw, [addresses, held], found)) return null;
  // The checks above guarantee the type.
  const { nodes = [], slots = [], addresses: holders } = raw as Partial<EgressGatewayStatus>;
  return {
    nodes: nodes.map(({ name, ready, reason }) => {
      return { name, ready, ...present({ reason }) };
    }),
    slots: slots.map(({ addresses, name, node, epoch, leaseSeconds }) => ({
      name,
      node,
      epoch,
      addresses: addresses.map(canonicalAddress),
      ...present({ leaseSeconds }),
    })),
    ...(holders === undefined ? {} : { addresses: holders.map(readHeld) }),
  };
}

function readHeld({ address, policy, heldUntil }: HeldAddress): HeldAddress {
  return { address: canonicalAddress(address), policy, ...present({ heldUntil }) };
}

/** As readGatewayStatus. */
export function readPolicyStatus(raw: unknown, found: Findings): EgressPolicyStatus | null {
  const fields = asFields(raw);
  if (raw === undefined || (fields !== null && fields.addresses === undefined)) return null;
  const addresses = asList(fields?.addresses).map((text, index) => ({ text, path: ['addresses', index] }));
  if (isBroken(EGRESS_POLICY_STATUS_SCHEMA, raw, [addresses], found)) return null;
  return { addresses: (raw as EgressPolicyStatus).addresses.map(canonicalAddress) };
}

interface AddressAt {
  readonly text: unknown;
  readonly path: FieldPath;
}

function isBroken(
  schema: JsonSchema,
  raw: unknown,
  lists: readonly (readonly AddressAt[])[],
  found: Findings,
): boolean {
  const [violation] = checkSchema(schema, raw, ({ keyword }) => keyword !== 'unknown');
  const broken =
    violation === undefined
      ? (lists.map(wrongAddress).find((wrong) => wrong !== null) ?? null)
      : {
          ...violation,
          what: violation.value === undefined ? 'is missing' : `can't be ${show(violation.value)}`,
        };
  if (broken === null) return false;
  found.notice(['status', ...broken.path], `${broken.what}; the status is ignored, as if there were none`);
  return true;
}

/** The first text that is not an address, or that is there twice. */
function wrongAddress(
  addresses: readonly AddressAt[],
): { readonly path: FieldPath; readonly what: string } | null {
  const known = new Set<string>();
  for (const { text, path } of addresses) {
    if (typeof text !== 'string' || parseAddress(text) === null) {
      return { path, what: `${show(text)} is not an IP address` };
    }
    const address = canonicalAddress(text);
    if (known.has(address)) return { path, what: `${address} is there twice` };
    known.add(address);
  }
  return null;
}
