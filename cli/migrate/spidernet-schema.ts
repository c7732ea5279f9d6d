import { labelSelector } from '../../apis/label-selector.ts';
import { asFields, type FieldMap, type JsonSchema } from '../../apis/schema/json-schema.ts';

const ANY: JsonSchema = {};
const TEXT: JsonSchema = { type: 'string' };
const TEXTS: JsonSchema = { type: 'array', items: TEXT };
const BOOLEAN: JsonSchema = { type: 'boolean' };

const object = (
  properties: Readonly<Record<string, JsonSchema>>,
  required: readonly string[] = [],
): JsonSchema => {
  return { type: 'object', required, properties };
};

/** Metadata and status are checked where they are read. */
const whole = (spec: JsonSchema, required: readonly string[] = ['spec']): JsonSchema =>
  object({ apiVersion: TEXT, kind: TEXT, metadata: ANY, spec, status: ANY }, required);

const POOLS = object({ ipv4: TEXTS, ipv6: TEXTS, ipv4DefaultEIP: TEXT, ipv6DefaultEIP: TEXT, policy: ANY });
const NODES = labelSelector('The gateway nodes.');
const PODS = labelSelector('The pods.');

/** The fields of all versions: v1 has the labels beside `selector`, 2023 has `ranges`. */
export const GATEWAY_SCHEMA = whole(
  object(
    {
      clusterDefault: BOOLEAN,
      ippools: POOLS,
      ranges: POOLS,
      nodeSelector: object({ selector: NODES, policy: TEXT, ...NODES.properties }),
    },
    ['nodeSelector'],
  ),
);

/** The fields of all versions: v1 has subnets in podSelector, `destCIDR`, `gatewayNodeConfig`. */
export const POLICY_SCHEMA = whole(
  object(
    {
      egressGatewayName: TEXT,
      egressIP: object({ ipv4: TEXT, ipv6: TEXT, useNodeIP: BOOLEAN, allocatorPolicy: TEXT }),
      appliedTo: object({
        podSelector: object({ ...PODS.properties, ipv4PodSubnet: ANY, ipv6PodSubnet: ANY }),
        podSubnet: TEXTS,
        namespaceSelector: labelSelector('The namespaces of the pods.'),
      }),
      destSubnet: TEXTS,
      destCIDR: TEXTS,
      gatewayNodeConfig: object({ egressIPv4VIP: TEXT, egressIPv6VIP: TEXT, interface: TEXT }),
      priority: { type: 'integer', minimum: 0, maximum: 2_147_483_647 },
    },
    ['appliedTo'],
  ),
);

export const CLUSTER_INFO_SCHEMA = whole(object({ autoDetect: ANY, extraCidr: TEXTS }), []);

/** Fields of a spec are no deeper than this, labels apart. */
const DEEPEST = 4;

/**
 * A copy without fields that are '' or null: egressgateway takes both as absent. Labels keep them,
 * since '' is a value of a label.
 */
export function presentFields(raw: FieldMap, depth = 0): FieldMap {
  if (depth === DEEPEST) return raw;
  const entries = Object.entries(raw).filter(([, value]) => value !== '' && value !== null);
  return Object.fromEntries(
    entries.map(([field, value]) => {
      const fields = field === 'matchLabels' ? null : asFields(value);
      return [field, fields === null ? value : presentFields(fields, depth + 1)];
    }),
  );
}

/** The items that are not '', with their places. */
export function presentItems(list: readonly unknown[]): (readonly [index: number, text: string])[] {
  return [...list.entries()].flatMap(([index, item]) =>
    typeof item === 'string' && item !== '' ? [[index, item] as const] : [],
  );
}
