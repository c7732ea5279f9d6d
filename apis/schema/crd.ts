import { POLICY_STATUS_SCHEMA } from '../policy-status.ts';
import { EGRESS_GATEWAY_STATUS_SCHEMA, EGRESS_POLICY_STATUS_SCHEMA } from '../validate/egress/status.ts';
import { CLUSTER_GROUP_SCHEMA } from '../validate/group.ts';
import { GUARDRAIL_SCHEMA, GUARDRAIL_STATUS_SCHEMA } from '../validate/guardrail.ts';
import { CLUSTER_NETWORK_POLICY_SCHEMA } from '../validate/policy.ts';
import { TIER_SCHEMA } from '../validate/tier.ts';
import { EGRESS_GATEWAY_SCHEMA } from './egress-gateway.ts';
import { CLUSTER_EGRESS_POLICY_SCHEMA, EGRESS_POLICY_SCHEMA } from './egress-policy.ts';
import type { CrdChecks, CrdSchema, JsonSchema } from './json-schema.ts';

/** An apiextensions.k8s.io/v1 CustomResourceDefinition, with the fields that ours use. */
export interface CustomResourceDefinition {
  readonly apiVersion: 'apiextensions.k8s.io/v1';
  readonly kind: 'CustomResourceDefinition';
  readonly metadata: { readonly name: string; readonly labels: Readonly<Record<string, string>> };
  readonly spec: {
    readonly group: string;
    readonly scope: 'Cluster' | 'Namespaced';
    readonly names: {
      readonly kind: Kind;
      readonly listKind: string;
      readonly plural: string;
      readonly singular: string;
      readonly shortNames: readonly string[];
      readonly categories: readonly string[];
    };
    readonly versions: readonly [
      {
        readonly name: string;
        readonly served: true;
        readonly storage: true;
        readonly schema: { readonly openAPIV3Schema: CrdSchema };
        readonly subresources?: { readonly status: Readonly<Record<string, never>> };
        readonly additionalPrinterColumns: readonly PrinterColumn[];
      },
    ];
  };
}

interface PrinterColumn {
  readonly name: string;
  readonly type: 'string' | 'integer' | 'number' | 'date';
  readonly description: string;
  readonly jsonPath: string;
  /** Above 0: the column is shown only with `-o wide`. */
  readonly priority?: number;
}

type PolicyKind = 'ClusterNetworkPolicy' | 'ClusterGroup' | 'Tier' | 'Guardrail';
type EgressKind = 'EgressGateway' | 'EgressPolicy' | 'ClusterEgressPolicy';
type Kind = PolicyKind | EgressKind;

interface KindDefinition {
  /** Absent: Cluster. */
  readonly scope?: 'Namespaced';
  readonly plural: string;
  /** Do not use the short names of Antrea (acnp, cg, tr) and of policy.networking.k8s.io (cnp). */
  readonly shortNames: readonly string[];
  readonly schema: JsonSchema;
  /** Null if the kind has no status. */
  readonly status: JsonSchema | null;
  readonly columns: readonly PrinterColumn[];
}

const AGE: PrinterColumn = {
  name: 'Age',
  type: 'date',
  description: 'The time since its creation.',
  jsonPath: '.metadata.creationTimestamp',
};

const column = (
  name: string,
  type: PrinterColumn['type'],
  jsonPath: string,
  description: string,
  priority = 0,
): PrinterColumn => ({ name, type, description, jsonPath, ...(priority === 0 ? {} : { priority }) });

const POLICY_KINDS: Readonly<Record<PolicyKind, KindDefinition>> = {
  ClusterNetworkPolicy: {
    plural: 'clusternetworkpolicies',
    shortNames: ['ncnp'],
    schema: CLUSTER_NETWORK_POLICY_SCHEMA,
    status: POLICY_STATUS_SCHEMA,
    columns: [
      column('Tier', 'string', '.spec.tier', 'The tier of the policy.'),
      column('Priority', 'number', '.spec.priority', 'The priority in the tier; lower is evaluated first.'),
      column('Desired', 'integer', '.status.desiredNodesRealized', 'Nodes it applies to.'),
      column('Current', 'integer', '.status.currentNodesRealized', 'Nodes that enforce its current version.'),
      column('Phase', 'string', '.status.phase', 'The phase of the policy.'),
      column('Rollout', 'string', '.status.rollout.progress', 'The rollout over its nodes.'),
      column('Mode', 'string', '.spec.mode', 'Enforce (also if empty) or Audit.'),
      column('Traffic', 'string', '.spec.traffic', 'Host or NodePort.', 1),
      AGE,
    ],
  },
  ClusterGroup: {
    plural: 'clustergroups',
    shortNames: ['ncg'],
    schema: CLUSTER_GROUP_SCHEMA,
    status: null,
    columns: [AGE],
  },
  Tier: {
    plural: 'tiers',
    shortNames: ['ntier'],
    schema: TIER_SCHEMA,
    status: null,
    columns: [
      column('Priority', 'integer', '.spec.priority', 'Lower is evaluated first.'),
      column('Description', 'string', '.spec.description', 'Its purpose.', 1),
      AGE,
    ],
  },
  Guardrail: {
    plural: 'guardrails',
    shortNames: ['ngr'],
    schema: GUARDRAIL_SCHEMA,
    status: GUARDRAIL_STATUS_SCHEMA,
    columns: [
      column('Phase', 'string', '.status.phase', 'Holds, Broken or Pending.'),
      column('Node', 'string', '.status.violations[0].node', 'The first Node on which it is broken.'),
      column('Policy', 'string', '.status.violations[0].rule.policy', 'The policy that decides there.'),
      AGE,
    ],
  },
};

const EGRESS_POLICY_COLUMNS: readonly PrinterColumn[] = [
  column('Gateway', 'string', '.spec.gateway', 'The gateway; empty: the default one.'),
  column('Action', 'string', '.spec.action', 'Gateway, Direct or Drop.'),
  column('Priority', 'integer', '.spec.priority', 'Lower is evaluated first.'),
  column('Addresses', 'string', '.status.addresses', 'The addresses of the policy.'),
  column('Desired', 'integer', '.status.desiredNodesRealized', 'Nodes that must enforce it.'),
  column('Current', 'integer', '.status.currentNodesRealized', 'Nodes that enforce its current version.'),
  column('Pods', 'integer', '.status.pods', 'Pods that it selects.', 1),
  column('Mode', 'string', '.spec.mode', 'Enforce (also if empty) or Audit.'),
  AGE,
];

const EGRESS_KINDS: Readonly<Record<EgressKind, KindDefinition>> = {
  EgressGateway: {
    plural: 'egressgateways',
    shortNames: ['negw'],
    schema: EGRESS_GATEWAY_SCHEMA,
    status: EGRESS_GATEWAY_STATUS_SCHEMA,
    columns: [
      column('Source', 'string', '.spec.source', 'Floating or Node; empty: by whether there are pools.'),
      column('Choice', 'string', '.spec.choice', 'Failover or Spread.'),
      column('Default', 'string', '.spec.default', 'Whether it is the gateway of policies that name none.'),
      column('IPv4', 'integer', '.status.usage.ipv4.used', 'IPv4 addresses that policies have.'),
      column('IPv6', 'integer', '.status.usage.ipv6.used', 'IPv6 addresses that policies have.'),
      column('Ready', 'string', '.status.conditions[?(@.type=="Ready")].status', 'Whether a node is ready.'),
      AGE,
    ],
  },
  EgressPolicy: {
    scope: 'Namespaced',
    plural: 'egresspolicies',
    shortNames: ['negp'],
    schema: EGRESS_POLICY_SCHEMA,
    status: EGRESS_POLICY_STATUS_SCHEMA,
    columns: EGRESS_POLICY_COLUMNS,
  },
  ClusterEgressPolicy: {
    plural: 'clusteregresspolicies',
    shortNames: ['ncegp'],
    schema: CLUSTER_EGRESS_POLICY_SCHEMA,
    status: EGRESS_POLICY_STATUS_SCHEMA,
    columns: [column('Stage', 'string', '.spec.stage', 'Override or Default.'), ...EGRESS_POLICY_COLUMNS],
  },
};

const KINDS: Readonly<Record<Kind, KindDefinition>> = { ...POLICY_KINDS, ...EGRESS_KINDS };

const GROUP = 'nodewall.io';
const VERSION = 'v1alpha1';

/** The definitions of nodewall.io/v1alpha1, made from the schemas that `validate` uses. */
export function customResourceDefinitions(): CustomResourceDefinition[] {
  return (Object.keys(KINDS) as Kind[]).map(definition);
}

/** A kind as far as admission looks at it. */
export interface AdmittedKind {
  readonly kind: string;
  readonly plural: string;
  /** The schema of its spec. */
  readonly schema: JsonSchema;
}

/** All kinds of nodewall.io. */
export function admittedKinds(): AdmittedKind[] {
  return Object.entries(KINDS).map(([kind, { plural, schema }]) => {
    const { spec } = schema.properties ?? {};
    if (spec === undefined) throw new Error(`${kind} has no spec`);
    return { kind, plural, schema: spec };
  });
}

function definition(kind: Kind): CustomResourceDefinition {
  const { scope = 'Cluster', plural, shortNames, columns, status } = KINDS[kind];
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${GROUP}`, labels: { 'app.kubernetes.io/part-of': 'nodewall' } },
    spec: {
      group: GROUP,
      scope,
      names: {
        kind,
        listKind: `${kind}List`,
        plural,
        singular: kind.toLowerCase(),
        shortNames,
        categories: ['nodewall'],
      },
      versions: [
        {
          name: VERSION,
          served: true,
          storage: true,
          schema: { openAPIV3Schema: openApiSchema(kind) },
          ...(status === null ? {} : { subresources: { status: {} } }),
          additionalPrinterColumns: columns,
        },
      ],
    },
  };
}

const STANDARD: Readonly<Record<string, CrdSchema>> = {
  apiVersion: { type: 'string', description: `${GROUP}/${VERSION}.` },
  kind: { type: 'string', description: 'The kind of object.' },
  metadata: { type: 'object' },
};

/**
 * The structural schema of a kind: ours, with the additional checks and settings for the API
 * server.
 */
export function openApiSchema(kind: Kind): CrdSchema {
  const { schema, status } = KINDS[kind];
  const { crd, properties: { spec } = {}, ...others } = schema;
  if (spec === undefined) throw new Error(`${kind} has no spec`);
  const properties = {
    ...STANDARD,
    spec: withChecks(spec, false),
    ...(status === null ? {} : { status: withChecks(status, false) }),
  };
  return withCel({ ...(others as CrdSchema), properties }, crd);
}

function withChecks(schema: JsonSchema, isInList: boolean): CrdSchema {
  const { properties, items, additionalProperties, crd, ...others } = schema;
  const fields = Object.entries(properties ?? {}).map(([name, field]): [string, CrdSchema] => {
    const checked = withChecks(isInList ? withoutDefault(field) : field, isInList);
    return [name, schema.required?.includes(name) ? checked : keepingNull(checked)];
  });
  const inner: CrdSchema = {
    ...others,
    ...(properties === undefined ? {} : { properties: Object.fromEntries(fields) }),
    ...(items === undefined ? {} : { items: withChecks(items, true) }),
    ...(additionalProperties === undefined
      ? {}
      : { additionalProperties: keepingNull(withChecks(additionalProperties, isInList)) }),
  };
  return withCel(inner, crd);
}

/**
 * Keeps defaults outside of lists only: a default inside a rule would change the rule, and with it
 * the name that is generated for it.
 */
function withoutDefault({ default: _, ...others }: JsonSchema): JsonSchema {
  return others;
}

/**
 * Makes values nullable. Without that, the API server drops a null silently (`from:` with nothing
 * behind it, or a label without a value), and the rule would match any peer. The null is kept, so
 * that the webhook and the compiler reject it. A field with a default gets the default instead.
 */
function keepingNull(schema: CrdSchema): CrdSchema {
  return schema.default === undefined ? { ...schema, nullable: true } : schema;
}

function withCel(schema: CrdSchema, { cel = [], admission: _, ...more }: CrdChecks = {}): CrdSchema {
  return { ...schema, ...more, ...(cel.length === 0 ? {} : { 'x-kubernetes-validations': cel }) };
}
