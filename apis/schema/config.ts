import { EXEMPTIONS } from '../config.ts';
import type { JsonSchema } from './jsonschema.ts';

const port: JsonSchema = { type: 'integer', minimum: 1, maximum: 65535 };

const failsafeList: JsonSchema = {
  type: 'array',
  description: 'Takes the place of the default list of its direction; [] turns it off.',
  items: {
    type: 'object',
    required: ['peers'],
    properties: {
      protocol: { type: 'string', enum: ['TCP', 'UDP', 'SCTP'], default: 'TCP' },
      port,
      endPort: port,
      peers: {
        description: 'nodes, any, or a list of CIDRs.',
        'x-kubernetes-preserve-unknown-fields': true,
      },
    },
  },
};

/** The agent's configuration file. */
export const CONFIG_SCHEMA: JsonSchema = {
  type: 'object',
  properties: {
    exemptions: {
      type: 'object',
      description: 'Traffic that is accepted before any policy; false turns one off.',
      properties: Object.fromEntries(EXEMPTIONS.map((name) => [name, { type: 'boolean', default: true }])),
    },
    interfaceGroups: {
      type: 'object',
      description: 'Names of link groups: NAME: NUMBER or NAME: {group: NUMBER}.',
      additionalProperties: { 'x-kubernetes-preserve-unknown-fields': true },
    },
    failsafe: { type: 'object', properties: { ingress: failsafeList, egress: failsafeList } },
    featureGates: { type: 'object', properties: { NodeNetworkPolicy: { type: 'boolean' } } },
    dataplane: { type: 'string', enum: ['nftables', 'iptables', 'auto'], default: 'nftables' },
    dispatch: { type: 'string', enum: ['indexed', 'linear'], default: 'indexed' },
  },
};
