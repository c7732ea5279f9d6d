import { asFields, type FieldMap } from '../../schema/json-schema.ts';
import { checkMetadata, toCreated, toIdentity } from '../../validate/metadata.ts';
import { isSubdomain } from '../../validate/names.ts';
import { nearest } from '../../validate/nearest.ts';
import { readMetadata, readNamespace } from '../../validate/parts.ts';
import { type Findings, hasError, show } from '../../validate/problem.ts';
import { reportSchema } from '../../validate/schema-problem.ts';
import type { EgressGateway, EgressPolicy, InsideNetworks } from '../objects.ts';
import { toInsideCidrs } from './cluster-info.ts';
import { spidernetFieldHint } from './field-hint.ts';
import { toGatewaySpec } from './gateway.ts';
import {
  DERIVED_KINDS,
  isClusterScoped,
  isFirstProposal,
  POLICY_KINDS,
  type PolicyKind,
  READ_KINDS,
  SPIDERNET_GROUP,
  SPIDERNET_VERSIONS,
  type SpidernetVersion,
} from './kinds.ts';
import { toPolicySpec } from './policy.ts';
import { presentFields } from './present.ts';
import { CLUSTER_INFO_SCHEMA, GATEWAY_SCHEMAS, POLICY_SCHEMAS } from './schema.ts';
import { toGatewayStatus, toPolicyStatus } from './status.ts';

/**
 * Validates an object of egressgateway.spidernet.io and narrows it to the values of
 * apis/egress/objects.ts. Null if it has an error, or is one that nodewall does not need.
 */
export function validateSpidernet(
  object: FieldMap,
  found: Findings,
): EgressGateway | EgressPolicy | InsideNetworks | null {
  const kind = String(object.kind);
  if (DERIVED_KINDS.includes(kind)) {
    const message = 'is skipped: the controller of egressgateway writes it, and nodewall needs none';
    found.notice([], message);
    return null;
  }
  if (!READ_KINDS.includes(kind)) {
    const near = nearest(kind, READ_KINDS);
    const hint =
      near === null ? `known in ${SPIDERNET_GROUP}: ${READ_KINDS.join(', ')}` : `did you mean ${near}?`;
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
  reportSchema(GATEWAY_SCHEMAS[version], raw, found, spidernetFieldHint);
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
  const isCluster = isClusterScoped(raw);
  if (isCluster) checkMetadata(raw, found);
  else readMetadata(raw, isSubdomain, found);
  const namespace = isCluster ? '' : readNamespace(raw, found);
  reportSchema(POLICY_SCHEMAS[version], raw, found, spidernetFieldHint);
  if (hasError(found.problems)) return null;
  const form = { isCluster, isFirstProposal: isFirstProposal(raw) };
  const spec = toPolicySpec(asFields(raw.spec) ?? {}, form, found);
  if (hasError(found.problems)) return null;
  return {
    kind: isCluster ? 'ClusterEgressPolicy' : 'EgressPolicy',
    ...(kind === 'EgressPolicy' ? {} : { writtenAs: kind }),
    apiGroup: SPIDERNET_GROUP,
    namespace,
    ...toIdentity(raw),
    ...toCreated(raw),
    spec,
    status: toPolicyStatus(raw.status),
  };
}

function validateClusterInfo(raw: FieldMap, found: Findings): InsideNetworks | null {
  checkMetadata(raw, found);
  reportSchema(CLUSTER_INFO_SCHEMA, raw, found, spidernetFieldHint);
  if (hasError(found.problems)) return null;
  const cidrs = toInsideCidrs(asFields(raw.spec) ?? {}, raw.status, found);
  return { kind: 'EgressClusterInfo', name: toIdentity(raw).name, cidrs };
}
