import { asFields, type FieldMap } from '../../schema/json-schema.ts';
import { checkMetadata, toIdentity } from '../../validate/metadata.ts';
import { isSubdomain } from '../../validate/names.ts';
import { nearest } from '../../validate/nearest.ts';
import { readMetadata, readNamespace } from '../../validate/parts.ts';
import { type Findings, hasError, show } from '../../validate/problem.ts';
import { reportSchema } from '../../validate/schema-problem.ts';
import type { EgressGateway, EgressPolicy, InsideNetworks } from '../objects.ts';
import { toInsideCidrs } from './cluster-info.ts';
import { toGatewaySpec } from './gateway.ts';
import { toPolicySpec } from './policy.ts';
import { presentFields } from './present.ts';
import {
  CLUSTER_INFO_SCHEMA,
  gatewaySchema,
  policySchema,
  SPIDERNET_VERSIONS,
  type SpidernetVersion,
} from './schema.ts';
import { toGatewayStatus, toPolicyStatus } from './status.ts';

export const SPIDERNET_GROUP = 'egressgateway.spidernet.io';

const POLICY_KINDS = ['EgressPolicy', 'EgressClusterPolicy', 'EgressGatewayPolicy'] as const;
type PolicyKind = (typeof POLICY_KINDS)[number];
const KINDS: readonly string[] = ['EgressGateway', ...POLICY_KINDS, 'EgressClusterInfo'];

/** Written by the controller of egressgateway.spidernet.io, from the objects of KINDS. */
const DERIVED: readonly string[] = [
  'EgressNode',
  'EgressTunnel',
  'EgressEndpointSlice',
  'EgressClusterEndpointSlice',
];

/**
 * Validates an object of egressgateway.spidernet.io and narrows it to the values of
 * apis/egress/objects.ts. Null if it has an error, or is one that nodewall does not need.
 */
export function validateSpidernet(
  object: FieldMap,
  found: Findings,
): EgressGateway | EgressPolicy | InsideNetworks | null {
  const kind = String(object.kind);
  if (DERIVED.includes(kind)) {
    const message = 'is skipped: the controller of egressgateway writes it, and nodewall needs none';
    found.notice([], message);
    return null;
  }
  if (!KINDS.includes(kind)) {
    const near = nearest(kind, KINDS);
    const hint = near === null ? `known in ${SPIDERNET_GROUP}: ${KINDS.join(', ')}` : `did you mean ${near}?`;
    found.error(['kind'], `unknown kind ${show(kind)}; ${hint}`);
  }
  const version = SPIDERNET_VERSIONS.find((name) => object.apiVersion === `${SPIDERNET_GROUP}/${name}`);
  if (version === undefined) {
    const known = SPIDERNET_VERSIONS.map((name) => `${SPIDERNET_GROUP}/${name}`).join(' or ');
    found.error(['apiVersion'], `must be ${known}, not ${show(object.apiVersion)}`);
    return null;
  }
  const spec = asFields(object.spec);
  const raw = spec === null ? object : { ...object, spec: presentFields(spec) };
  if (kind === 'EgressGateway') return validateGateway(raw, version, found);
  if (kind === 'EgressClusterInfo') return validateClusterInfo(raw, found);
  const policy = POLICY_KINDS.find((name) => name === kind);
  return policy === undefined ? null : validatePolicy(raw, policy, version, found);
}

function validateGateway(raw: FieldMap, version: SpidernetVersion, found: Findings): EgressGateway | null {
  checkMetadata(raw, found);
  reportSchema(gatewaySchema(version), raw, found);
  if (hasError(found.problems)) return null;
  const spec = toGatewaySpec(asFields(raw.spec) ?? {}, version, found);
  if (hasError(found.problems)) return null;
  const status = toGatewayStatus(raw.status);
  return { kind: 'EgressGateway', apiGroup: SPIDERNET_GROUP, ...toIdentity(raw), spec, status };
}

function validatePolicy(
  raw: FieldMap,
  kind: PolicyKind,
  version: SpidernetVersion,
  found: Findings,
): EgressPolicy | null {
  const isFirstProposal = kind === 'EgressGatewayPolicy' && version === 'v1';
  const hasNamespace = !['', undefined, null].includes(asFields(raw.metadata)?.namespace as string);
  // As first proposed, EgressGatewayPolicies are cluster-scoped.
  const isCluster = kind === 'EgressClusterPolicy' || (isFirstProposal && !hasNamespace);
  if (isCluster) checkMetadata(raw, found);
  else readMetadata(raw, isSubdomain, found);
  const namespace = isCluster ? '' : readNamespace(raw, found);
  reportSchema(policySchema(version), raw, found);
  if (hasError(found.problems)) return null;
  const spec = toPolicySpec(asFields(raw.spec) ?? {}, { isCluster, isFirstProposal }, found);
  if (hasError(found.problems)) return null;
  return {
    kind: isCluster ? 'ClusterEgressPolicy' : 'EgressPolicy',
    ...(kind === 'EgressPolicy' ? {} : { writtenAs: kind }),
    apiGroup: SPIDERNET_GROUP,
    namespace,
    ...toIdentity(raw),
    spec,
    status: toPolicyStatus(raw.status),
  };
}

function validateClusterInfo(raw: FieldMap, found: Findings): InsideNetworks | null {
  checkMetadata(raw, found);
  reportSchema(CLUSTER_INFO_SCHEMA, raw, found);
  if (hasError(found.problems)) return null;
  const cidrs = toInsideCidrs(asFields(raw.spec) ?? {}, raw.status, found);
  return { kind: 'EgressClusterInfo', name: toIdentity(raw).name, cidrs };
}
