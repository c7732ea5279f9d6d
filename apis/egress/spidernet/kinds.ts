import { asFields, type FieldMap } from '../../schema/json-schema.ts';

export const SPIDERNET_GROUP = 'egressgateway.spidernet.io';

/** v1beta1 as released and as of 2023; v1 as first proposed. */
export const SPIDERNET_VERSIONS = ['v1beta1', 'v1'] as const;
export type SpidernetVersion = (typeof SPIDERNET_VERSIONS)[number];

/** EgressGatewayPolicy is the name that EgressPolicy had in 2023. */
export const POLICY_KINDS = ['EgressPolicy', 'EgressClusterPolicy', 'EgressGatewayPolicy'] as const;
export type PolicyKind = (typeof POLICY_KINDS)[number];

export const READ_KINDS: readonly string[] = ['EgressGateway', ...POLICY_KINDS, 'EgressClusterInfo'];

/** Written by the controller of egressgateway, from the objects of READ_KINDS. */
export const DERIVED_KINDS: readonly string[] = [
  'EgressNode',
  'EgressTunnel',
  'EgressEndpointSlice',
  'EgressClusterEndpointSlice',
];

export function isSpidernet(apiVersion: unknown): boolean {
  return typeof apiVersion === 'string' && apiVersion.split('/', 1)[0] === SPIDERNET_GROUP;
}

/** EgressGatewayPolicy of v1, which knows no gateway's name, no pools and no namespace. */
export function isFirstProposal({ apiVersion, kind }: FieldMap): boolean {
  return kind === 'EgressGatewayPolicy' && apiVersion === `${SPIDERNET_GROUP}/v1`;
}

/** Whether a policy is cluster-scoped. One of the first proposal is, unless it has a namespace. */
export function isClusterScoped(raw: FieldMap): boolean {
  const { namespace = null } = asFields(raw.metadata) ?? {};
  if (isFirstProposal(raw)) return namespace === null || namespace === '';
  return raw.kind === 'EgressClusterPolicy';
}

/** The kind that an object of the group has in apis/egress/objects.ts. */
export function narrowedKind(raw: FieldMap): string {
  if (!(POLICY_KINDS as readonly unknown[]).includes(raw.kind)) return String(raw.kind);
  return isClusterScoped(raw) ? 'ClusterEgressPolicy' : 'EgressPolicy';
}
