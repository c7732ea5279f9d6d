import type { FailsafeEntry } from '../config.ts';
import type { ApiGroup, ClusterNetworkPolicy, ClusterNetworkPolicySpec, Direction } from '../objects.ts';
import { ROLLOUT_SCHEMA } from '../rollout.ts';
import { ATOMIC_OBJECT, GRANULAR_OBJECT, kindSchema, MOST, NOT_FOR_NODES } from '../schema/crd-parts.ts';
import { choiceField, flagField, listField, objectField, textField } from '../schema/fields.ts';
import { asFields, asList, type FieldMap, type JsonSchema } from '../schema/json-schema.ts';
import { checkAppliedTo, checkAppliedToPlaces, podGroupsOf, toAppliedTo } from './applied-to.ts';
import { checkNodePeers } from './kubelet-labels.ts';
import { checkMetadata, toIdentity } from './metadata.ts';
import { APPLIED_TO_SCHEMA, peers, SERVICE_REFERENCE_SCHEMA } from './peer.ts';
import { checkEmptyLists, checkOpenPeers, checkSsh } from './policy-warnings.ts';
import { type Findings, hasError, show } from './problem.ts';
import { checkPolicyRollout, toRollout } from './rollout.ts';
import { checkRule, toRule } from './rule.ts';
import { reportSchema } from './schema-problem.ts';
import { SERVICE_FIELDS } from './service.ts';

const any = 'x-kubernetes-preserve-unknown-fields';

/**
 * The whole schema of ClusterNetworkPolicy, including fields that are not supported on a Node, so
 * that these are not reported as mistyped. Checks that a schema cannot express are in
 * apis/validate.
 */
const appliedTo: JsonSchema = listField(
  'The Nodes to apply to; items are OR-ed. Set it in the policy or in every rule.',
  APPLIED_TO_SCHEMA,
  { maxItems: MOST.appliedTo },
);

function ruleSchema(fields: Readonly<Record<string, JsonSchema>>): JsonSchema {
  return objectField('The action for connections with these peers, ports and protocols.', ['action'], {
    name: {
      type: 'string',
      description: 'Unique in the policy; generated when absent.',
      maxLength: 253,
      // Valid in both JavaScript and RE2; the API server uses RE2.
      pattern: '^[^\\p{Cc}\\p{Zl}\\p{Zp}]*$',
    },
    action: choiceField(
      'The action for a new connection that matches. Pass continues with the baseline tier.',
      ['Allow', 'Drop', 'Reject', 'Pass'],
    ),
    ...fields,
    ...SERVICE_FIELDS,
    enableLogging: flagField('Log each new connection the rule decides.'),
    logLabel: textField('The label in the flow log.', {
      maxLength: 63,
      pattern: '^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$',
    }),
    appliedTo,
    l7Protocols: listField('Not supported for Nodes.', { ...ATOMIC_OBJECT, [any]: true }, NOT_FOR_NODES),
  });
}

const spec: JsonSchema = {
  ...GRANULAR_OBJECT,
  description: 'The rules, and the Nodes that they apply to.',
  required: ['priority'],
  properties: {
    tier: textField('Name of a Tier.', { default: 'application', crd: { maxLength: 253 } }),
    priority: {
      type: 'number',
      description: '1 to 10000; lower is evaluated first.',
      minimum: 1,
      maximum: 10000,
    },
    appliedTo,
    ingress: listField(
      'Rules for connections to the Nodes, in order.',
      ruleSchema({ from: peers('from', 'Sources, OR-ed; absent or empty is any address.') }),
      { maxItems: MOST.rules },
    ),
    egress: listField(
      'Rules for connections from the Nodes, in order.',
      {
        ...ruleSchema({
          to: peers('to', 'Destinations, OR-ed; absent or empty is any address.'),
          toServices: listField(
            'Services; not together with to, ports and protocols.',
            SERVICE_REFERENCE_SCHEMA,
            { maxItems: MOST.ports },
          ),
        }),
        crd: {
          cel: [
            {
              rule:
                '!has(self.toServices) || size(self.toServices) == 0 || ((!has(self.to) || size(self.to) == 0) && ' +
                '(!has(self.ports) || size(self.ports) == 0) && (!has(self.protocols) || size(self.protocols) == 0))',
              message: "toServices can't be combined with to, ports and protocols; write one rule for each",
            },
          ],
        },
      },
      { maxItems: MOST.rules },
    ),
    mode: choiceField(
      'Audit: rules are matched, counted and logged, and decide nothing.',
      ['Enforce', 'Audit'],
      'Enforce',
    ),
    traffic: choiceField(
      'Host: connections of the Node itself. NodePort: connections that destination NAT hands to a pod.',
      ['Host', 'NodePort'],
      'Host',
    ),
    // Without a default: it would be in every stored policy, and controllers of earlier versions
    // refuse unknown fields.
    established: choiceField(
      'Recheck: after a change, established connections that a rule of this policy denies are ended. Keep, the default: they go on.',
      ['Keep', 'Recheck'],
    ),
    rollout: ROLLOUT_SCHEMA,
  },
  crd: {
    cel: [
      {
        rule:
          '(has(self.appliedTo) && size(self.appliedTo) > 0) || ' +
          '((has(self.ingress) ? size(self.ingress) : 0) + (has(self.egress) ? size(self.egress) : 0) > 0 && ' +
          '(!has(self.ingress) || self.ingress.all(rule, has(rule.appliedTo) && size(rule.appliedTo) > 0)) && ' +
          '(!has(self.egress) || self.egress.all(rule, has(rule.appliedTo) && size(rule.appliedTo) > 0)))',
        message:
          'appliedTo is missing: select the Nodes in spec.appliedTo or in every rule ([{nodeSelector: {}}] selects every Node)',
      },
      {
        rule:
          '!(has(self.appliedTo) && size(self.appliedTo) > 0) || ' +
          '((!has(self.ingress) || self.ingress.all(rule, !has(rule.appliedTo) || size(rule.appliedTo) == 0)) && ' +
          '(!has(self.egress) || self.egress.all(rule, !has(rule.appliedTo) || size(rule.appliedTo) == 0)))',
        message: 'rules have an appliedTo although spec.appliedTo is set; use one or the other',
      },
      {
        rule:
          '!has(self.tier) || self.tier.lowerAscii() != "baseline" || ' +
          '((!has(self.ingress) || self.ingress.all(rule, rule.action != "Pass")) && ' +
          '(!has(self.egress) || self.egress.all(rule, rule.action != "Pass")))',
        message:
          'Pass is not allowed in the baseline tier, because Pass continues with that tier; use Allow, Drop or Reject',
      },
      {
        rule: '!has(self.traffic) || self.traffic != "NodePort" || !has(self.egress) || size(self.egress) == 0',
        message: 'a policy for NodePort traffic has ingress rules only',
      },
    ],
    admission: [
      {
        rule:
          "[(self.?ingress.orValue([]) + self.?egress.orValue([])).filter(rule, rule.?name.orValue('') != '').map(rule, rule.name)]" +
          '.all(names, names.all(name, names.indexOf(name) == names.lastIndexOf(name)))',
        message: 'rule names must be unique in a policy',
      },
    ],
  },
};

export const CLUSTER_NETWORK_POLICY_SCHEMA: JsonSchema = kindSchema(
  'Rules for connections to and from the Nodes that it applies to.',
  spec,
);

/** Notice for an Antrea policy that is not for Nodes. */
export const FOR_PODS_ONLY =
  'is applied to pods only; nodewall applies policies to Nodes only, so it is skipped';

/** The configuration on which warnings about the risks of a valid policy depend. */
interface RiskOptions {
  readonly failsafe: readonly FailsafeEntry[];
  readonly believesAnyServer: boolean;
}

/** Null if the policy has an error, or is an Antrea policy for pods. */
export function validatePolicy(
  raw: FieldMap,
  apiGroup: ApiGroup,
  risks: RiskOptions | null,
  found: Findings,
): ClusterNetworkPolicy | null {
  if (apiGroup === 'crd.antrea.io' && podGroupsOf(raw.spec)?.length === 0) {
    found.notice([], FOR_PODS_ONLY);
    return null;
  }
  checkMetadata(raw, found);
  reportSchema(CLUSTER_NETWORK_POLICY_SCHEMA, raw, found);
  checkSpec(asFields(raw.spec) ?? {}, apiGroup, found);
  if (apiGroup === 'nodewall.io') checkPolicyRollout(raw, found);
  if (hasError(found.problems)) return null;
  // The checks above guarantee the type.
  const spec = toSpec(raw.spec as ClusterNetworkPolicySpec);
  if (risks !== null) {
    checkEmptyLists(spec, found);
    checkSsh(spec, risks.failsafe, found);
    checkOpenPeers(spec, risks.believesAnyServer, found);
    checkNodePeers(spec, found);
  }
  return { kind: 'ClusterNetworkPolicy', apiGroup, ...toIdentity(raw), ...retryOf(raw), spec };
}

/** Any value will do; of a long one, the first characters count. */
function retryOf(raw: FieldMap): { readonly retry?: string } {
  const value = asFields(asFields(raw.metadata)?.annotations)?.[RETRY_ANNOTATION];
  return typeof value === 'string' ? { retry: value.slice(0, LONGEST_RETRY) } : {};
}

/** With a new value, a version that was rolled back is tried again. */
export const RETRY_ANNOTATION = 'nodewall.io/retry';
const LONGEST_RETRY = 64;

function checkSpec(spec: FieldMap, apiGroup: ApiGroup, found: Findings): void {
  for (const field of ['mode', 'traffic', 'established', 'rollout']) {
    if (field in spec && apiGroup !== 'nodewall.io') {
      const message = `unknown field in ${apiGroup}; it belongs to nodewall.io/v1alpha1 policies`;
      found.error(['spec', field], message);
    }
  }
  if (spec.traffic === 'NodePort' && asList(spec.egress).length > 0) {
    const message =
      'must be left out: NodePort traffic is ingress, so a policy for it has ingress rules only';
    found.error(['spec', 'egress'], message);
  }
  checkAppliedTo(spec.appliedTo, ['spec', 'appliedTo'], found);
  checkAppliedToPlaces(spec, found);
  const isBaseline = typeof spec.tier === 'string' && spec.tier.toLowerCase() === 'baseline';
  const isAudit = spec.mode === 'Audit';
  const names = new Map<string, string>();
  for (const direction of ['ingress', 'egress'] as const) {
    for (const [index, rule] of asList(spec[direction]).entries()) {
      const path = ['spec', direction, index];
      checkRule(rule, path, { direction, apiGroup, isBaseline, isAudit }, found);
      checkRuleName(asFields(rule)?.name, { direction, index, names }, found);
    }
  }
}

function checkRuleName(
  name: unknown,
  rule: { readonly direction: Direction; readonly index: number; readonly names: Map<string, string> },
  found: Findings,
): void {
  if (typeof name !== 'string' || name === '') return;
  const place = `spec.${rule.direction}[${rule.index}]`;
  const first = rule.names.get(name);
  if (first === undefined) rule.names.set(name, place);
  else {
    const path = ['spec', rule.direction, rule.index, 'name'];
    found.error(path, `${show(name)} is already the name of ${first}; rule names must be unique in a policy`);
  }
}

/** Converts a spec that passed the checks to canonical form: without defaults and empty lists. */
function toSpec({
  tier,
  priority,
  appliedTo = [],
  ingress,
  egress,
  mode = 'Enforce',
  traffic = 'Host',
  established = 'Keep',
  rollout,
}: ClusterNetworkPolicySpec): ClusterNetworkPolicySpec {
  return {
    ...(tier === undefined || tier === '' ? {} : { tier }),
    priority,
    ...(appliedTo.length === 0 ? {} : { appliedTo: toAppliedTo(appliedTo) }),
    ...(ingress === undefined ? {} : { ingress: ingress.map(toRule) }),
    ...(egress === undefined ? {} : { egress: egress.map(toRule) }),
    ...(mode === 'Enforce' ? {} : { mode }),
    ...(traffic === 'Host' ? {} : { traffic }),
    ...(established === 'Keep' ? {} : { established }),
    ...(rollout === undefined ? {} : { rollout: toRollout(rollout) }),
  };
}
