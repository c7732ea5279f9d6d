import type { JsonSchema } from '../../schema/json-schema.ts';
import { labelSelector } from '../../schema/selector.ts';
import type { SpidernetVersion } from './kinds.ts';

const ANY: JsonSchema = {};
const TEXT: JsonSchema = { type: 'string' };
const TEXTS: JsonSchema = { type: 'array', items: TEXT };
const BOOLEAN: JsonSchema = { type: 'boolean' };

const POOLS: JsonSchema = {
  type: 'object',
  properties: { ipv4: TEXTS, ipv6: TEXTS, ipv4DefaultEIP: TEXT, ipv6DefaultEIP: TEXT, policy: ANY },
};

/** The selector's fields are beside `selector` in v1. */
function nodeSelector(version: SpidernetVersion): JsonSchema {
  const selector = labelSelector('The gateway nodes.');
  return {
    type: 'object',
    properties: {
      selector,
      policy: TEXT,
      ...(version === 'v1' ? selector.properties : {}),
    },
  };
}

function gatewaySpec(version: SpidernetVersion): JsonSchema {
  return {
    type: 'object',
    required: ['nodeSelector'],
    properties: {
      clusterDefault: BOOLEAN,
      ippools: POOLS,
      ranges: POOLS,
      nodeSelector: nodeSelector(version),
    },
  };
}

function appliedTo(version: SpidernetVersion): JsonSchema {
  const podSelector = labelSelector('The pods.');
  const subnets = version === 'v1' ? { ipv4PodSubnet: ANY, ipv6PodSubnet: ANY } : {};
  return {
    type: 'object',
    properties: {
      podSelector: { ...podSelector, properties: { ...podSelector.properties, ...subnets } },
      podSubnet: TEXTS,
      namespaceSelector: labelSelector('The namespaces of the pods.'),
    },
  };
}

const OF_V1: Readonly<Record<string, JsonSchema>> = {
  destCIDR: TEXTS,
  gatewayNodeConfig: {
    type: 'object',
    properties: { egressIPv4VIP: TEXT, egressIPv6VIP: TEXT, interface: TEXT },
  },
};

function policySpec(version: SpidernetVersion): JsonSchema {
  return {
    type: 'object',
    required: ['appliedTo'],
    properties: {
      egressGatewayName: TEXT,
      egressIP: {
        type: 'object',
        properties: { ipv4: TEXT, ipv6: TEXT, useNodeIP: BOOLEAN, allocatorPolicy: TEXT },
      },
      appliedTo: appliedTo(version),
      destSubnet: TEXTS,
      priority: { type: 'integer', minimum: 0, maximum: 2_147_483_647 },
      ...(version === 'v1' ? OF_V1 : {}),
    },
  };
}

const INFO_SPEC: JsonSchema = { type: 'object', properties: { autoDetect: ANY, extraCidr: TEXTS } };

/** The schema of a whole object; its metadata and status are checked where they are read. */
function objectSchema(spec: JsonSchema, required: readonly string[]): JsonSchema {
  const properties = { apiVersion: TEXT, kind: TEXT, metadata: ANY, spec, status: ANY };
  return { type: 'object', required, properties };
}

type ByVersion = Readonly<Record<SpidernetVersion, JsonSchema>>;

export const GATEWAY_SCHEMAS: ByVersion = {
  v1beta1: objectSchema(gatewaySpec('v1beta1'), ['spec']),
  v1: objectSchema(gatewaySpec('v1'), ['spec']),
};

/** For all kinds of policies: the checks of policy.ts tell them apart. */
export const POLICY_SCHEMAS: ByVersion = {
  v1beta1: objectSchema(policySpec('v1beta1'), ['spec']),
  v1: objectSchema(policySpec('v1'), ['spec']),
};

export const CLUSTER_INFO_SCHEMA: JsonSchema = objectSchema(INFO_SPEC, []);
