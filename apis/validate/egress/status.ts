import { parseAddress } from '../../../lib/net/address.ts';
import { present } from '../../../lib/sharing/present.ts';
import type { EgressGatewayStatus, EgressPolicyStatus, HeldAddress } from '../../egress/objects.ts';
import { conditions, count, GRANULAR_OBJECT, READINESS } from '../../schema/crd-parts.ts';
import { flagField, objectField, objectsField, textField, textsField } from '../../schema/fields.ts';
import { asFields, asList, checkSchema, type JsonSchema } from '../../schema/json-schema.ts';
import { canonicalAddress } from '../addresses.ts';
import { type FieldPath, type Findings, show } from '../problem.ts';

const used = (family: string): JsonSchema =>
  objectField(`Addresses of ${family}.`, [], {
    // The pool of an IPv6 prefix has more addresses than an integer counts.
    total: textField('The number of addresses in the pools, in decimal.'),
    used: count('The number of addresses that policies have.'),
  });

/** Schema of the `status` of an EgressGateway (`EgressGatewayStatus`). */
export const EGRESS_GATEWAY_STATUS_SCHEMA: JsonSchema = {
  ...GRANULAR_OBJECT,
  description: 'The gateway nodes and the owners of addresses, as the controller last decided.',
  properties: {
    observedGeneration: count('The metadata.generation that this status is about.'),
    nodes: objectsField('The nodes that can be gateways, by name.', null, ['name', 'ready'], {
      name: textField('Name of the Node.'),
      ready: flagField('Whether it can take traffic.'),
      reason: textField('The reason why it is not ready; of a ready node, what else is wrong.'),
      tunnel: textField("The address of the node's end of the tunnel."),
    }),
    slots: objectsField(
      'The addresses by slot; a slot has one owner and moves as a whole.',
      64,
      ['name', 'node', 'epoch', 'addresses'],
      {
        name: textField('Name of the slot.'),
        node: textField('The owner; empty: none.'),
        epoch: count('The number of owners so far.'),
        addresses: textsField('The addresses in this slot.'),
        leaseSeconds: count('The length of leases while it is not that of the spec: the agent restarts.'),
      },
    ),
    addresses: objectsField('Who has each floating address, or had it last.', null, ['address', 'policy'], {
      address: textField('The address.'),
      policy: textField('The policy, as namespace/name or name; empty: the Shared policies.'),
      heldUntil: textField('The policy released it; until then no other one gets it (RFC 3339).'),
    }),
    usage: objectField('How many addresses are in use.', [], { ipv4: used('IPv4'), ipv6: used('IPv6') }),
    conditions: conditions({
      Accepted: 'the gateway is valid',
      ...READINESS,
      Ready: 'at least one node is ready',
    }),
  },
};

/** Schema of the `status` of an EgressPolicy and a ClusterEgressPolicy (`EgressPolicyStatus`). */
export const EGRESS_POLICY_STATUS_SCHEMA: JsonSchema = {
  ...GRANULAR_OBJECT,
  description: 'The addresses of the policy, and where it is in force.',
  properties: {
    observedGeneration: count('The metadata.generation that this status is about.'),
    addresses: textsField('The addresses of both families.'),
    owners: textsField('The nodes that have these addresses now.'),
    pods: count('The number of pods that it selects.'),
    currentNodesRealized: count('The number of nodes that enforce the policy.'),
    desiredNodesRealized: count('The number of nodes that must enforce the policy.'),
    conditions: conditions({
      Accepted: 'the policy is valid, and its gateway may be used',
      AddressAllocated: 'it has an address of each family of the gateway',
      Realized: 'all nodes enforce it; else the message names the first that does not, with the reason',
      ...READINESS,
    }),
  },
};

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
